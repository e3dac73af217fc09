// A file descriptor that is closed with its scope.
#pragma once

#include <utility>

#include <unistd.h>

namespace lf {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}  // below 0: none
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

}  // namespace lf
