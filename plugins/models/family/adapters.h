// The low-rank adapters that a host gave a model (lf_model_api.adapt), as stages need them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "family/model.h"
#include "lf/plugin_api/model.h"

namespace lf::family {

// An adapter on rows [first_row, first_row + rows) of a linear map [.., in], or on all of a stack of such maps.
struct UnitAdapter {
  size_t index = 0;  // of the map among its unit's parameters
  int64_t first_row = 0, rows = 0, in = 0, rank = 0;
  int64_t experts = 1;  // of a stack: A is [experts rank, in], B [rows, rank experts]
  double scale = 1, dropout = 0;
  uint64_t id = 0;  // from the name of the part
};

class AdapterTable {
 public:
  AdapterTable() = default;
  // Throws sdk::Failure(LF_E_INVALID) for what is no part of a linear parameter, has an adapter already, or has numbers
  // out of range.
  AdapterTable(const ModelSpec& model, std::span<const lf_adapter> adapters);

  // In the order in which they were given.
  std::vector<UnitAdapter> of(uint32_t component, uint32_t unit) const;

 private:
  struct Placed {
    uint32_t component, unit, param, part;
    UnitAdapter adapter;
  };
  std::vector<Placed> all_;
};

}  // namespace lf::family
