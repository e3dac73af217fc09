#include "conformance/family.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>

#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/tensor.hpp"

namespace lf::kit {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read; a case has config.json and samples.jsonl");
  return {std::istreambuf_iterator<char>(file), {}};
}

lf_sample sample_of(const std::string& json, uint64_t id, int64_t max_rows) {
  auto sample = sdk::with_header<lf_sample>();
  sample.id = id;
  sample.json = sdk::str(json);
  sample.place = sdk::str("samples.jsonl");
  sample.max_rows = max_rows;
  return sample;
}

}  // namespace

int64_t elements(const lf_param& param) {
  int64_t n = 1;
  for (int32_t i = 0; i < param.ndim; ++i) n *= param.shape[i];
  return n;
}

uint64_t FamilyCase::id_of(const std::string& json) const {
  return static_cast<uint64_t>(std::find(samples.begin(), samples.end(), json) - samples.begin());
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

FamilyCase read_case(const KitOptions& options) {
  const std::filesystem::path& folder = options.case_folder;
  if (folder.empty()) throw Skip("needs a case: --case FOLDER with config.json and samples.jsonl");
  FamilyCase result;
  nlohmann::json request = {{"config", nlohmann::json::parse(read_text(folder / "config.json"))},
                            {"options", nlohmann::json::object()},
                            {"data", nlohmann::json::object()},
                            {"seed", 1},
                            {"path", nullptr},
                            {"tokenizer", nullptr}};
  if (std::filesystem::exists(folder / "tokenizer")) request["tokenizer"] = (folder / "tokenizer").string();
  if (std::filesystem::exists(folder / "options.json"))
    request["options"]["options"] = nlohmann::json::parse(read_text(folder / "options.json"));
  result.create_json = request.dump();
  const std::string lines = read_text(folder / "samples.jsonl");
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    if (end > at) result.samples.push_back(nlohmann::json::parse(lines.substr(at, end - at)).dump());
    at = end + 1;
  }
  if (result.samples.size() < 2) throw std::runtime_error("samples.jsonl: expected at least 2 samples");
  return result;
}

Columns::~Columns() {
  for (lf_named_tensor& column : tensors) sdk::release(column.tensor);
}

Family::Family(Bench& b) : bench(b), the_case(read_case(b.options())) {
  bench.start();
  api = bench.table<Api>(LF_MODEL_INTERFACE);
  ask<&Api::create>(bench.host().table(), sdk::str(the_case.create_json), &model).must_succeed();
  describe();
  bench.host().on_unit = [this](lf_stage stage, uint32_t unit, int32_t what, uint64_t micro_batch) -> int32_t {
    events.push_back({stage, unit, what, micro_batch});
    for (const Stage& known : stages_) {
      if (known.handle != stage) continue;
      if (unit >= known.units) return LF_E_INVALID;
      if (what == LF_UNIT_DONE_WEIGHTS)
        for (Parameter& parameter : parameters[known.component])
          if (parameter.description.unit == known.first + unit) parameter.done = true;
      return LF_OK;
    }
    return LF_E_INVALID;
  };
}

Family::~Family() {
  try {
    free_stages();
    if (model != nullptr) ask<&Api::destroy>(model);
  } catch (const std::exception&) {
    bench.crumb().leave();
  }
}

void Family::describe() {
  uint32_t n = 0;
  ask<&Api::components>(model, static_cast<lf_component*>(nullptr), 0u, &n).must_succeed();
  expect(n >= 1 && n <= 64, "components: expected 1 to 64, got {}", n);
  components.assign(n, sdk::with_header<lf_component>());
  ask<&Api::components>(model, components.data(), n, &n).must_succeed();
  if (has<&Api::edges>()) {
    ask<&Api::edges>(model, static_cast<lf_edge*>(nullptr), 0u, &n).must_succeed();
    edges.assign(n, sdk::with_header<lf_edge>());
    ask<&Api::edges>(model, edges.data(), n, &n).must_succeed();
  }
  size_t n_parameters = 0;
  for (uint32_t c = 0; c < components.size(); ++c) {
    std::vector<Parameter>& table = parameters.emplace_back();
    for (uint32_t i = 0; i < components[c].n_params; ++i) {
      Parameter parameter;
      parameter.description = sdk::with_header<lf_param>();
      ask<&Api::param>(model, c, i, &parameter.description).must_succeed();
      parameter.name = sdk::view(parameter.description.name);
      parameter.index = parameter.owner = n_parameters++;
      parameter.tied = parameter.description.tied_param;
      expect(parameter.description.ndim >= 0 && parameter.description.ndim <= LF_MAX_DIMS,
             "parameter {}: expected up to {} dimensions, got {}", parameter.name, LF_MAX_DIMS,
             parameter.description.ndim);
      for (uint32_t k = 0; k < parameter.description.n_parts; ++k) {
        parameter.parts.push_back(sdk::with_header<lf_part>());
        ask<&Api::part>(model, c, i, k, &parameter.parts.back()).must_succeed();
      }
      const int32_t to = parameter.description.tied_component;
      if (parameter.tied >= 0 && to >= 0 && static_cast<size_t>(to) < parameters.size() &&
          static_cast<size_t>(parameter.tied) < parameters[static_cast<size_t>(to)].size())
        parameter.owner = parameters[static_cast<size_t>(to)][static_cast<size_t>(parameter.tied)].owner;
      else if (parameter.tied >= 0)
        throw Broken(fmt::format("parameter {}: expected a tie to an earlier one, got component {}, parameter {}",
                                 parameter.name, to, parameter.tied));
      table.push_back(std::move(parameter));
    }
  }
}

Parameter& Family::owner(Parameter& parameter) {
  for (auto& table : parameters)
    for (Parameter& other : table)
      if (other.index == parameter.owner) return other;
  return parameter;
}

Family::Features Family::features(const std::string& json, int64_t max_rows) {
  const lf_sample sample = sample_of(json, the_case.id_of(json), max_rows);
  Features result{.atoms = std::vector<uint32_t>(components.size(), 0), .numbers = {}};
  std::string bytes;
  ask<&Api::features>(model, &sample, result.atoms.data(), sdk::string_sink(bytes)).must_succeed();
  size_t at = 0;
  for (size_t c = 0; c < components.size(); ++c) {
    std::vector<double> numbers(size_t{result.atoms[c]} * components[c].n_features);
    const size_t size = numbers.size() * sizeof(double);
    expect(size <= bytes.size() - at, "features: {} bytes end within component {}", bytes.size(), c);
    if (size > 0) std::memcpy(numbers.data(), bytes.data() + at, size);
    at += size;
    result.numbers.push_back(std::move(numbers));
  }
  expect(at == bytes.size(), "features: expected {} bytes for the atoms stated, got {}", at, bytes.size());
  return result;
}

Columns Family::collate(const std::vector<std::string>& jsons, int64_t max_rows) {
  constexpr uint32_t kMost = 64;
  std::vector<lf_sample> samples;
  std::vector<const lf_sample*> pointers;
  samples.reserve(jsons.size());
  for (const std::string& json : jsons) {
    samples.push_back(sample_of(json, the_case.id_of(json), max_rows));
    pointers.push_back(&samples.back());
  }
  Columns columns;
  columns.samples = static_cast<uint32_t>(jsons.size());
  columns.atoms.assign(components.size(), 0);
  columns.totals.assign(components.back().n_features, 0);
  for (const std::string& json : jsons) {
    const Features own = features(json, max_rows);
    for (size_t c = 0; c < components.size(); ++c) columns.atoms[c] += own.atoms[c];
    const std::vector<double>& last = own.numbers.back();
    for (size_t k = 0; k < last.size(); ++k) columns.totals[k % columns.totals.size()] += last[k];
  }
  columns.tensors.assign(kMost, sdk::with_header<lf_named_tensor>());
  for (lf_named_tensor& column : columns.tensors) column.tensor = sdk::with_header<lf_tensor>();
  uint32_t n = 0;
  ask<&Api::collate>(model, static_cast<const lf_sample* const*>(pointers.data()),
                     static_cast<uint32_t>(pointers.size()), columns.tensors.data(), kMost, &n)
      .must_succeed();
  expect(n <= kMost, "collate: expected at most {} columns, got {}", kMost, n);
  columns.tensors.resize(n);
  return columns;
}

void Family::draw_values() {
  std::mt19937 random(7);
  const auto uniform = [&] { return (static_cast<double>(random()) + 0.5) / 4294967296.0; };
  for (auto& table : parameters)
    for (Parameter& p : table) {
      if (p.tied >= 0) continue;
      const auto n = static_cast<size_t>(elements(p.description));
      p.values.resize(n);
      p.gradient.assign(n, 0);
      const double a = p.description.init_a, b = p.description.init_b;
      for (float& value : p.values) {
        // Zeros and ones are given some noise: at 0 exactly, derivatives of a following factor vanish.
        constexpr double kTwoPi = 6.283185307179586;
        const double gauss = std::sqrt(-2 * std::log(uniform())) * std::cos(kTwoPi * uniform());  // Box and Muller 1958
        switch (p.description.init) {
          case LF_INIT_ONES:
            value = static_cast<float>(1 + 0.1 * gauss);
            break;
          case LF_INIT_NORMAL:
            value = static_cast<float>(a + b * gauss);
            break;
          case LF_INIT_UNIFORM:
            value = static_cast<float>(a + (b - a) * uniform());
            break;
          default:
            value = static_cast<float>(0.1 * gauss);
        }
      }
    }
}

uint32_t Family::border(uint32_t component, uint32_t unit) {
  if (unit == 0 || unit == components[component].n_units) return 0;
  uint32_t n = 0;
  ask<&Api::boundary>(model, component, unit, static_cast<lf_port*>(nullptr), 0u, &n).must_succeed();
  return n;
}

void Family::add_stage(uint32_t component, uint32_t first, uint32_t end, const StageOptions& options, bool no_grad) {
  Stage stage{
      component, first, end - first, nullptr, no_grad, {}, {}, border(component, first), border(component, end)};
  const auto inside = [&](uint32_t unit) { return unit >= first && unit < end; };
  for (size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].to == component && inside(edges[e].to_unit)) stage.in.push_back(e);
    if (edges[e].from == component && inside(edges[e].from_unit)) stage.out.push_back(e);
  }
  const std::vector<uint8_t> recompute(stage.units, static_cast<uint8_t>(options.recompute));
  auto config = sdk::with_header<lf_stage_config>();
  config.component = component;
  config.first_unit = first;
  config.n_units = stage.units;
  config.id = static_cast<uint32_t>(stages_.size());
  config.dtype = LF_DTYPE_F32;
  config.flags = no_grad ? LF_STAGE_NO_GRAD : 0;
  config.recompute = options.recompute == LF_RECOMPUTE_NONE ? nullptr : recompute.data();
  ask<&Api::stage_new>(model, static_cast<const lf_stage_config*>(&config), &stage.handle).must_succeed();
  stages_.push_back(stage);
  bind(stages_.back());
}

void Family::build(const StageOptions& options) {
  free_stages();
  if (parameters[0].empty() || parameters.back().empty() || parameters.back().back().values.empty()) draw_values();
  for (auto& table : parameters)
    for (Parameter& p : table) p.frozen = options.frozen && options.frozen(p);
  std::vector<bool> trained(components.size(), false);
  for (uint32_t c = 0; c < components.size(); ++c) {
    for (const Parameter& p : parameters[c]) trained[c] = trained[c] || !p.frozen;
    for (const lf_edge& edge : edges) trained[c] = trained[c] || (edge.to == c && trained[edge.from]);
    const auto cut = options.cuts.find(c);
    if (cut == options.cuts.end()) {
      add_stage(c, 0, components[c].n_units, options, !trained[c]);
    } else {
      add_stage(c, 0, cut->second, options, !trained[c]);
      add_stage(c, cut->second, components[c].n_units, options, !trained[c]);
    }
  }
  zero_gradients();
}

void Family::free_stages() {
  for (const Stage& stage : stages_) ask<&Api::stage_free>(stage.handle).must_succeed();
  stages_.clear();
}

void Family::bind(Stage& stage) {
  for (uint32_t unit = 0; unit < stage.units; ++unit) {
    std::vector<lf_tensor> values, gradients;
    for (Parameter& p : parameters[stage.component]) {
      if (p.description.unit != stage.first + unit) continue;
      Parameter& holder = owner(p);
      const std::span<const int64_t> shape(p.description.shape, static_cast<size_t>(p.description.ndim));
      values.push_back(sdk::borrow(holder.values.data(), LF_DTYPE_F32, shape));
      gradients.push_back(p.frozen ? sdk::with_header<lf_tensor>()
                                   : sdk::borrow(holder.gradient.data(), LF_DTYPE_F32, shape));
    }
    ask<&Api::bind>(stage.handle, unit, static_cast<const lf_tensor*>(values.data()),
                    static_cast<const lf_tensor*>(gradients.data()), static_cast<uint32_t>(values.size()))
        .must_succeed();
  }
}

void Family::zero_gradients() {
  for (auto& table : parameters)
    for (Parameter& p : table) {
      std::fill(p.gradient.begin(), p.gradient.end(), 0.0f);
      p.done = false;
    }
  events.clear();
}

StepSums Family::run(const Columns& columns, double loss_scale, const Columns* step_columns) {
  const lf_tensor absent = sdk::with_header<lf_tensor>();
  std::vector<lf_tensor> held;  // the plugin's outputs, released at the end whatever happens
  struct Releaser {
    std::vector<lf_tensor>& tensors;
    ~Releaser() {
      for (lf_tensor& tensor : tensors) sdk::release(tensor);
    }
  } releaser{held};
  const auto lend = [](lf_tensor tensor) {
    tensor.owner = nullptr;
    tensor.release = nullptr;
    return tensor;
  };

  auto batch = sdk::with_header<lf_batch>();
  batch.micro_batch = next_micro_batch_++;
  batch.columns = columns.tensors.data();
  batch.n_columns = static_cast<uint32_t>(columns.tensors.size());
  batch.n_samples = columns.samples;
  batch.loss_scale = loss_scale;
  const std::vector<double>& totals = (step_columns != nullptr ? *step_columns : columns).totals;
  batch.totals = totals.data();
  batch.n_totals = totals.size();

  std::vector<lf_tensor> edge_values(edges.size(), absent), edge_gradients(edges.size(), absent);
  std::vector<std::vector<lf_tensor>> borders(stages_.size() + 1), border_gradients(stages_.size() + 1);
  StepSums sums;
  const auto last = static_cast<uint32_t>(components.size() - 1);
  for (size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    if (columns.atoms[stage.component] == 0) continue;
    const bool ends = stage.component == last && stage.first + stage.units == components[last].n_units;
    std::vector<lf_tensor> in = borders[s];
    for (const size_t e : stage.in) in.push_back(edge_values[e]);
    std::vector<lf_tensor> out(stage.border_out + stage.out.size(), absent);
    auto step = sdk::with_header<lf_step_out>();
    const Answer answer =
        ask<&Api::forward>(stage.handle, static_cast<const lf_batch*>(&batch), static_cast<const lf_tensor*>(in.data()),
                           static_cast<uint32_t>(in.size()), out.data(), static_cast<uint32_t>(out.size()),
                           ends ? &step : nullptr, lf_stream{});
    held.insert(held.end(), out.begin(), out.end());
    answer.must_succeed();
    for (uint32_t k = 0; k < stage.border_out; ++k) borders[s + 1].push_back(lend(out[k]));
    for (size_t k = 0; k < stage.out.size(); ++k) edge_values[stage.out[k]] = lend(out[stage.border_out + k]);
    if (ends) sums = {step.loss_sum, step.loss_weight};
  }
  for (size_t s = stages_.size(); s-- > 0;) {
    Stage& stage = stages_[s];
    if (columns.atoms[stage.component] == 0) continue;
    if (loss_scale == 0 || stage.no_grad) {
      ask<&Api::drop>(stage.handle, batch.micro_batch).must_succeed();
      continue;
    }
    std::vector<lf_tensor> gout = border_gradients[s + 1], gin(stage.border_in + stage.in.size(), absent);
    for (const size_t e : stage.out) gout.push_back(edge_gradients[e]);
    const size_t told = events.size();
    const Answer answer = ask<&Api::backward>(
        stage.handle, batch.micro_batch, int32_t{LF_BACKWARD_BOTH}, static_cast<const lf_tensor*>(gout.data()),
        static_cast<uint32_t>(gout.size()), gin.data(), static_cast<uint32_t>(gin.size()), loss_scale, lf_stream{});
    held.insert(held.end(), gin.begin(), gin.end());
    answer.must_succeed();
    if (told == events.size())  // says nothing of its units: one unit to the host
      for (Parameter& p : parameters[stage.component]) p.done = true;
    for (uint32_t k = 0; k < stage.border_in; ++k) border_gradients[s].push_back(lend(gin[k]));
    for (size_t k = 0; k < stage.in.size(); ++k) edge_gradients[stage.in[k]] = lend(gin[stage.border_in + k]);
  }
  return sums;
}

}  // namespace lf::kit
