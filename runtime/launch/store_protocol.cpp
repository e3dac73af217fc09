#include "launch/store_protocol.h"

#include <cstring>

namespace lf {

StoreFrameWriter::StoreFrameWriter(uint8_t first) : bytes_(sizeof(uint32_t), '\0') {
  bytes_.push_back(static_cast<char>(first));
}

StoreFrameWriter& StoreFrameWriter::text(std::string_view value) {
  const auto size = static_cast<uint32_t>(value.size());  // where it does not fit, finish() refuses the whole
  bytes_.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes_.append(value);
  return *this;
}

StoreFrameWriter& StoreFrameWriter::number(int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

std::string StoreFrameWriter::finish() {
  const size_t size = bytes_.size() - sizeof(uint32_t);
  if (size > kMostStoreFrameBytes) throw BadStoreFrame("keys and values are larger than a frame may be");
  const auto head = static_cast<uint32_t>(size);
  std::memcpy(bytes_.data(), &head, sizeof head);
  return std::move(bytes_);
}

StoreFrameReader::StoreFrameReader(std::string_view bytes) : rest_(bytes) { first_ = static_cast<uint8_t>(take(1)[0]); }

std::string_view StoreFrameReader::take(size_t size) {
  if (size > rest_.size()) throw BadStoreFrame("a frame ends inside a field");
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::string_view StoreFrameReader::text() {
  uint32_t size = 0;
  std::memcpy(&size, take(sizeof size).data(), sizeof size);
  return take(size);
}

int64_t StoreFrameReader::number() {
  int64_t value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

void StoreFrameReader::end() const {
  if (!at_end()) throw BadStoreFrame("a frame has bytes after its last field");
}

}  // namespace lf
