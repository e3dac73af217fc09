// Promises of lf/plugin_api/model.h: the description, samples, and what running a model must hold.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "conformance/family.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::kit {
namespace {

// ---- creation and description ----

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

// ---- samples ----

void features_are_numbers(Bench& b) {
  Family family(b);
  for (const std::string& json : family.the_case.samples) {
    const Family::Features f = family.features(json);
    expect(f.atoms.back() == 1, "features: expected 1 atom of the last component, got {}", f.atoms.back());
    for (const auto& numbers : f.numbers)
      for (const double number : numbers)
        expect(std::isfinite(number) && number >= 0, "features: expected numbers from 0 on, got {}", number);
    expect(f.numbers.back()[0] >= 1, "feature rows: expected at least 1, got {}", f.numbers.back()[0]);
    expect(f.numbers.back()[1] <= f.numbers.back()[0], "feature loss weight: expected at most the {} rows, got {}",
           f.numbers.back()[0], f.numbers.back()[1]);
  }
}

void features_are_pure(Bench& b) {
  Family family(b);
  const std::string& json = family.the_case.samples.front();
  const auto first = family.features(json).numbers;
  family.features(family.the_case.samples.back());
  expect(first == family.features(json).numbers, "features: expected the same numbers twice, got others");
}

void features_from_threads(Bench& b) {
  Family family(b);
  const lf_model model = family.model;
  std::vector<std::vector<double>> wanted;
  for (const std::string& json : family.the_case.samples) wanted.push_back(family.features(json).numbers.back());
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  b.crumb().enter("lf_model_api.features on 4 threads");
  for (std::string& said : wrong)
    threads.emplace_back([&] {  // not through Bench::ask: its breadcrumb is one for the whole process
      for (size_t i = 0; i < family.the_case.samples.size(); ++i) {
        auto sample = sdk::with_header<lf_sample>();
        sample.id = i;
        sample.json = sdk::str(family.the_case.samples[i]);
        sample.place = sdk::str("samples.jsonl");
        std::vector<uint32_t> atoms(family.components.size());
        std::string bytes;
        lf_err err = sdk::make_err();
        if (family.api->features(model, &sample, atoms.data(), sdk::string_sink(bytes), &err) != LF_OK)
          said = err.message;
        else if (bytes.size() < wanted[i].size() * sizeof(double) ||
                 std::memcmp(bytes.data() + bytes.size() - wanted[i].size() * sizeof(double), wanted[i].data(),
                             wanted[i].size() * sizeof(double)) != 0)
          said = "other numbers";
      }
    });
  for (std::thread& thread : threads) thread.join();
  b.crumb().leave();
  for (const std::string& said : wrong) expect(said.empty(), "features from 4 threads at once: {}", said);
}

void bad_samples_are_data_errors(Bench& b) {
  Family family(b);
  for (const char* json : {"", "{", "{}"}) {
    auto sample = sdk::with_header<lf_sample>();
    sample.json = sdk::str(json);
    sample.place = sdk::str("samples.jsonl:1");
    std::vector<uint32_t> atoms(family.components.size());
    std::string bytes;
    const Answer answer = family.ask<&Api::features>(family.model, static_cast<const lf_sample*>(&sample), atoms.data(),
                                                     sdk::string_sink(bytes));
    answer.may_fail();
    expect(answer.ok() || answer.code == LF_E_DATA, "features of \"{}\": expected LF_E_DATA, got error {}: {}", json,
           answer.code, answer.message);
  }
}

// In a conversation, or as a recorded frame, whose cameras are pictures (docs/samples.md).
bool holds_media(const std::string& json) {
  return std::ranges::any_of(std::array{R"("type":"image")", R"("type":"video")", R"("robot":)"},
                             [&](const char* mark) { return json.find(mark) != json.npos; });
}

// Of text alone: inside a picture nothing is cut, and where the whole sample is one there is nothing to cut.
void max_rows_cuts(Bench& b) {
  Family family(b);
  size_t longest = 0;
  double most = 0;
  for (size_t i = 0; i < family.the_case.samples.size(); ++i) {
    if (holds_media(family.the_case.samples[i])) continue;
    if (const double rows = family.features(family.the_case.samples[i]).numbers.back()[0]; rows > most)
      most = rows, longest = i;
  }
  if (most < 4) throw Skip("no sample of text alone with 4 rows in the case");
  const auto limit = static_cast<int64_t>(most) - 1;
  const auto cut = family.features(family.the_case.samples[longest], limit).numbers.back();
  expect(cut[0] <= static_cast<double>(limit), "features with max_rows {}: got {} rows", limit, cut[0]);
  family.build();
  const Columns columns = family.collate({family.the_case.samples[longest]}, limit);
  const double weight = family.run(columns, 0).weight;
  expect(weight == cut[1], "a cut sample: features state a loss weight of {}, forward counts {}", cut[1], weight);
}

void columns_are_tensors(Bench& b) {
  Family family(b);
  const Columns columns = family.collate(family.the_case.samples);
  std::set<std::string> names;
  for (const lf_named_tensor& column : columns.tensors) {
    const std::string name(sdk::view(column.name));
    expect(!name.empty() && names.insert(name).second, "collate: expected names that differ, got \"{}\"", name);
    const lf_tensor& t = column.tensor;
    expect(t.dtype >= LF_DTYPE_F32 && t.dtype <= LF_DTYPE_I8, "column {}: unknown dtype {}", name, t.dtype);
    expect(t.ndim >= 0 && t.ndim <= LF_MAX_DIMS, "column {}: {} dimensions", name, t.ndim);
    int64_t stride = 1;
    for (int32_t d = t.ndim; d-- > 0;) {
      expect(t.shape[d] >= 0, "column {}: a negative shape", name);
      expect(t.shape[d] <= 1 || t.strides[d] == stride, "column {}: expected it contiguous, got stride {} on axis {}",
             name, t.strides[d], d);
      stride *= t.shape[d];
    }
    expect(sdk::element_count(t) == 0 || t.data != nullptr, "column {}: elements without data", name);
  }
}

void collate_is_pure(Bench& b) {
  Family family(b);
  const Columns first = family.collate(family.the_case.samples), second = family.collate(family.the_case.samples);
  expect(first.tensors.size() == second.tensors.size(), "collate: {} columns, then {}", first.tensors.size(),
         second.tensors.size());
  for (size_t i = 0; i < first.tensors.size(); ++i) {
    const lf_tensor &a = first.tensors[i].tensor, &c = second.tensors[i].tensor;
    const int64_t bytes = sdk::element_count(a) * sdk::item_bytes(a.dtype);
    expect(bytes == sdk::element_count(c) * sdk::item_bytes(c.dtype) &&
               (bytes == 0 || std::memcmp(a.data, c.data, static_cast<size_t>(bytes)) == 0),
           "collate: column {} differs between two calls", sdk::view(first.tensors[i].name));
  }
}

void costs_are_numbers(Bench& b) {
  Family family(b);
  if (!family.has<&Api::cost>()) throw Skip("cost is not offered");
  double total = 0;
  for (const std::string& json : family.the_case.samples) {
    const Family::Features f = family.features(json);
    for (uint32_t c = 0; c < family.components.size(); ++c)
      for (uint32_t unit = 0; unit < family.components[c].n_units; ++unit) {
        auto cost = sdk::with_header<lf_cost>();
        family.ask<&Api::cost>(family.model, c, unit, f.numbers[c].data(), uint64_t{f.atoms[c]}, &cost).must_succeed();
        for (const double flops : {cost.forward_flops, cost.input_flops, cost.weight_flops})
          expect(std::isfinite(flops) && flops >= 0, "cost of unit {}: expected operations, got {}", unit, flops);
        expect(cost.saved_bytes >= 0 && cost.peak_bytes >= 0 && cost.out_bytes >= 0, "cost of unit {}: negative bytes",
               unit);
        total += cost.forward_flops;
      }
  }
  expect(total > 0, "cost: expected some operations over all samples, got none");
}

// ---- execution ----

// What is added to its gradient is not one.
bool counts(const Parameter& p) { return p.description.sign_step > 0; }

constexpr double kLoose = 1e-4;  // f32 sums in another order, or onto what is there already

std::vector<std::vector<float>> gradients(Family& family) {
  std::vector<std::vector<float>> all;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) all.push_back(p.gradient);
  return all;
}

// Relative to each tensor's largest element, with a floor for what cancels to nearly nothing.
void expect_close(Family& family, const std::vector<std::vector<float>>& got,
                  const std::vector<std::vector<float>>& wanted, double tolerance, const char* what) {
  double overall = 0;
  for (const auto& tensor : wanted)
    for (const float value : tensor) overall = std::max(overall, std::abs(static_cast<double>(value)));
  size_t at = 0;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      double largest = 1e-3 * overall, apart = 0;
      for (size_t i = 0; i < wanted[at].size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(wanted[at][i])));
        apart = std::max(apart, std::abs(static_cast<double>(wanted[at][i]) - got[at][i]));
      }
      expect(apart <= tolerance * largest, "{}: the gradient of {} differs by {:.2e} of its largest element", what,
             p.name, largest > 0 ? apart / largest : 0.0);
      ++at;
    }
}

void expect_near(double got, double wanted, double tolerance, const char* what) {
  expect(std::abs(got - wanted) <= tolerance * std::max(1.0, std::abs(wanted)), "{}: expected {}, got {}", what, wanted,
         got);
}

void loss_is_a_sum_with_its_count(Bench& b) {
  Family family(b);
  family.build();
  const StepSums sums = family.run(family.collate(family.the_case.samples), 0);
  expect(std::isfinite(sums.loss) && sums.loss > 0, "loss_sum: expected a positive number, got {}", sums.loss);
  double weight = 0;
  for (const std::string& json : family.the_case.samples) weight += family.features(json).numbers.back()[1];
  expect(sums.weight == weight, "loss_weight: expected {} as features state it, got {}", weight, sums.weight);
}

void the_same_batch_gives_the_same_bits(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums first = family.run(columns, 1);
  const auto wanted = gradients(family);
  family.zero_gradients();
  const StepSums second = family.run(columns, 1);
  expect(first.loss == second.loss, "loss_sum: expected the same bits twice, got {} and {}", first.loss, second.loss);
  expect(wanted == gradients(family), "gradients: expected the same bits twice, got others");
}

void forward_alone_changes_nothing(Bench& b) {
  Family family(b);
  family.build();
  std::vector<std::vector<float>> before;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) before.push_back(p.values);
  const Columns columns = family.collate(family.the_case.samples);
  family.run(columns, 0);
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) expect(norm(p.gradient) == 0, "forward and drop: {} has a gradient", p.name);
  family.run(columns, 1);
  size_t at = 0;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table)
      expect(p.values == before[at++], "forward and backward: the values of {} were changed; they are the host's",
             p.name);
}

void dropped_batches_do_not_count(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums wanted = family.run(columns, 1);
  const auto first = gradients(family);
  family.zero_gradients();
  family.run(columns, 0);
  const StepSums again = family.run(columns, 1);
  expect(wanted.loss == again.loss && first == gradients(family),
         "after a dropped micro-batch: expected what came before it, got another loss or gradient");
}

void gradients_are_added_to(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  family.run(columns, 1);
  auto twice = gradients(family);
  for (auto& tensor : twice)
    for (float& value : tensor) value *= 2;
  family.run(columns, 1);
  expect_close(family, gradients(family), twice, kLoose, "two micro-batches of the same samples");
}

void loss_scale_scales(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums plain = family.run(columns, 1);
  auto wanted = gradients(family);
  size_t at = 0;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      if (!counts(p))
        for (float& value : wanted[at]) value *= 0.25f;
      ++at;
    }
  family.zero_gradients();
  const StepSums scaled = family.run(columns, 0.25);
  expect(plain.loss == scaled.loss, "loss_sum: expected it without loss_scale, got {} and {}", plain.loss, scaled.loss);
  expect_close(family, gradients(family), wanted, 1e-5, "a quarter of the loss scale");
}

void every_parameter_gets_a_gradient(Bench& b) {
  Family family(b);
  family.build();
  family.run(family.collate(family.the_case.samples), 1);
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      if (p.tied >= 0 || (p.description.flags & (LF_PARAM_BUFFER | LF_PARAM_DEAD | LF_PARAM_EXPERT)) != 0) continue;
      if (counts(p)) continue;  // a balanced load counts nothing
      for (const float value : p.gradient) expect(std::isfinite(value), "the gradient of {} holds {}", p.name, value);
      expect(
          norm(p.gradient) > 0,
          "{} got no gradient from any sample of the case; state LF_PARAM_DEAD, or give the case samples that use it",
          p.name);
    }
}

void packed_equals_one_by_one(Bench& b) {
  Family family(b);
  family.build();
  const Columns all = family.collate(family.the_case.samples);
  const StepSums packed = family.run(all, 1);
  const auto wanted = gradients(family);
  family.zero_gradients();
  StepSums sum;
  for (const std::string& json : family.the_case.samples) {
    const StepSums one = family.run(family.collate({json}), 1, &all);
    sum.loss += one.loss;
    sum.weight += one.weight;
  }
  expect(sum.weight == packed.weight, "loss_weight one by one: expected {}, got {}", packed.weight, sum.weight);
  expect_near(sum.loss, packed.loss, kLoose, "loss_sum one by one");
  expect_close(family, gradients(family), wanted, kLoose, "samples one by one against packed");
}

void order_within_a_batch_does_not_matter(Bench& b) {
  Family family(b);
  family.build();
  const StepSums forwards = family.run(family.collate(family.the_case.samples), 1);
  const auto wanted = gradients(family);
  family.zero_gradients();
  std::vector<std::string> reversed(family.the_case.samples.rbegin(), family.the_case.samples.rend());
  const StepSums backwards = family.run(family.collate(reversed), 1);
  expect_near(backwards.loss, forwards.loss, kLoose, "loss_sum with the samples reversed");
  expect_close(family, gradients(family), wanted, kLoose, "samples reversed");
}

double loss_with(Family& family, const Columns& columns, Parameter& p, const std::vector<float>& at,
                 const std::vector<double>& direction, double step) {
  for (size_t i = 0; i < at.size(); ++i) p.values[i] = static_cast<float>(at[i] + step * direction[i]);
  const double loss = family.run(columns, 0).loss;
  p.values = at;
  return loss;
}

// Central differences of the loss along the gradient and along random directions. A direction is a unit vector; along
// random ones the slope is about |g| / sqrt(n), which measures all elements, where the gradient's own shows its size.
void gradients_are_the_slope_of_the_loss(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums at = family.run(columns, 1);
  std::mt19937 random(5);
  for (auto& table : family.parameters)
    for (Parameter& p : table) {
      if (p.tied >= 0 || (p.description.flags & LF_PARAM_BUFFER) != 0 || counts(p)) continue;
      const std::vector<float> values = p.values;
      const double size = norm(p.gradient), n = static_cast<double>(values.size());
      // Rounding in f32 makes the loss uncertain by about this much.
      const double noise = 2e-7 * std::max(1.0, std::abs(at.loss));
      if (size < 1e3 * noise) continue;  // nothing to measure
      const double rms = norm(values) / std::sqrt(n);
      {
        std::vector<double> direction(values.begin(), values.end());
        for (size_t i = 0; i < direction.size(); ++i) direction[i] = p.gradient[i] / size;
        // Far enough to see through the noise, near enough for the curve to look straight.
        const double step = std::min(300 * noise / size, 0.1 * std::max(rms, 0.01) * std::sqrt(n));
        const double slope = (loss_with(family, columns, p, values, direction, step) -
                              loss_with(family, columns, p, values, direction, -step)) /
                             (2 * step);
        expect(std::abs(slope - size) <= 0.05 * size + 4 * noise / step,
               "{}: the loss rises by {:.5g} along the gradient, whose size is {:.5g}", p.name, slope, size);
      }
      const double typical = size / std::sqrt(n);
      const double step = 0.05 * std::max(rms, 0.01) * std::sqrt(n);
      if (noise / step > 0.05 * typical) continue;  // too shallow to see among the rounding
      double apart = 0;
      constexpr int kDirections = 4;
      for (int d = 0; d < kDirections; ++d) {
        std::vector<double> direction(values.size());
        double wanted = 0;
        for (size_t i = 0; i < direction.size(); ++i) {
          direction[i] = (random() % 2 == 0 ? 1 : -1) / std::sqrt(n);
          wanted += direction[i] * p.gradient[i];
        }
        const double slope = (loss_with(family, columns, p, values, direction, step) -
                              loss_with(family, columns, p, values, direction, -step)) /
                             (2 * step);
        apart += (slope - wanted) * (slope - wanted) / kDirections;
      }
      expect(std::sqrt(apart) <= 0.2 * typical + 4 * noise / step,
             "{}: along random directions the loss rises otherwise than the gradient says, by {:.3g} where {:.3g} is "
             "typical; is a part of it missing?",
             p.name, std::sqrt(apart), typical);
    }
}

void frozen_parameters_stay_untouched(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums all = family.run(columns, 1);
  const auto wanted = gradients(family);
  // Every second one, so that the chain must still carry gradients past frozen ones.
  const auto frozen = [](const Parameter& p) { return p.owner % 2 == 0; };
  family.build({.frozen = [&](const Parameter& p) { return frozen(p); }});
  const StepSums some = family.run(columns, 1);
  expect_near(some.loss, all.loss, 1e-6, "loss_sum with frozen parameters");
  size_t at = 0;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      if (p.tied < 0 && frozen(p)) expect(norm(p.gradient) == 0, "{} is frozen and got a gradient", p.name);
      if (p.tied < 0 && !frozen(p)) {
        double apart = 0, largest = 0;
        for (size_t i = 0; i < p.gradient.size(); ++i) {
          apart = std::max(apart, std::abs(static_cast<double>(wanted[at][i]) - p.gradient[i]));
          largest = std::max(largest, std::abs(static_cast<double>(wanted[at][i])));
        }
        expect(apart <= kLoose * largest + 1e-7, "{}: its gradient depends on what else is frozen", p.name);
      }
      ++at;
    }
}

void all_frozen_runs_without_graph(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const double wanted = family.run(columns, 0).loss;
  family.build({.frozen = [](const Parameter&) { return true; }});
  expect_near(family.run(columns, 1).loss, wanted, 1e-6, "loss_sum with everything frozen");
}

void recompute_changes_nothing(Bench& b, int32_t how) {
  Family family(b);
  if ((family.api->abilities & LF_MODEL_RECOMPUTE) == 0) throw Skip("LF_MODEL_RECOMPUTE is not stated");
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums plain = family.run(columns, 1);
  const auto wanted = gradients(family);
  family.build({.recompute = how});
  const StepSums again = family.run(columns, 1);
  expect(plain.loss == again.loss, "loss_sum with recomputation: expected {}, got {}", plain.loss, again.loss);
  expect_close(family, gradients(family), wanted, 1e-5, "recomputation");
}

void cut_stages_equal_the_whole(Bench& b) {
  Family family(b);
  if ((family.api->abilities & LF_MODEL_STAGES) == 0) throw Skip("LF_MODEL_STAGES is not stated");
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums whole = family.run(columns, 1);
  const auto wanted = gradients(family);
  for (uint32_t c = 0; c < family.components.size(); ++c)
    for (uint32_t unit = 1; unit < family.components[c].n_units; ++unit) {
      bool tied_across = false;  // a tie between two stages is the host's to arrange
      for (Parameter& p : family.parameters[c])
        tied_across |= p.tied >= 0 && (p.description.unit >= unit) != (family.owner(p).description.unit >= unit);
      family.build({.cuts = {{c, unit}}});
      const StepSums cut = family.run(columns, 1);
      expect_near(cut.loss, whole.loss, kLoose, "loss_sum of two stages");
      if (!tied_across) expect_close(family, gradients(family), wanted, kLoose, "two stages against the whole");
    }
}

void units_are_told_in_order(Bench& b) {
  Family family(b);
  family.build();
  family.run(family.collate(family.the_case.samples), 1);
  if (family.events.empty()) throw Skip("says nothing of its units: one unit to the host");
  std::map<std::tuple<lf_stage, uint32_t, uint64_t>, int32_t> last;
  for (const UnitEvent& event : family.events) {
    expect(event.what >= LF_UNIT_NEED_FORWARD && event.what <= LF_UNIT_DONE_WEIGHTS, "unit: unknown event {}",
           event.what);
    int32_t& before = last[{event.stage, event.unit, event.micro_batch}];
    expect(event.what > before, "unit {}: event {} was told after event {}; expected each once, in order", event.unit,
           event.what, before);
    before = event.what;
  }
  for (const auto& table : family.parameters)
    for (const Parameter& p : table)
      expect(p.done || norm(p.gradient) == 0, "{} has a gradient, but its unit never said LF_UNIT_DONE_WEIGHTS",
             p.name);
}

void unknown_types_are_refused(Bench& b) {
  Family family(b);
  for (const int32_t dtype : {0x4711, static_cast<int32_t>(LF_DTYPE_BOOL)}) {
    auto config = sdk::with_header<lf_stage_config>();
    config.n_units = family.components[0].n_units;
    config.dtype = dtype;
    lf_stage stage = nullptr;
    family.ask<&Api::stage_new>(family.model, static_cast<const lf_stage_config*>(&config), &stage).must_fail();
  }
}

void stages_out_of_range_are_refused(Bench& b) {
  Family family(b);
  for (const auto& [component, first, units] :
       {std::tuple{1000u, 0u, 1u}, std::tuple{0u, 0u, 100000u}, std::tuple{0u, 100000u, 1u}}) {
    auto config = sdk::with_header<lf_stage_config>();
    config.component = component;
    config.first_unit = first;
    config.n_units = units;
    config.dtype = LF_DTYPE_F32;
    lf_stage stage = nullptr;
    family.ask<&Api::stage_new>(family.model, static_cast<const lf_stage_config*>(&config), &stage).must_fail();
  }
}

void unknown_batches_are_refused(Bench& b) {
  Family family(b);
  family.build();
  lf_stage stage = nullptr;
  auto config = sdk::with_header<lf_stage_config>();
  config.component = static_cast<uint32_t>(family.components.size() - 1);
  config.n_units = family.components.back().n_units;
  config.dtype = LF_DTYPE_F32;
  family.ask<&Api::stage_new>(family.model, static_cast<const lf_stage_config*>(&config), &stage).must_succeed();
  std::vector<lf_tensor> gin(family.edges.size() + 1, sdk::with_header<lf_tensor>());
  family
      .ask<&Api::backward>(stage, uint64_t{987654}, int32_t{LF_BACKWARD_BOTH}, static_cast<const lf_tensor*>(nullptr),
                           0u, gin.data(), static_cast<uint32_t>(family.edges.size()), 1.0, lf_stream{})
      .must_fail();
  family.ask<&Api::drop>(stage, uint64_t{987654}).may_fail();
  family.ask<&Api::stage_free>(stage).must_succeed();
}

void state_round_trips(Bench& b) {
  Family family(b);
  if (!family.has<&Api::state_save>() || !family.has<&Api::state_load>()) throw Skip("state_save is not offered");
  std::string first, second;
  family.ask<&Api::state_save>(family.model, sdk::string_sink(first)).must_succeed();
  family.ask<&Api::state_load>(family.model, static_cast<const void*>(first.data()), uint64_t{first.size()})
      .must_succeed();
  family.ask<&Api::state_save>(family.model, sdk::string_sink(second)).must_succeed();
  expect(first == second, "state_save after state_load: expected the same {} bytes, got {}", first.size(),
         second.size());
}

}  // namespace

std::vector<Case> model_cases() {
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
      {"features_are_numbers", features_are_numbers},
      {"features_are_the_same_every_time", features_are_pure},
      {"features_may_be_asked_from_threads_at_once", features_from_threads},
      {"bad_samples_are_data_errors", bad_samples_are_data_errors},
      {"max_rows_cuts_a_sample", max_rows_cuts},
      {"columns_are_contiguous_tensors", columns_are_tensors},
      {"collate_gives_the_same_bytes_every_time", collate_is_pure},
      {"costs_are_numbers", costs_are_numbers},
      {"the_loss_is_a_sum_with_its_count", loss_is_a_sum_with_its_count},
      {"the_same_batch_gives_the_same_bits", the_same_batch_gives_the_same_bits},
      {"forward_changes_neither_values_nor_gradients", forward_alone_changes_nothing},
      {"dropped_batches_do_not_count", dropped_batches_do_not_count},
      {"gradients_are_added_to", gradients_are_added_to},
      {"loss_scale_scales_gradients_alone", loss_scale_scales},
      {"every_parameter_gets_a_gradient", every_parameter_gets_a_gradient},
      {"gradients_are_the_slope_of_the_loss", gradients_are_the_slope_of_the_loss},
      {"samples_packed_equal_samples_one_by_one", packed_equals_one_by_one},
      {"the_order_of_samples_does_not_matter", order_within_a_batch_does_not_matter},
      {"frozen_parameters_stay_untouched", frozen_parameters_stay_untouched},
      {"with_everything_frozen_the_loss_is_the_same", all_frozen_runs_without_graph},
      {"inner_recomputation_changes_nothing", [](Bench& b) { recompute_changes_nothing(b, LF_RECOMPUTE_INNER); }},
      {"whole_recomputation_changes_nothing", [](Bench& b) { recompute_changes_nothing(b, LF_RECOMPUTE_WHOLE); }},
      {"two_stages_equal_the_whole", cut_stages_equal_the_whole},
      {"units_are_told_in_order", units_are_told_in_order},
      {"unknown_compute_types_are_refused", unknown_types_are_refused},
      {"stages_out_of_range_are_refused", stages_out_of_range_are_refused},
      {"an_unknown_micro_batch_is_refused", unknown_batches_are_refused},
      {"state_round_trips", state_round_trips},
  };
}

}  // namespace lf::kit
