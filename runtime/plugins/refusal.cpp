#include "plugins/refusal.h"

namespace lf {

std::string one_line(std::string_view text) {
  constexpr size_t kMost = 400;
  std::string out(text.substr(0, kMost));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return text.size() > kMost ? out + "..." : out;
}

}  // namespace lf
