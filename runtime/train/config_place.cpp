#include "train/config_place.h"

#include <regex>

namespace lf {

std::string with_config_place(const std::string& message, const std::filesystem::path& file) {
  // A name of its own: not preprocessor_config.json, and not the end of a path. Behind it perhaps a field.
  static const std::regex kPlace(R"((^|[^\w./-])config\.json(?:\.(?=\w)|: (?=[\w.]+(?::| =)))?)");
  std::string placed;
  auto from = message.cbegin();
  for (std::sregex_iterator found(message.begin(), message.end(), kPlace), end; found != end; ++found) {
    const std::string whole = found->str();
    placed.append(from, (*found)[0].first).append((*found)[1].str());
    from = (*found)[0].second;
    const bool field = !whole.ends_with("config.json");
    placed += file.empty() ? "model.options" : file.string();
    if (field) placed += file.empty() ? "." : ": ";
  }
  return placed.append(from, message.cend());
}

}  // namespace lf
