// A failure of one rank made everyone's, so that all stop at the same step.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "core/exchange.h"

namespace lf {

// Calls body() -> std::string and gathers the results, or throws on every rank the error of the first rank that failed.
// Every rank calls it, in the same order.
template <typename Body>
std::vector<std::string> gather_or_fail(Exchange& exchange, Body&& body);

// The two halves of it: a message is a result or an error.
std::string result_message(std::string result);
std::string error_message(std::exception_ptr error);
std::vector<std::string> results_or_fail(std::vector<std::string> messages);

template <typename Body>
std::vector<std::string> gather_or_fail(Exchange& exchange, Body&& body) {
  std::string mine;
  try {
    mine = result_message(body());
  } catch (...) {
    mine = error_message(std::current_exception());
  }
  return results_or_fail(exchange.all_gather(mine));
}

}  // namespace lf
