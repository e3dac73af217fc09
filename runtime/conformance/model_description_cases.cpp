// What a model must hold in saying what it is: creation, components, edges, parameters, boundaries.
#include <algorithm>
#include <cstring>
#include <set>

#include "conformance/family.h"
#include "conformance/model_case_lists.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::kit {
namespace {

void offers_required(Bench& b) {
  const auto* api = b.table<Api>(LF_MODEL_INTERFACE);
  const std::pair<const char*, bool> needed[] = {
      {"create", b.has<&Api::create>(api)},
      {"destroy", b.has<&Api::destroy>(api)},
      {"components", b.has<&Api::components>(api)},
      {"param", b.has<&Api::param>(api)},
      {"part", b.has<&Api::part>(api)},
      {"feature_names", b.has<&Api::feature_names>(api)},
      {"features", b.has<&Api::features>(api)},
      {"collate", b.has<&Api::collate>(api)},
      {"stage_new", b.has<&Api::stage_new>(api)},
      {"stage_free", b.has<&Api::stage_free>(api)},
      {"bind", b.has<&Api::bind>(api)},
      {"forward", b.has<&Api::forward>(api)},
      {"backward", b.has<&Api::backward>(api)},
      {"drop", b.has<&Api::drop>(api)},
  };
  for (const auto& [name, there] : needed) expect(there, "expected lf_model_api.{}, got null", name);
}

void abilities_have_their_functions(Bench& b) {
  const auto* api = b.table<Api>(LF_MODEL_INTERFACE);
  expect((api->abilities & LF_MODEL_STAGES) == 0 || b.has<&Api::boundary>(api),
         "LF_MODEL_STAGES is stated; expected boundary, got null");
  expect((api->abilities & LF_MODEL_DRY_RUN) == 0 || b.has<&Api::dry_run>(api),
         "LF_MODEL_DRY_RUN is stated; expected dry_run, got null");
}

void bad_configs_are_refused(Bench& b) {
  b.start();
  const auto* api = b.table<Api>(LF_MODEL_INTERFACE);
  lf_model model = nullptr;
  for (const char* config : {"", "{", "[]", "nonsense", R"({"config": {}})", R"({"config": {"model_type": "toaster"}})",
                             R"({"config": {"hidden_size": -1, "width": -1, "vocab_size": 1e30}})"})
    b.ask<&Api::create>(api, b.host().table(), sdk::str(config), &model).must_fail();
}

void two_models_live_side_by_side(Bench& b) {
  Family first(b);
  lf_model second = nullptr;
  first.ask<&Api::create>(b.host().table(), sdk::str(first.the_case.create_json), &second).must_succeed();
  expect(second != first.model, "create: expected a model of its own, got the first one again");
  first.ask<&Api::destroy>(second).must_succeed();
  first.features(first.the_case.samples[0]);
}

void describes_itself_twice_alike(Bench& b) {
  Family family(b);
  lf_model second = nullptr;
  family.ask<&Api::create>(b.host().table(), sdk::str(family.the_case.create_json), &second).must_succeed();
  for (uint32_t c = 0; c < family.components.size(); ++c)
    for (uint32_t i = 0; i < family.components[c].n_params; ++i) {
      auto again = sdk::with_header<lf_param>();
      family.ask<&Api::param>(second, c, i, &again).must_succeed();
      const lf_param& first = family.parameters[c][i].description;
      expect(sdk::view(again.name) == family.parameters[c][i].name && again.unit == first.unit &&
                 again.flags == first.flags && elements(again) == elements(first),
             "param {} of component {}: expected the same description from two models, got two", i, c);
    }
  family.ask<&Api::destroy>(second).must_succeed();
}

void components_are_sound(Bench& b) {
  Family family(b);
  std::set<std::string> names;
  for (const lf_component& c : family.components) {
    const std::string name(sdk::view(c.name));
    expect(!name.empty() && names.insert(name).second, "components: expected names that differ, got \"{}\"", name);
    expect(c.n_units >= 1, "component {}: expected at least 1 unit, got 0", name);
    expect(c.rows >= LF_ROWS_TOKEN && c.rows <= LF_ROWS_SAMPLE, "component {}: unknown kind of rows {}", name, c.rows);
    expect(c.n_features >= 1, "component {}: expected at least the feature rows, got none", name);
  }
  expect(family.components.back().n_features >= 2,
         "the last component: expected the features rows and loss weight, got {}", family.components.back().n_features);
}

void arrays_are_filled_up_to_cap(Bench& b) {
  Family family(b);
  std::vector<lf_component> few(family.components.size() + 1, sdk::with_header<lf_component>());
  uint32_t n = 0;
  const auto cap = static_cast<uint32_t>(family.components.size() - 1);
  const lf_component untouched = few[cap];
  family.ask<&Api::components>(family.model, few.data(), cap, &n).must_succeed();
  expect(n == family.components.size(), "components with cap {}: expected the true count {}, got {}", cap,
         family.components.size(), n);
  expect(std::memcmp(&few[cap], &untouched, sizeof untouched) == 0, "components: wrote more than cap {}", cap);
}

void edges_lead_onwards(Bench& b) {
  Family family(b);
  for (const lf_edge& e : family.edges) {
    expect(e.from < e.to && e.to < family.components.size(), "edge {}: expected a later component, got {} to {}",
           sdk::view(e.name), e.from, e.to);
    expect(e.to_unit < family.components[e.to].n_units && e.from_unit < family.components[e.from].n_units,
           "edge {}: expected units in range, got {} and {}", sdk::view(e.name), e.from_unit, e.to_unit);
    expect(e.port.columns >= 1, "edge {}: expected columns, got {}", sdk::view(e.name), e.port.columns);
  }
}

void parameters_are_in_the_order_of_units(Bench& b) {
  Family family(b);
  for (size_t c = 0; c < family.components.size(); ++c) {
    uint32_t unit = 0;
    for (const Parameter& p : family.parameters[c]) {
      expect(p.description.unit >= unit && p.description.unit < family.components[c].n_units,
             "parameter {}: unit {} is out of order or range", p.name, p.description.unit);
      unit = p.description.unit;
      expect(elements(p.description) > 0, "parameter {}: expected elements, got a shape without", p.name);
      expect(p.description.init >= LF_INIT_ZEROS && p.description.init <= LF_INIT_UNIFORM,
             "parameter {}: unknown init {}", p.name, p.description.init);
    }
  }
}

void parameter_names_differ(Bench& b) {
  Family family(b);
  std::set<std::string> names;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table)
      expect(!p.name.empty() && names.insert(p.name).second, "expected names of parameters that differ, got \"{}\"",
             p.name);
}

// What is saved under a name is found under it: no two parts share a file tensor, and each fills its place exactly.
void file_names_round_trip(Bench& b) {
  Family family(b);
  std::set<std::string> names;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      if (p.tied >= 0) continue;
      expect(!p.parts.empty(), "parameter {}: expected at least one part, got none", p.name);
      const int32_t axis = p.description.join_axis;
      int64_t joined = 0;
      for (const lf_part& part : p.parts) {
        const std::string name(sdk::view(part.name));
        expect(!name.empty(), "parameter {}: a part without a name", p.name);
        expect(names.insert(name).second, "two parts are saved as {}", name);
        expect(part.ndim == p.description.ndim, "part {}: expected {} dimensions, got {}", name, p.description.ndim,
               part.ndim);
        for (int32_t d = 0; d < part.ndim; ++d)
          expect(d == axis || part.shape[d] == p.description.shape[d], "part {}: axis {} is {}, the parameter's is {}",
                 name, d, part.shape[d], p.description.shape[d]);
        if (part.ndim > 0) joined += part.shape[axis];
        const bool stacked = (part.flags & LF_PART_STACK) != 0;
        expect(!stacked || name.find("{}") != name.npos, "part {}: is a stack; expected {{}} in its name", name);
      }
      expect(p.description.ndim == 0 || joined == p.description.shape[axis],
             "parameter {}: its parts cover {} of {} along axis {}", p.name, joined, p.description.shape[axis], axis);
    }
}

void ties_are_of_one_size(Bench& b) {
  Family family(b);  // which refuses ties to later parameters
  bool any = false;
  for (auto& table : family.parameters)
    for (Parameter& p : table) {
      any |= p.tied >= 0;
      expect(elements(p.description) == elements(family.owner(p).description),
             "parameter {}: is tied to one of another size", p.name);
    }
  if (!any) throw Skip("no parameter is tied");
}

// A host of an older ABI knows less of a struct: what lies behind its end is not the plugin's to write.
template <auto kFunction, typename T, typename... Indices>
void expect_no_overrun(Family& family, const char* what, size_t known, Indices... indices) {
  struct {
    T value;
    uint8_t behind[64];
  } memory;
  std::memset(static_cast<void*>(&memory), 0xA5, sizeof memory);
  std::memset(static_cast<void*>(&memory.value), 0, known);
  memory.value.h = lf_hdr{static_cast<uint32_t>(known), LF_ABI_MAJOR, LF_ABI_MINOR};
  family.ask<kFunction>(family.model, indices..., &memory.value).must_succeed();
  expect(memory.value.h.size == known, "{}: expected h.size left at {}, got {}", what, known, memory.value.h.size);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&memory);
  for (size_t i = known; i < sizeof memory; ++i)
    expect(bytes[i] == 0xA5, "{}: expected {} bytes written at most, as h.size says; byte {} was written too", what,
           known, i);
}

void older_hosts_are_not_overrun(Bench& b) {
  Family family(b);
  for (uint32_t c = 0; c < family.components.size(); ++c)
    for (uint32_t i = 0; i < family.components[c].n_params; ++i) {
      // Up to the member that was appended last, and the last one that could have been.
      expect_no_overrun<&Api::param, lf_param>(family, "param", offsetof(lf_param, sign_step), c, i);
      for (uint32_t k = 0; k < family.parameters[c][i].description.n_parts; ++k)
        expect_no_overrun<&Api::part, lf_part>(family, "part", offsetof(lf_part, stack), c, i, k);
    }
}

void newer_hosts_keep_their_members(Bench& b) {
  Family family(b);
  struct {
    lf_param known;
    uint64_t member;
  } param{};
  struct {
    lf_part known;
    uint64_t member;
  } part{};
  param.known.h = lf_hdr{sizeof param, LF_ABI_MAJOR, LF_ABI_MINOR};
  part.known.h = lf_hdr{sizeof part, LF_ABI_MAJOR, LF_ABI_MINOR};
  family.ask<&Api::param>(family.model, 0u, 0u, &param.known).must_succeed();
  family.ask<&Api::part>(family.model, 0u, 0u, 0u, &part.known).must_succeed();
  expect(param.member == 0 && part.member == 0, "expected members of the future left at 0, got {} and {}", param.member,
         part.member);
  expect(param.known.h.size == sizeof param && part.known.h.size == sizeof part,
         "expected h.size left as the host set it, got {} and {}", param.known.h.size, part.known.h.size);
}

void wrong_indices_are_refused(Bench& b) {
  Family family(b);
  auto param = sdk::with_header<lf_param>();
  auto part = sdk::with_header<lf_part>();
  std::string names;
  const auto beyond = static_cast<uint32_t>(family.components.size());
  family.ask<&Api::param>(family.model, beyond, 0u, &param).must_fail();
  family.ask<&Api::param>(family.model, 0u, family.components[0].n_params, &param).must_fail();
  family.ask<&Api::part>(family.model, 0u, 0u, 1000000u, &part).must_fail();
  family.ask<&Api::feature_names>(family.model, beyond, sdk::string_sink(names)).must_fail();
}

void feature_names_are_counted(Bench& b) {
  Family family(b);
  for (uint32_t c = 0; c < family.components.size(); ++c) {
    std::string names;
    family.ask<&Api::feature_names>(family.model, c, sdk::string_sink(names)).must_succeed();
    expect(!names.empty() && names.back() == '\0', "feature_names: expected names that each end with a NUL");
    const auto n = static_cast<uint32_t>(std::count(names.begin(), names.end(), '\0'));
    expect(n == family.components[c].n_features, "feature_names of component {}: expected {}, got {}", c,
           family.components[c].n_features, n);
  }
}

void boundaries_are_described(Bench& b) {
  Family family(b);
  if ((family.api->abilities & LF_MODEL_STAGES) == 0) throw Skip("LF_MODEL_STAGES is not stated");
  for (uint32_t c = 0; c < family.components.size(); ++c)
    for (uint32_t unit = 1; unit < family.components[c].n_units; ++unit) {
      lf_port ports[8];
      std::fill(std::begin(ports), std::end(ports), sdk::with_header<lf_port>());
      uint32_t n = 0;
      family.ask<&Api::boundary>(family.model, c, unit, ports, 8u, &n).must_succeed();
      expect(n >= 1 && n <= 8, "boundary before unit {}: expected 1 to 8 ports, got {}", unit, n);
      expect(ports[0].columns >= 1, "boundary before unit {}: expected columns, got {}", unit, ports[0].columns);
    }
}

}  // namespace

std::vector<Case> model_description_cases() {
  return {
      {"required_functions_are_there", offers_required},
      {"every_stated_ability_has_its_function", abilities_have_their_functions},
      {"bad_configs_are_refused", bad_configs_are_refused},
      {"two_models_live_side_by_side", two_models_live_side_by_side},
      {"a_model_describes_itself_alike_every_time", describes_itself_twice_alike},
      {"components_are_sound", components_are_sound},
      {"arrays_are_filled_up_to_their_cap", arrays_are_filled_up_to_cap},
      {"edges_lead_to_later_components", edges_lead_onwards},
      {"parameters_are_in_the_order_of_units", parameters_are_in_the_order_of_units},
      {"parameter_names_differ", parameter_names_differ},
      {"file_names_round_trip", file_names_round_trip},
      {"tied_parameters_are_of_one_size", ties_are_of_one_size},
      {"descriptions_write_no_more_than_an_older_host_knows", older_hosts_are_not_overrun},
      {"descriptions_leave_members_of_a_newer_host_alone", newer_hosts_keep_their_members},
      {"wrong_indices_are_refused", wrong_indices_are_refused},
      {"feature_names_are_as_many_as_features", feature_names_are_counted},
      {"boundaries_are_described", boundaries_are_described},
  };
}

}  // namespace lf::kit
