#include "family/adapters.h"

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {
namespace {

// FNV-1a (draft-eastlake-fnv): the same on every machine.
uint64_t id_of(const std::string& name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

}  // namespace

AdapterTable::AdapterTable(const ModelSpec& model, std::span<const lf_adapter> adapters) {
  for (const lf_adapter& asked : adapters) {
    const auto refuse = [&](const std::string& what) {
      throw sdk::Failure(LF_E_INVALID, fmt::format("adapter on part {} of parameter {} of component {}: {}", asked.part,
                                                   asked.param, asked.component, what));
    };
    if (asked.component >= model.components.size() ||
        asked.param >= model.components[asked.component].parameters.size() ||
        asked.part >= model.components[asked.component].parameters[asked.param].parts.size())
      refuse("there is none");
    const components::ParameterTable& table = model.components[asked.component].parameters;
    const components::ParameterSpec& spec = table[asked.param];
    const bool stack = spec.expert && spec.shape.size() == 3;
    if (!spec.linear || spec.buffer || spec.dead || (!stack && (spec.shape.size() != 2 || spec.join_axis != 0)))
      refuse(spec.name + " is no linear map");
    if (stack && (asked.part != 0 || asked.dropout != 0))
      refuse(spec.name + " is a stack of experts, which has one adapter, on part 0 and without dropout");
    if (asked.rank < 1 || !(asked.dropout >= 0 && asked.dropout < 1))
      refuse(
          fmt::format("expected a rank of at least 1 and dropout in [0, 1), got {} and {}", asked.rank, asked.dropout));
    for (const Placed& placed : all_)
      if (placed.component == asked.component && placed.param == asked.param && placed.part == asked.part)
        refuse("it has one already");
    Placed placed{asked.component, spec.unit, asked.param, asked.part, {}};
    UnitAdapter& adapter = placed.adapter;
    for (uint32_t before = 0; before < asked.param; ++before) adapter.index += table[before].unit == spec.unit ? 1 : 0;
    for (uint32_t part = 0; part < asked.part; ++part) adapter.first_row += spec.parts[part].shape[0];
    adapter.rows = stack ? spec.shape[2] : spec.parts[asked.part].shape[0];
    adapter.experts = stack ? spec.shape[0] : 1;
    adapter.in = spec.shape[1];
    adapter.rank = asked.rank;
    adapter.scale = asked.scale;
    adapter.dropout = spec.lookup ? 0 : asked.dropout;  // ids are not dropped
    adapter.id = id_of(spec.parts[asked.part].name);
    all_.push_back(placed);
  }
}

std::vector<UnitAdapter> AdapterTable::of(uint32_t component, uint32_t unit) const {
  std::vector<UnitAdapter> found;
  for (const Placed& placed : all_)
    if (placed.component == component && placed.unit == unit) found.push_back(placed.adapter);
  return found;
}

}  // namespace lf::family
