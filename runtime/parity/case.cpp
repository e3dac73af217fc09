#include "parity/case.h"

#include <algorithm>

#include "core/error.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf {
namespace {

void require(int32_t code, const lf_err& err, const std::string& place) {
  if (code == LF_OK) return;
  const std::string said = err.message;  // families that know the sample's place say it themselves
  fail(Exit::kBadData, "{}{}", said.starts_with(place) ? "" : place + ": ", said);
}

}  // namespace

Fields::Fields(const std::filesystem::path& file) : file_(file), place_(file.string()) {
  for (const TensorEntry& entry : file_.tensors()) {
    if (static_cast<int32_t>(entry.dtype) >= 100)
      fail(Exit::kBadData, "{}: {} is of a type that nothing here computes with", place_, entry.name);
    auto named = sdk::with_header<lf_named_tensor>();
    named.name = sdk::str(entry.name);
    // Borrowed and read only: collate copies what it keeps.
    named.tensor =
        sdk::borrow(const_cast<std::byte*>(file_.bytes(entry).data()), static_cast<int32_t>(entry.dtype), entry.shape);
    tensors_.push_back(named);
  }
}

MicroBatch collate_fields(const Model& model, const Fields& fields) {
  const Description& description = model.description();
  auto sample = sdk::with_header<lf_sample>();
  sample.json = sdk::str("{}");
  sample.place = sdk::str(fields.place());
  sample.fields = fields.tensors().data();
  sample.n_fields = static_cast<uint32_t>(fields.tensors().size());

  MicroBatch batch;
  batch.n_samples = 1;
  batch.sample_ids = {0};
  batch.atoms.resize(description.components.size());
  std::string bytes;
  lf_err err = sdk::make_err();
  require(model.api()->features(model.handle(), &sample, batch.atoms.data(), sdk::string_sink(bytes), &err), err,
          fields.place());
  const auto* numbers = reinterpret_cast<const double*>(bytes.data());
  for (size_t c = 0; c < description.components.size(); ++c) {
    const size_t n = batch.atoms[c] * description.components[c].features.size();
    batch.features.emplace_back(numbers, numbers + n);
    numbers += n;
  }
  const size_t width = description.last().features.size();
  for (size_t atom = 0; atom < batch.atoms.back(); ++atom) {
    batch.rows += static_cast<int64_t>(batch.features.back()[atom * width]);
    batch.loss_weight += batch.features.back()[atom * width + 1];
  }
  batch.columns.assign(64, sdk::with_header<lf_named_tensor>());
  uint32_t n_columns = 0;
  const lf_sample* samples[] = {&sample};
  const int32_t code = model.api()->collate(model.handle(), samples, 1, batch.columns.data(), 64, &n_columns, &err);
  batch.columns.resize(code == LF_OK ? n_columns : 0);
  require(code, err, fields.place());
  return batch;
}

std::vector<std::string> case_names(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (std::filesystem::exists(entry.path() / "inputs.safetensors"))
      names.push_back(entry.path().filename().string());
    else if (const auto expected = entry.path() / "expected.safetensors"; std::filesystem::exists(expected))
      fail(Exit::kInputMissing,
           "{}: expected inputs.safetensors beside it, got none; record the case anew, or remove it",
           expected.string());
  if (names.empty())
    fail(Exit::kInputMissing, "{}: no folder with inputs.safetensors in it; a case is DIR/<case>/inputs.safetensors",
         directory.string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lf
