// A tar archive out of names and data, as short as the format allows.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

namespace lf {

// `type` and `size` may lie.
inline std::string tar_header(const std::string& name, uint64_t size, char type = '0') {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  std::snprintf(block.data() + 100, 8, "%07o", 0644);
  std::snprintf(block.data() + 124, 12, "%011llo", static_cast<unsigned long long>(size));
  block[135] = '\0';
  block[156] = type;
  std::memcpy(block.data() + 257, "ustar\00000", 8);
  std::memset(block.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  std::snprintf(block.data() + 148, 8, "%06o", sum);
  return block;
}

inline std::string tar_member(const std::string& name, const std::string& data) {
  return tar_header(name, data.size()) + data + std::string((512 - data.size() % 512) % 512, '\0');
}

inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace lf
