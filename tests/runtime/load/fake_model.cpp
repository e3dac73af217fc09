#include "fake_model.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <vector>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf {
namespace {

FakeModel& of(lf_model model) { return *reinterpret_cast<FakeModel*>(model); }

bool says(const lf_sample& sample, std::string_view word) {
  return sdk::view(sample.json).find(word) != std::string_view::npos;
}

int64_t number(const lf_sample& sample, const std::string& name, int64_t otherwise) {
  const std::string json(sdk::view(sample.json));
  const size_t at = json.find(name + "=");
  return at == json.npos ? otherwise : std::stoll(json.substr(at + name.size() + 1));
}

int64_t rows_of(const lf_sample& sample) {
  int64_t rows = number(sample, "rows", 1);
  if (says(sample, "a_row_each_epoch")) rows += static_cast<int64_t>(sample.epoch);
  return sample.max_rows > 0 && !says(sample, "uncuttable") ? std::min(rows, sample.max_rows) : rows;
}

int32_t components(lf_model, lf_component* out, uint32_t cap, uint32_t* n, lf_err*) {
  *n = 2;
  const char* names[] = {"vision", "language"};
  for (uint32_t i = 0; i < std::min(cap, 2u); ++i) {
    out[i] = sdk::with_header<lf_component>();
    out[i].name = sdk::str(names[i]);
    out[i].n_units = 1;
    out[i].n_features = i == 0 ? 1 : 2;
  }
  return LF_OK;
}

// Operations are rows, and an image's row keeps ten times as much as a token's.
int32_t cost(lf_model, uint32_t component, uint32_t, const double* atoms, uint64_t n, lf_cost* out, lf_err*) {
  const uint32_t width = component == 0 ? 1 : 2;
  for (uint64_t i = 0; i < n; ++i) {
    out->forward_flops += atoms[i * width];
    out->saved_bytes += static_cast<int64_t>(atoms[i * width]) * (component == 0 ? 1000 : 100);
  }
  return LF_OK;
}

int32_t features(lf_model model, const lf_sample* sample, uint32_t* n_atoms, lf_sink doubles, lf_err* err) {
  return sdk::guard(err, [&] {
    ++of(model).features_calls;
    if (says(*sample, "bad_features")) throw sdk::Failure(LF_E_DATA, "picture.png: 50000 x 50000 pixels");
    if (says(*sample, "broken_features")) throw sdk::Failure(LF_E_BUG, "the family has a fault");
    const auto images = static_cast<uint32_t>(number(*sample, "images", 0));
    n_atoms[0] = images;
    n_atoms[1] = 1;
    std::vector<double> values(images, 10.0);
    const int64_t rows = rows_of(*sample);
    values.push_back(static_cast<double>(rows));
    values.push_back(static_cast<double>(std::min(rows, number(*sample, "weight", 1))));
    sdk::put(doubles, values.data(), values.size() * sizeof(double));
  });
}

lf_named_tensor column(FakeModel& fake, std::string_view name, std::vector<int64_t> values) {
  struct Held {
    std::vector<int64_t> values;
    FakeModel* fake;
  };
  auto* held = new Held{std::move(values), &fake};
  ++fake.live_tensors;
  lf_named_tensor out = sdk::with_header<lf_named_tensor>();
  out.name = sdk::str(name);
  out.tensor = sdk::borrow(held->values.data(), LF_DTYPE_I64, std::array{static_cast<int64_t>(held->values.size())});
  out.tensor.owner = held;
  out.tensor.release = [](void* owner) {
    auto* held = static_cast<Held*>(owner);
    --held->fake->live_tensors;
    delete held;
  };
  return out;
}

int32_t collate(lf_model model, const lf_sample* const* samples, uint32_t n, lf_named_tensor* columns, uint32_t cap,
                uint32_t* n_columns, lf_err* err) {
  return sdk::guard(err, [&] {
    FakeModel& fake = of(model);
    ++fake.collate_calls;
    if (fake.before_collate) fake.before_collate();
    std::vector<int64_t> ids;
    int64_t rows = 0;
    for (uint32_t i = 0; i < n; ++i) {
      if (says(*samples[i], "bad_when_decoded")) throw sdk::Failure(LF_E_DATA, "picture.png: the JPEG ends early");
      if (says(*samples[i], "broken_collate")) throw sdk::Failure(LF_E_BUG, "the family has a fault");
      ids.push_back(static_cast<int64_t>(samples[i]->id));
      rows += rows_of(*samples[i]) + (says(*samples[i], "wrong_rows") ? 1 : 0);
    }
    if (cap < 2) throw sdk::Failure(LF_E_INVALID, "expected room for two columns");
    std::vector<int64_t> source(rows);
    std::iota(source.begin(), source.end(), 0);
    columns[0] = column(fake, "sample", std::move(ids));
    columns[1] = column(fake, "source_row", std::move(source));
    *n_columns = 2;
  });
}

lf_model_api make_table() {
  lf_model_api table = sdk::with_header<lf_model_api>();
  table.components = components;
  table.cost = cost;
  table.features = features;
  table.collate = collate;
  return table;
}

}  // namespace

const lf_model_api& FakeModel::table() {
  static const lf_model_api kTable = make_table();
  return kTable;
}

}  // namespace lf
