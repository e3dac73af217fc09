#include "family/findings.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

void Findings::add(const std::string& field, const std::string& text) {
  if (unsound_.insert(field).second) mistakes_.push_back(text);
}

void Findings::took(const std::string& place, const std::string& name, const std::string& value) {
  const auto known =
      std::find_if(taken_.begin(), taken_.end(), [&](const Taken& taken) { return taken.place == place; });
  Taken& taken = known != taken_.end() ? *known : taken_.emplace_back(Taken{place, {}});
  taken.values.push_back(fmt::format("{} {}", name, value));
}

void Findings::take(const Findings& other, const std::function<std::string(const std::string&)>& renamed) {
  for (const std::string& text : other.mistakes_)
    if (const std::string ours = renamed(text); !ours.empty()) add(ours, ours);
  for (const std::string& text : other.remarks_)
    if (const std::string ours = renamed(text); !ours.empty()) remark(ours);
  for (const Taken& taken : other.taken_)
    if (const std::string ours = renamed(taken.place); !ours.empty()) taken_.push_back({ours, taken.values});
}

void Findings::refuse_if_any() const {
  if (!mistakes_.empty()) throw sdk::Failure(LF_E_INVALID, fmt::format("{}", fmt::join(mistakes_, "\n")));
}

void Findings::tell(const lf_host* host) const {
  if (host == nullptr || host->log == nullptr) return;
  for (const Taken& taken : taken_) {
    const std::string text = fmt::format("{}: left out and taken as the reference's class has them: {}", taken.place,
                                         fmt::join(taken.values, ", "));
    host->log(host, LF_LOG_WARNING, sdk::str(text));
  }
  for (const std::string& text : remarks_) host->log(host, LF_LOG_WARNING, sdk::str(text));
}

}  // namespace lf::family
