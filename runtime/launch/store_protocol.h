// The key-value store that the launcher serves to the workers of one host: what goes over its Unix socket.
//
// One request, one reply, in turn; both are frames: u32 size of the rest, one byte (StoreOp, StoreStatus), then fields.
// A field is text (u32 size, bytes) or a number (i64). Little endian, like every machine a plugin can be built for.
//
//   kSet         key, value                    -> kOk
//   kGet         key                           -> kOk value | kAbsent          never waits
//   kAdd         key, number                   -> kOk number                   of decimal text; of an absent key 0
//   kWait        number (ms), key, key, ...    -> kOk | kTimeout               until all keys are there
//   kCheck       key, key, ...                 -> kOk number                   1: all are there
//   kErase       key                           -> kOk number                   1: it was there
//   kNumKeys                                   -> kOk number
//   kCompareSet  key, expected, desired        -> kOk value                    as c10d::Store::compareSet has it
//
// A request that is none is answered kRefused with a text, and the connection is closed.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lf {

enum class StoreOp : uint8_t {
  kSet = 1,
  kGet = 2,
  kAdd = 3,
  kWait = 4,
  kCheck = 5,
  kErase = 6,
  kNumKeys = 7,
  kCompareSet = 8
};
enum class StoreStatus : uint8_t { kOk = 0, kAbsent = 1, kTimeout = 2, kRefused = 3 };

inline constexpr uint32_t kMostStoreFrameBytes = 16u << 20;
inline constexpr uint64_t kMostStoreBytes = uint64_t{256} << 20;  // keys and values together

class StoreFrameWriter {
 public:
  explicit StoreFrameWriter(uint8_t first);
  StoreFrameWriter& text(std::string_view value);
  StoreFrameWriter& number(int64_t value);
  std::string finish();  // with the size in front

 private:
  std::string bytes_;
};

// Thrown by StoreFrameReader; its text says what is wrong with the frame.
class BadStoreFrame : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reads a frame without its size, which it borrows. Never reads past its end: throws BadStoreFrame.
class StoreFrameReader {
 public:
  explicit StoreFrameReader(std::string_view bytes);
  uint8_t first() const { return first_; }
  std::string_view text();
  int64_t number();
  bool at_end() const { return rest_.empty(); }
  void end() const;

 private:
  std::string_view take(size_t size);
  std::string_view rest_;
  uint8_t first_ = 0;
};

}  // namespace lf
