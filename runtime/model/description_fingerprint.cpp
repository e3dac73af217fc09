#include <utility>

#define XXH_INLINE_ALL
#include <fmt/ranges.h>
#include <xxhash.h>

#include "model/description.h"

namespace lf {
namespace {

// A text of everything: two descriptions are the same where it is.
std::string text_of(const Description& description) {
  std::string text;
  const auto line = [&text](auto&&... values) {
    ((text += fmt::format("{}\x1f", std::forward<decltype(values)>(values))), ...);
    text += '\n';
  };
  for (const Component& c : description.components)
    line("component", c.name, c.n_units, c.rows, fmt::join(c.features, ","), c.first_parameter, c.n_parameters);
  for (size_t i = 0; i < description.parameters.size(); ++i) {
    const ParameterInfo& p = description.parameters[i];
    line("parameter", p.name, fmt::join(p.shape, "x"), description.parameter_unit[i], p.join_axis, p.flags, p.init,
         p.init_a, p.init_b, p.sign_step, p.class_name, p.tied_to);
    for (const ParameterPart& part : p.parts)
      line("part", part.name, fmt::join(part.shape, "x"), part.flags, part.axis, part.along, part.piece, part.stack,
           part.class_name);
  }
  for (const Edge& edge : description.edges) line("edge", edge.name, edge.from, edge.to, edge.to_unit, edge.columns);
  for (const Output& output : description.outputs) line("output", output.name, output.columns);
  for (const std::string& name : description.aux_names) line("aux", name);
  for (const Adapter& a : description.adapters)
    line("adapter", a.parameter, a.part, a.down, a.up, a.rank, a.alpha, a.dropout, a.module, a.stack, a.shares);
  return text;
}

}  // namespace

std::string fingerprint(const Description& description) {
  const std::string text = text_of(description);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace lf
