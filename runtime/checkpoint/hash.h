// xxh3-128: finds any change of bytes, at the speed of memory. No protection against someone who means it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lf {

// Of bytes handed over in any number of pieces.
class Hash {
 public:
  Hash();
  Hash(Hash&&) noexcept;
  Hash& operator=(Hash&&) noexcept;
  ~Hash();
  void add(const void* bytes, uint64_t size);
  std::string hex() const;  // 32 digits, as `xxhsum -H2` prints them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_hex(std::string_view bytes);
std::string hash_hex(std::span<const std::byte> bytes);

}  // namespace lf
