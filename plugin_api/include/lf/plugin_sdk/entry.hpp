// Entries of a table out of functions that throw. A table whose entries all come from here lets no exception out: a
// function without `entry` does not have the type that a table wants.
//
//   void plan(lf_balancer, const lf_balance_input* input, lf_assignment* out, lf_balance_report* report);
//   table.plan = lf::sdk::entry<plan>;  // its parameters and an lf_err* behind them; what it throws ends up there
#pragma once

#include "lf/plugin_sdk/guard.hpp"

namespace lf::sdk {

template <auto kBody>
struct EntryOf;

template <typename... Parameters, void (*kBody)(Parameters...)>
struct EntryOf<kBody> {
  static int32_t call(Parameters... parameters, lf_err* err) noexcept {
    return guard(err, [&] { kBody(parameters...); });
  }
};

template <auto kBody>
inline constexpr auto entry = &EntryOf<kBody>::call;

}  // namespace lf::sdk
