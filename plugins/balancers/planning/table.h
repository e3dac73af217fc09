// From a policy in C++ to the table of "lf.balancer/1".
//
// A policy is a type with `explicit Policy(std::string_view options_json)`, which throws sdk::Failure for a bad
// setting, and `void plan(const lf_balance_input&, lf_assignment* out, lf_balance_report&) const`, pure.
#pragma once

#include <memory>

#include "lf/plugin_api/balancer.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::planning {

template <typename Policy>
int32_t create(const lf_host*, lf_str options_json, lf_balancer* out, lf_err* err) {
  return sdk::guard(err, [&] { *out = reinterpret_cast<lf_balancer>(new Policy(sdk::view(options_json))); });
}

template <typename Policy>
int32_t destroy(lf_balancer balancer, lf_err* err) {
  return sdk::guard(err, [&] { delete reinterpret_cast<Policy*>(balancer); });
}

template <typename Policy>
int32_t plan(lf_balancer balancer, const lf_balance_input* input, lf_assignment* out, lf_balance_report* report,
             lf_err* err) {
  return sdk::guard(err, [&] { reinterpret_cast<const Policy*>(balancer)->plan(*input, out, *report); });
}

template <typename Policy>
constexpr lf_balancer_api table() {
  return lf_balancer_api{
      {sizeof(lf_balancer_api), LF_ABI_MAJOR, LF_ABI_MINOR}, &create<Policy>, &destroy<Policy>, &plan<Policy>};
}

}  // namespace lf::planning
