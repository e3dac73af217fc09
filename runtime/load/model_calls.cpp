#include "load/model_calls.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf {
namespace {

constexpr uint32_t kMaxColumns = 64;

lf_sample to_abi(const Sample& sample, int64_t max_rows) {
  lf_sample out = sdk::with_header<lf_sample>();
  out.id = sample.index;
  out.json = sdk::str(sample.json);
  out.place = sdk::str(sample.place);
  out.max_rows = max_rows;
  out.epoch = sample.epoch;
  return out;
}

std::vector<std::string> feature_names(const lf_model_api* api, lf_model model, uint32_t component, uint32_t count) {
  std::string bytes;
  if (LF_HAS(api, feature_names)) {
    lf_err err = sdk::make_err();
    sdk::check(api->feature_names(model, component, sdk::string_sink(bytes), &err), err);
  }
  std::vector<std::string> names;
  for (size_t at = 0; at < bytes.size() && names.size() < count; at += names.back().size() + 1)
    names.emplace_back(bytes.c_str() + at);
  while (names.size() < count) names.push_back(fmt::format("feature{}", names.size()));
  return names;
}

// LF_E_DATA is the sample's fault, all else the run's.
[[noreturn]] void raise(int32_t code, const lf_err& err, std::string_view place, const char* call) {
  const std::string_view message(err.message, strnlen(err.message, sizeof err.message));
  if (code == LF_E_DATA)
    throw BadSample(message.starts_with(place) ? std::string(message) : fmt::format("{}: {}", place, message));
  if (code == LF_E_INVALID || code == LF_E_UNSUPPORTED)  // a setting: it says itself which, whatever the sample
    fail(Exit::kConfig, "{}", message);
  fail(code == LF_E_ABORTED ? Exit::kUnavailable : Exit::kBug, "{}: the model's {} failed: {}", place, call, message);
}

}  // namespace

ModelCalls::ModelCalls(const lf_model_api* api, lf_model model) : api_(api), model_(model) {
  lf_err err = sdk::make_err();
  uint32_t count = 0;
  sdk::check(api->components(model, nullptr, 0, &count, &err), err);
  std::vector<lf_component> described(count, sdk::with_header<lf_component>());
  sdk::check(api->components(model, described.data(), count, &count, &err), err);
  for (const lf_component& component : described)
    components_.push_back({std::string(sdk::view(component.name)), component.n_units, component.n_features,
                           feature_names(api, model, static_cast<uint32_t>(components_.size()), component.n_features)});
  if (components_.empty() || components_.back().n_features < 2)
    fail(Exit::kConfig, "model: expected a last component with the features rows and loss weight, got {} components",
         components_.size());
  for (const ComponentShape& component : components_)
    if (component.n_features < 1) fail(Exit::kConfig, "model: component {} states no features", component.name);
}

AtomFeatures ModelCalls::features(const Sample& sample, int64_t max_rows) const {
  const lf_sample abi = to_abi(sample, max_rows);
  AtomFeatures out{.atoms = std::vector<uint32_t>(components_.size()), .numbers = {}};
  std::string bytes;
  lf_err err = sdk::make_err();
  const int32_t code = api_->features(model_, &abi, out.atoms.data(), sdk::string_sink(bytes), &err);
  if (code != LF_OK) raise(code, err, sample.place, "features");

  size_t at = 0;
  for (size_t c = 0; c < components_.size(); ++c) {
    std::vector<double> numbers(size_t{out.atoms[c]} * components_[c].n_features);
    const size_t size = numbers.size() * sizeof(double);
    if (size > bytes.size() - at) fail(Exit::kBug, "{}: the model's features end early", sample.place);
    if (size > 0) std::memcpy(numbers.data(), bytes.data() + at, size);
    for (const double number : numbers)
      if (!std::isfinite(number) || number < 0)
        fail(Exit::kBug, "{}: the model's feature of component {} is {}", sample.place, components_[c].name, number);
    at += size;
    out.numbers.push_back(std::move(numbers));
  }
  if (at != bytes.size() || out.atoms.back() != 1)
    fail(Exit::kBug, "{}: the model gave {} bytes of features and {} atoms of its last component; expected {} and 1",
         sample.place, bytes.size(), out.atoms.back(), at);
  if (out.rows() < 1) throw BadSample(sample.place + ": nothing in it becomes a token");
  return out;
}

std::vector<lf_named_tensor> ModelCalls::collate(const std::vector<Part>& parts) const {
  std::vector<lf_sample> samples;
  std::vector<const lf_sample*> pointers;
  samples.reserve(parts.size());
  for (const Part& part : parts) {
    samples.push_back(to_abi(*part.sample, part.max_rows));
    pointers.push_back(&samples.back());
  }
  std::vector<lf_named_tensor> columns(kMaxColumns, sdk::with_header<lf_named_tensor>());
  uint32_t count = 0;
  lf_err err = sdk::make_err();
  const int32_t code = api_->collate(model_, pointers.data(), static_cast<uint32_t>(pointers.size()), columns.data(),
                                     kMaxColumns, &count, &err);
  if (code != LF_OK) raise(code, err, parts.front().sample->place, "collate");
  if (count > kMaxColumns) fail(Exit::kBug, "the model collates {} columns; expected at most {}", count, kMaxColumns);
  columns.resize(count);
  return columns;
}

ModelCalls::AtomCost ModelCalls::cost(uint32_t component, const double* numbers) const {
  if (!LF_HAS(api_, cost)) return {numbers[0], 0};
  AtomCost total;
  for (uint32_t unit = 0; unit < components_[component].n_units; ++unit) {
    lf_cost cost = sdk::with_header<lf_cost>();
    lf_err err = sdk::make_err();
    sdk::check(api_->cost(model_, component, unit, numbers, 1, &cost, &err), err);
    total.operations += cost.forward_flops + cost.input_flops + cost.weight_flops;
    total.saved_bytes += static_cast<double>(cost.saved_bytes);
  }
  return total;
}

}  // namespace lf
