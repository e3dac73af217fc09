#include "core/host.h"

#include "core/log.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

log::Level to_level(int32_t level) {
  switch (level) {
    case LF_LOG_DEBUG:
      return log::Level::kDebug;
    case LF_LOG_INFO:
      return log::Level::kInfo;
    case LF_LOG_WARNING:
      return log::Level::kWarning;
    default:
      return log::Level::kError;
  }
}

}  // namespace

Host::Host() : table_(sdk::with_header<lf_host>()) {
  table_.context = this;
  table_.get_extension = [](const lf_host* host, lf_str id) -> const void* {
    const auto& offered = of(host).extensions_;
    const auto found = offered.find(sdk::view(id));
    return found == offered.end() ? nullptr : found->second.table;
  };
  table_.log = [](const lf_host* host, int32_t level, lf_str text) {
    const auto& words = of(host).words_;
    if (words)
      log::write(to_level(level), words(std::string(sdk::view(text))));
    else
      log::write(to_level(level), sdk::view(text));
  };
  table_.option = [](const lf_host* host, lf_str name, lf_sink json, lf_err* err) {
    return sdk::guard(err, [&] {
      const std::string value = of(host).options_ ? of(host).options_(sdk::view(name)) : std::string();
      if (value.empty()) throw sdk::Failure(LF_E_INVALID, fmt::format("the job has no option {}", sdk::view(name)));
      sdk::put(json, value);
    });
  };
  table_.cancelled = [](const lf_host* host) -> int32_t { return of(host).cancelled() ? 1 : 0; };
}

void Host::offer(const std::string& extension_id, const void* table, void* state) {
  extensions_[extension_id] = Extension{table, state};
}

void Host::answer_options(std::function<std::string(std::string_view)> answer) { options_ = std::move(answer); }

}  // namespace lf
