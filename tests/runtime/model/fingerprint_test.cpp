// What ranks compare before they train a model together.
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "model/description.h"

namespace lf {
namespace {

Description small() {
  Description d;
  d.components = {{"vision", 2, LF_ROWS_TOKEN, {"rows", "pairs"}, 0, 1},
                  {"language", 3, LF_ROWS_TOKEN, {"rows"}, 1, 1}};
  d.parameters.resize(2);
  d.parameters[0] = {.name = "a.weight", .shape = {4, 6}, .parts = {{.name = "a", .shape = {4, 6}}}};
  d.parameters[1] = {.name = "b.weight", .shape = {6}, .parts = {{.name = "b", .shape = {6}}}};
  d.parameter_unit = {1, 2};
  d.edges = {{"rows", 0, 1, 0, 6}};
  d.outputs = {{"logits", 12}};
  d.aux_names = {"balance"};
  Adapter adapter;
  adapter.up = 1;
  adapter.rank = 4;
  d.adapters = {adapter};
  return d;
}

TEST(Fingerprint, is_the_same_for_the_same_description_and_another_for_any_difference) {
  using Change = std::function<void(Description&)>;
  const std::vector<Change> changes = {
      [](Description&) {},
      [](Description& d) { d.components[0].n_units = 3; },
      [](Description& d) { d.components[0].features.pop_back(); },
      [](Description& d) { d.components[1].name = "text"; },
      [](Description& d) { d.parameters[0].name = "a.bias"; },
      [](Description& d) {
        d.parameters[0].shape = {6, 4};
      },
      [](Description& d) { d.parameters[0].flags = 1; },
      [](Description& d) { d.parameters[0].init = LF_INIT_NORMAL; },
      [](Description& d) { d.parameters[0].init_b = 0.02; },
      [](Description& d) { d.parameters[1].tied_to = 0; },
      [](Description& d) { d.parameters[0].parts[0].axis = 1; },
      [](Description& d) { d.parameters[0].parts[0].along = LF_ALONG_TP; },
      [](Description& d) { d.parameters[0].parts[0].piece = 2; },
      [](Description& d) { d.parameter_unit[1] = 1; },
      [](Description& d) { d.edges[0].to_unit = 1; },
      [](Description& d) { d.outputs[0].columns = 13; },
      [](Description& d) { d.aux_names.clear(); },
      [](Description& d) { d.adapters[0].dropout = 0.1; },
  };
  std::set<std::string> seen;
  for (const Change& change : changes) {
    Description changed = small();
    change(changed);
    seen.insert(fingerprint(changed));
  }
  EXPECT_EQ(seen.size(), changes.size());
  EXPECT_EQ(fingerprint(small()), fingerprint(small()));
}

}  // namespace
}  // namespace lf
