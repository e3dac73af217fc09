// A failure of one rank made everyone's, so that all stop at the same step.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "core/exchange.h"

namespace lf {

// What a message is about: ranks that have run apart are found out before they take each other's messages for their
// own.
struct Stamp {
  std::string what;  // "step"
  int64_t number = 0;
};

// Calls body() -> std::string and gathers the results, or throws on every rank the error of the first rank that failed,
// or kBug naming the first rank whose stamp differs from rank 0's. Every rank calls it, in the same order.
template <typename Body>
std::vector<std::string> gather_or_fail(Exchange& exchange, const Stamp& stamp, Body&& body);

// The two halves of it: a message is a result or an error.
std::string result_message(const Stamp& stamp, const std::string& result);
std::string error_message(std::exception_ptr error);
std::vector<std::string> results_or_fail(std::vector<std::string> messages);

template <typename Body>
std::vector<std::string> gather_or_fail(Exchange& exchange, const Stamp& stamp, Body&& body) {
  std::string mine;
  try {
    mine = result_message(stamp, body());
  } catch (...) {
    mine = error_message(std::current_exception());
  }
  return results_or_fail(exchange.all_gather(mine));
}

}  // namespace lf
