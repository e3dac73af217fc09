#include "text/normalizer.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::text {
namespace {

utf8proc_option_t options_of(NormalForm form) {
  constexpr auto join = [](int a, int b) { return static_cast<utf8proc_option_t>(a | b); };
  switch (form) {
    case NormalForm::kNfc:
      return join(UTF8PROC_STABLE, UTF8PROC_COMPOSE);
    case NormalForm::kNfd:
      return join(UTF8PROC_STABLE, UTF8PROC_DECOMPOSE);
    case NormalForm::kNfkc:
      return join(join(UTF8PROC_STABLE, UTF8PROC_COMPOSE), UTF8PROC_COMPAT);
    case NormalForm::kNfkd:
      return join(join(UTF8PROC_STABLE, UTF8PROC_DECOMPOSE), UTF8PROC_COMPAT);
  }
  throw sdk::Failure(LF_E_BUG, "an unknown normal form");
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
}

}  // namespace

std::string_view Normalizer::apply(std::string_view text, std::string& storage) const {
  std::string_view current = text;
  for (const auto& [form, from, to] : steps_) {
    if (!form) {
      if (current.find(from) == current.npos) continue;
      storage = replaced(current, from, to);
      current = storage;
      continue;
    }
    if (is_ascii(current)) continue;  // every normal form leaves ASCII alone
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(current.data()),
                     static_cast<utf8proc_ssize_t>(current.size()), &mapped, options_of(*form));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    if (size < 0) throw sdk::Failure(LF_E_DATA, std::string("normalising text: ") + utf8proc_errmsg(size));
    storage.assign(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
    current = storage;
  }
  return current;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(from, at), text.size());
    out.append(text.substr(at, found - at));
    if (found < text.size()) out.append(to);
    at = found + from.size();
  }
  return out;
}

size_t invalid_utf8_at(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<signed char>(text[i]) >= 0) {
      ++i;
      continue;
    }
    utf8proc_int32_t letter = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + i,
                                       static_cast<utf8proc_ssize_t>(text.size() - i), &letter);
    if (size <= 0) return i;
    i += static_cast<size_t>(size);
  }
  return std::string_view::npos;
}

}  // namespace lf::text
