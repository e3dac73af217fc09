// What a model must hold of samples: features, columns, costs.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "conformance/family.h"
#include "conformance/model_case_lists.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::kit {
namespace {

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

// A text that is cut to its first row predicts nothing: ranks, and whole steps, may hold such samples alone, unless the
// model refuses them as samples.
void unsupervised_samples_add_nothing(Bench& b) {
  Family family(b);
  family.build();
  bool tried = false;
  for (const std::string& json : family.the_case.samples) {
    if (holds_media(json)) continue;
    auto first_row = sdk::with_header<lf_sample>();
    first_row.json = sdk::str(json);
    first_row.place = sdk::str("samples.jsonl");
    first_row.max_rows = 1;
    std::vector<uint32_t> atoms(family.components.size());
    std::string bytes;
    const Answer answer = family.ask<&Api::features>(family.model, static_cast<const lf_sample*>(&first_row),
                                                     atoms.data(), sdk::string_sink(bytes));
    expect(answer.ok() || answer.code == LF_E_DATA, "features with max_rows 1: expected LF_E_DATA, got error {}: {}",
           answer.code, answer.message);
    if (!answer.ok()) continue;
    const std::vector<double> numbers = family.features(json, 1).numbers.back();
    if (numbers[0] < 1 || numbers[1] != 0) continue;
    tried = true;
    const StepSums sums = family.run(family.collate({json}, 1), 1);
    expect(sums.loss == 0 && sums.weight == 0,
           "a sample without a supervised row: expected a loss of 0 of weight 0, got {} of {}", sums.loss, sums.weight);
    for (const auto& table : family.parameters)
      for (const Parameter& p : table)
        if (p.description.sign_step == 0)  // else what is added is no gradient of the loss
          expect(norm(p.gradient) == 0, "a sample without a supervised row: the gradient of {} has length {}", p.name,
                 norm(p.gradient));
  }
  if (!tried) throw Skip("no sample of the case is text whose first row alone supervises nothing");
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

}  // namespace

std::vector<Case> model_sample_cases() {
  return {
      {"features_are_numbers", features_are_numbers},
      {"features_are_the_same_every_time", features_are_pure},
      {"features_may_be_asked_from_threads_at_once", features_from_threads},
      {"bad_samples_are_data_errors", bad_samples_are_data_errors},
      {"max_rows_cuts_a_sample", max_rows_cuts},
      {"a_sample_without_a_supervised_row_adds_nothing", unsupervised_samples_add_nothing},
      {"columns_are_contiguous_tensors", columns_are_tensors},
      {"collate_gives_the_same_bytes_every_time", collate_is_pure},
      {"costs_are_numbers", costs_are_numbers},
  };
}

}  // namespace lf::kit
