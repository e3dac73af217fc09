// Policy "minimax": makes the slowest replica as fast as it can be, by the objective of the layout. Settings:
//   moves   "free" (default): any sample anywhere; "few": as little as possible leaves its replica; "packs":
//   micro-batches
//           are moved whole
//   within  how far above the lower bound is good enough: 0.001, for "few" 0.015
#pragma once

#include <string>
#include <string_view>

#include "planning/packing.h"

namespace lf::planning {

class Minimax {
 public:
  explicit Minimax(std::string_view options_json);
  void plan(const lf_balance_input& input, lf_assignment* out, lf_balance_report& report) const;

 private:
  Packing pack(const Problem& problem) const;

  std::string moves_ = "free";
  double within_ = -1;  // < 0: by moves
};

}  // namespace lf::planning
