#include "plugins/models/qwen_vl/abi_model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>

#include <dlfcn.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::test {
namespace {

void check(int32_t code, const lf_err& err) {
  if (code != LF_OK) throw std::runtime_error(err.message);
}

uint16_t to_bf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

std::span<const int64_t> shape_of(const lf_param& param) { return {param.shape, static_cast<size_t>(param.ndim)}; }

int64_t elements(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

lf_named_tensor named(const char* name, lf_tensor tensor) {
  auto result = sdk::with_header<lf_named_tensor>();
  result.name = sdk::str(name);
  result.tensor = tensor;
  return result;
}

std::vector<float> floats(const lf_tensor& tensor) {
  if (tensor.dtype != LF_DTYPE_F32) throw std::runtime_error("an output is not f32");
  const auto* data = static_cast<const float*>(tensor.data);
  return {data, data + sdk::element_count(tensor)};
}

}  // namespace

AbiModel::AbiModel(const std::string& plugin, const std::string& config_json, const ModelOptions& options)
    : options_(options) {
  parallel_ = sdk::with_header<lf_parallel_host>();
  parallel_.unit = [](const lf_host* host, lf_stage handle, uint32_t unit, int32_t what, uint64_t, lf_stream,
                      lf_err*) -> int32_t {
    auto& self = *static_cast<AbiModel*>(host->context);
    for (const Stage& stage : self.stages_) {
      if (stage.handle != handle) continue;
      self.events_.push_back({stage.component, stage.first_unit + unit, what});
      if (what == LF_UNIT_DONE_WEIGHTS)
        for (TestParameter& parameter : self.parameters_[stage.component])
          if (parameter.description.unit == stage.first_unit + unit) parameter.touched = true;
    }
    return LF_OK;
  };
  host_ = sdk::with_header<lf_host>();
  host_.context = this;
  host_.get_extension = [](const lf_host* host, lf_str id) -> const void* {
    return sdk::view(id) == LF_PARALLEL_EXTENSION ? &static_cast<AbiModel*>(host->context)->parallel_ : nullptr;
  };
  host_.log = [](const lf_host* host, int32_t level, lf_str text) {
    if (level >= LF_LOG_WARNING) static_cast<AbiModel*>(host->context)->warnings_.emplace_back(sdk::view(text));
  };
  host_.option = [](const lf_host*, lf_str, lf_sink, lf_err* err) -> int32_t {
    sdk::set_error(err, LF_E_INVALID, "no such option");
    return LF_E_INVALID;
  };
  host_.cancelled = [](const lf_host*) -> int32_t { return 0; };

  // Before LibTorch is loaded: these models are so small that a second thread only waits for its turn.
  setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<decltype(&lf_plugin_entry)>(dlsym(library, LF_PLUGIN_ENTRY_NAME));
  api_ =
      static_cast<const lf_model_api*>(entry(LF_ABI_MAJOR, LF_ABI_MINOR)->get_interface(sdk::str(LF_MODEL_INTERFACE)));
  const nlohmann::json all = {{"config", nlohmann::json::parse(config_json)},
                              {"options", {{"options", nlohmann::json::parse(options.options_json)}}},
                              {"seed", 1}};
  lf_err err = sdk::make_err();
  check(api_->create(&host_, sdk::str(all.dump()), &model_, &err), err);
  describe();
  build();
}

AbiModel::~AbiModel() {
  lf_err err = sdk::make_err();
  for (const Stage& stage : stages_)
    if (stage.handle != nullptr) api_->stage_free(stage.handle, &err);
  if (model_ != nullptr) api_->destroy(model_, &err);
}

void AbiModel::describe() {
  lf_err err = sdk::make_err();
  uint32_t n = 0;
  check(api_->components(model_, nullptr, 0, &n, &err), err);
  components_.resize(n);
  check(api_->components(model_, components_.data(), n, &n, &err), err);
  check(api_->edges(model_, nullptr, 0, &n, &err), err);
  edges_.resize(n);
  check(api_->edges(model_, edges_.data(), n, &n, &err), err);
  for (uint32_t c = 0; c < components_.size(); ++c) {
    std::vector<TestParameter>& table = parameters_.emplace_back();
    for (uint32_t i = 0; i < components_[c].n_params; ++i) {
      TestParameter parameter;
      parameter.description = sdk::with_header<lf_param>();  // the plugin writes no more than the header says
      check(api_->param(model_, c, i, &parameter.description, &err), err);
      parameter.name = sdk::view(parameter.description.name);
      for (uint32_t p = 0; p < parameter.description.n_parts; ++p)
        check(api_->part(model_, c, i, p, &parameter.parts.emplace_back(sdk::with_header<lf_part>()), &err), err);
      parameter.tied = parameter.description.tied_param;
      parameter.frozen = (parameter.description.flags & LF_PARAM_DEAD) != 0 || options_.frozen(parameter.name);
      const auto size = static_cast<size_t>(elements(shape_of(parameter.description)));
      if (parameter.tied < 0) {
        parameter.values.resize(size);
        parameter.gradient.resize(size);
      }
      table.push_back(std::move(parameter));
    }
  }
}

void AbiModel::build() {
  lf_err err = sdk::make_err();
  bool upstream_trained = false;
  for (uint32_t c = 0; c < components_.size(); ++c) {
    std::vector<uint32_t> begins = {0};
    if (options_.cuts.contains(c)) begins.insert(begins.end(), options_.cuts[c].begin(), options_.cuts[c].end());
    begins.push_back(components_[c].n_units);
    const bool trained =
        std::any_of(parameters_[c].begin(), parameters_[c].end(), [](const auto& p) { return !p.frozen; });
    for (size_t s = 0; s + 1 < begins.size(); ++s) {
      Stage stage{c, begins[s], begins[s + 1] - begins[s], nullptr, !trained && !upstream_trained, {}, {}, 0, 0};
      const auto inside = [&](uint32_t unit) { return unit >= begins[s] && unit < begins[s + 1]; };
      for (size_t e = 0; e < edges_.size(); ++e) {
        if (edges_[e].to == c && inside(edges_[e].to_unit)) stage.in.push_back(e);
        if (edges_[e].from == c && inside(edges_[e].from_unit)) stage.out.push_back(e);
      }
      uint32_t n = 0;
      if (begins[s] > 0) {
        check(api_->boundary(model_, c, begins[s], nullptr, 0, &n, &err), err);
        stage.boundary_in = n;
      }
      if (begins[s + 1] < components_[c].n_units) {
        check(api_->boundary(model_, c, begins[s + 1], nullptr, 0, &n, &err), err);
        stage.boundary_out = n;
      }
      auto config = sdk::with_header<lf_stage_config>();
      config.component = c;
      config.first_unit = stage.first_unit;
      config.n_units = stage.n_units;
      config.dtype = options_.dtype;
      config.flags = stage.no_grad ? LF_STAGE_NO_GRAD : 0;
      const std::vector<uint8_t> recompute(stage.n_units, static_cast<uint8_t>(options_.recompute));
      config.recompute = recompute.data();
      check(api_->stage_new(model_, &config, &stage.handle, &err), err);
      stages_.push_back(stage);
    }
    upstream_trained |= trained;
  }
}

void AbiModel::load(const std::map<std::string, FileTensor>& tensors) {
  for (auto& table : parameters_)
    for (TestParameter& parameter : table) {
      if (parameter.tied >= 0) continue;
      size_t at = 0;
      for (const lf_part& part : parameter.parts) {
        const FileTensor& file = tensors.at(std::string(sdk::view(part.name)));
        if (!std::equal(file.shape.begin(), file.shape.end(), part.shape, part.shape + part.ndim))
          throw std::runtime_error(std::string(sdk::view(part.name)) + " has another shape in the file");
        std::copy(file.floats.begin(), file.floats.end(), parameter.values.begin() + static_cast<int64_t>(at));
        at += file.floats.size();
      }
      if (at != parameter.values.size()) throw std::runtime_error(parameter.name + ": the parts do not fill it");
      parameter.values_bf16.resize(at);
      std::transform(parameter.values.begin(), parameter.values.end(), parameter.values_bf16.begin(), to_bf16);
    }
  for (const Stage& stage : stages_) bind(stage);
}

void AbiModel::bind(const Stage& stage) {
  auto& table = parameters_[stage.component];
  for (uint32_t unit = 0; unit < stage.n_units; ++unit) {
    std::vector<lf_tensor> values, gradients;
    for (TestParameter& own : table) {
      if (own.description.unit != stage.first_unit + unit) continue;
      TestParameter& parameter = own.tied >= 0 ? table[static_cast<size_t>(own.tied)] : own;
      const auto shape = shape_of(own.description);
      values.push_back(options_.dtype == LF_DTYPE_BF16 ? sdk::borrow(parameter.values_bf16.data(), LF_DTYPE_BF16, shape)
                                                       : sdk::borrow(parameter.values.data(), LF_DTYPE_F32, shape));
      gradients.push_back(parameter.frozen ? sdk::with_header<lf_tensor>()
                                           : sdk::borrow(parameter.gradient.data(), LF_DTYPE_F32, shape));
    }
    lf_err err = sdk::make_err();
    check(api_->bind(stage.handle, unit, values.data(), gradients.data(), static_cast<uint32_t>(values.size()), &err),
          err);
  }
}

void AbiModel::zero_gradients() {
  for (auto& table : parameters_)
    for (TestParameter& parameter : table) {
      std::fill(parameter.gradient.begin(), parameter.gradient.end(), 0.0f);
      parameter.touched = false;
    }
  events_.clear();
}

StepResult AbiModel::run(const Columns& columns, double loss_scale, bool outputs) {
  Columns c = columns;
  const int64_t n = c.rows(), visual = static_cast<int64_t>(c.visual_rows.size());
  const auto integers = [](std::vector<int64_t>& values, std::vector<int64_t> shape) {
    return sdk::borrow(values.data(), LF_DTYPE_I64, shape);
  };
  std::vector<lf_named_tensor> lent = {
      named("input_ids", integers(c.input_ids, {n})), named("targets", integers(c.targets, {n})),
      named("position_ids", integers(c.position_ids, {3, n})),
      named("segment_starts", integers(c.segment_starts, {static_cast<int64_t>(c.segment_starts.size())}))};
  if (c.has_vision()) {
    lent.push_back(named("visual_rows", integers(c.visual_rows, {visual})));
    lent.push_back(named("grid_thw", integers(c.grid_thw, {static_cast<int64_t>(c.grid_thw.size()) / 3, 3})));
    const std::vector<int64_t> shape = {static_cast<int64_t>(c.pixel_values.size()) / c.pixel_columns, c.pixel_columns};
    lent.push_back(named("pixel_values", sdk::borrow(c.pixel_values.data(), LF_DTYPE_F32, shape)));
  }
  std::vector<bool> has_atoms(components_.size(), c.has_vision());
  has_atoms.back() = true;
  return run(lent, static_cast<uint32_t>(c.segment_starts.size() - 1), has_atoms, loss_scale, outputs);
}

Collated::~Collated() {
  for (lf_named_tensor& column : columns) sdk::release(column.tensor);
}

Collated AbiModel::collate(std::span<const lf_named_tensor> fields) const {
  auto sample = sdk::with_header<lf_sample>();
  sample.json = sdk::str("{}");
  sample.fields = fields.data();
  sample.n_fields = static_cast<uint32_t>(fields.size());
  Collated batch;
  batch.atoms.resize(components_.size());
  std::string bytes;
  lf_err err = sdk::make_err();
  check(api_->features(model_, &sample, batch.atoms.data(), sdk::string_sink(bytes), &err), err);
  const auto* numbers = reinterpret_cast<const double*>(bytes.data());
  for (size_t c = 0; c < components_.size(); ++c) {
    const size_t n = size_t{batch.atoms[c]} * components_[c].n_features;
    batch.features.emplace_back(numbers, numbers + n);
    numbers += n;
  }
  constexpr uint32_t kRoom = 64;
  batch.columns.assign(kRoom, sdk::with_header<lf_named_tensor>());
  const lf_sample* samples[] = {&sample};
  uint32_t n = 0;
  const int32_t code = api_->collate(model_, samples, 1, batch.columns.data(), kRoom, &n, &err);
  batch.columns.resize(code == LF_OK ? n : 0);
  check(code, err);
  return batch;
}

StepResult AbiModel::run(const Collated& batch, double loss_scale, bool outputs) {
  std::vector<bool> has_atoms;
  for (const uint32_t atoms : batch.atoms) has_atoms.push_back(atoms > 0);
  return run(batch.columns, 1, has_atoms, loss_scale, outputs);
}

StepResult AbiModel::run(std::span<const lf_named_tensor> columns, uint32_t n_samples,
                         const std::vector<bool>& has_atoms, double loss_scale, bool outputs) {
  auto batch = sdk::with_header<lf_batch>();
  batch.micro_batch = next_micro_batch_++;
  batch.columns = columns.data();
  batch.n_columns = static_cast<uint32_t>(columns.size());
  batch.n_samples = n_samples;
  batch.flags = outputs ? LF_BATCH_OUTPUTS : 0;
  batch.loss_scale = options_.scale_ahead ? loss_scale : 0;

  const lf_tensor absent = sdk::with_header<lf_tensor>();
  StepResult result;
  std::vector<lf_tensor> edge_values(edges_.size(), absent), edge_gradients(edges_.size(), absent);
  std::vector<std::vector<lf_tensor>> borders(stages_.size() + 1), border_gradients(stages_.size() + 1);
  std::vector<bool> ran(stages_.size());
  lf_err err = sdk::make_err();
  const uint32_t last = static_cast<uint32_t>(components_.size() - 1);
  uint32_t n_outputs = 0;
  if (outputs) check(api_->outputs(model_, nullptr, 0, &n_outputs, &err), err);
  for (size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    if (!has_atoms[stage.component]) continue;
    const bool ends = stage.component == last && stage.boundary_out == 0;
    std::vector<lf_tensor> in = borders[s];
    for (const size_t e : stage.in) in.push_back(edge_values[e]);
    std::vector<lf_tensor> out(stage.boundary_out + stage.out.size() + (ends ? n_outputs : 0), absent);
    auto step = sdk::with_header<lf_step_out>();
    check(api_->forward(stage.handle, &batch, in.data(), static_cast<uint32_t>(in.size()), out.data(),
                        static_cast<uint32_t>(out.size()), ends ? &step : nullptr, nullptr, &err),
          err);
    ran[s] = true;
    borders[s + 1].assign(out.begin(), out.begin() + static_cast<int64_t>(stage.boundary_out));
    for (size_t k = 0; k < stage.out.size(); ++k) edge_values[stage.out[k]] = out[stage.boundary_out + k];
    if (!ends) continue;
    result.loss_sum = step.loss_sum;
    result.loss_weight = step.loss_weight;
    result.aux = step.aux[0];
    for (size_t k = out.size() - n_outputs; k < out.size(); ++k) {
      result.outputs.push_back(sdk::present(out[k]) ? floats(out[k]) : std::vector<float>{});
      sdk::release(out[k]);
    }
    if (result.outputs.size() >= 2) {
      result.logits = result.outputs[0];
      result.token_loss = result.outputs[1];
    }
  }
  for (size_t s = stages_.size(); s-- > 0;) {
    Stage& stage = stages_[s];
    if (!ran[s]) continue;
    if (loss_scale == 0 || stage.no_grad) {
      check(api_->drop(stage.handle, batch.micro_batch, &err), err);
      continue;
    }
    std::vector<lf_tensor> gout = border_gradients[s + 1], gin(stage.boundary_in + stage.in.size(), absent);
    for (const size_t e : stage.out) gout.push_back(edge_gradients[e]);
    check(api_->backward(stage.handle, batch.micro_batch, LF_BACKWARD_BOTH, gout.data(),
                         static_cast<uint32_t>(gout.size()), gin.data(), static_cast<uint32_t>(gin.size()), loss_scale,
                         nullptr, &err),
          err);
    border_gradients[s].assign(gin.begin(), gin.begin() + static_cast<int64_t>(stage.boundary_in));
    for (size_t k = 0; k < stage.in.size(); ++k) edge_gradients[stage.in[k]] = gin[stage.boundary_in + k];
  }
  for (auto* list : {&edge_values, &edge_gradients})
    for (lf_tensor& tensor : *list) sdk::release(tensor);
  for (auto* lists : {&borders, &border_gradients})
    for (auto& list : *lists)
      for (lf_tensor& tensor : list) sdk::release(tensor);
  return result;
}

std::map<std::string, std::vector<float>> AbiModel::gradients() const {
  std::map<std::string, std::vector<float>> result;
  for (const auto& table : parameters_)
    for (const TestParameter& parameter : table) {
      if (parameter.tied >= 0 || parameter.frozen) continue;
      int64_t at = 0;
      for (const lf_part& part : parameter.parts) {
        const int64_t size = elements({part.shape, static_cast<size_t>(part.ndim)});
        const auto first = parameter.gradient.begin() + at;
        result[std::string(sdk::view(part.name))].assign(first, first + size);
        at += size;
      }
    }
  return result;
}

std::vector<std::string> AbiModel::without_gradient() const {
  std::vector<std::string> names;
  for (const auto& table : parameters_)
    for (const TestParameter& parameter : table)
      if (!parameter.touched && parameter.tied < 0)
        for (const lf_part& part : parameter.parts) names.emplace_back(sdk::view(part.name));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lf::test
