// A sample that is of no use.
#pragma once

#include <string>

#include "core/error.h"

namespace lf {

// The run goes on without it. what() is "file:line: field: reason".
class BadSample : public Error {
 public:
  explicit BadSample(const std::string& message) : Error(Exit::kBadData, message) {}
};

}  // namespace lf
