#include "parity/parity.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <utility>

#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>

#include "core/amount.h"
#include "core/error.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "model/runner.h"
#include "optimizer/adamw.h"
#include "optimizer/adamw_on_device.h"
#include "parity/case.h"
#include "parity/numbers.h"
#include "train/session.h"
#include "train/weights.h"

namespace lf {
namespace {

namespace options = boost::program_options;
using nlohmann::json;

struct Settings {
  std::filesystem::path directory, out;
  std::string config = "config.json", dtype = "fp32", family, device = "cpu", op_fallback = "error";
  std::vector<std::string> cases;
  bool bf16() const { return dtype == "bf16"; }
};

constexpr std::string_view kUsage =
    "usage: lfrun parity DIR [CASE...] [--dtype fp32|bf16] [--config FILE] [--family ID] [--device ID] "
    "[--op-fallback error|warn] [--out DIR]";

// Nothing where only help was wanted.
std::optional<Settings> parse(std::span<const std::string> arguments) {
  Settings settings;
  options::options_description known("lfrun parity DIR");
  known.add_options()("help", "")("dir", options::value(&settings.directory))("case", options::value(&settings.cases))(
      "dtype", options::value(&settings.dtype))("config", options::value(&settings.config))(
      "family", options::value(&settings.family))("device", options::value(&settings.device))(
      "op-fallback", options::value(&settings.op_fallback))("out", options::value(&settings.out));
  options::positional_options_description positional;
  positional.add("dir", 1).add("case", -1);
  try {
    options::variables_map values;
    options::store(options::command_line_parser(std::vector<std::string>(arguments.begin(), arguments.end()))
                       .options(known)
                       .positional(positional)
                       .run(),
                   values);
    if (values.count("help") != 0) {
      fmt::print("{}\n", kUsage);
      return std::nullopt;
    }
    if (values.count("dir") == 0) throw options::error("expected the folder of the cases, DIR");
    options::notify(values);
  } catch (const options::error& error) {
    fail(Exit::kUsage, "lfrun parity: {}; {}", error.what(), kUsage);
  }
  if (settings.dtype != "fp32" && settings.dtype != "bf16")
    fail(Exit::kUsage, "lfrun parity: --dtype is fp32 or bf16, got {}", settings.dtype);
  if (settings.op_fallback != "error" && settings.op_fallback != "warn")
    fail(Exit::kUsage, "lfrun parity: --op-fallback is error or warn, got {}", settings.op_fallback);
  return settings;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    fail(exit_of_unreadable(errno),
         "{}: cannot be read: {}; a parity directory holds config.json and model.safetensors", file.string(),
         std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// JSON as Python writes it, which has numbers that JSON lacks: they become null.
json python_json(const std::string& text) {
  static const std::regex kNotNumbers(R"((:\s*)(-?Infinity|NaN)\b)");
  return json::parse(std::regex_replace(text, kNotNumbers, "$1null"));
}

// One line of the table, and whether it holds.
class Table {
 public:
  void row(const std::string& name, const std::string& what, double difference, double allowed) {
    const bool ok = difference <= allowed;  // NaN is not
    head();
    misses_ += ok ? 0 : 1;
    ++rows_;
    fmt::print("{:<14} {:<44} {:>11.3e} {:>11.3e}  {}\n", name, what, difference, allowed, ok ? "ok" : "MISS");
  }
  void shown(const std::string& name, const std::string& what, double difference) {
    head();
    fmt::print("{:<14} {:<44} {:>11.3e} {:>11}\n", name, what, difference, "-");
  }
  void miss(const std::string& name, const std::string& what) {
    head();
    ++misses_;
    ++rows_;
    fmt::print("{:<14} {:<44} {:>23}  MISS\n", name, what, "");
  }
  void note(const std::string& name, const std::string& what) { fmt::print("{:<14} {}\n", name, what); }
  int misses() const { return misses_; }
  int rows() const { return rows_; }

 private:
  void head() {  // above the first line only: an error before it leaves no empty table
    if (std::exchange(has_head_, true)) return;
    fmt::print("{:<14} {:<44} {:>11} {:>11}\n", "case", "what", "difference", "allowed");
  }

  int misses_ = 0, rows_ = 0;
  bool has_head_ = false;
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(double{a[i]} - double{b[i]});
    if (!(d <= worst)) worst = d;  // lets NaN through
  }
  return worst;
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

// The device that all cases run on: a process registers one with LibTorch.
struct CommonDevice {
  explicit CommonDevice(const JobConfig& config) : session(config, without_model()) {}
  static SessionOptions without_model() {
    SessionOptions options;
    options.open_policy = false;
    options.skip = {"model.family"};
    return options;
  }
  const Device& device() const { return *session.device; }
  Session session;
};

// A model with its weights, ready to run one case. Where the device has memory of its own, AdamW is there.
struct Bench {
  Bench(const JobConfig& config, const SessionOptions& options, const Device& common)
      : device(common),
        session(config, options),
        freezing(freeze(session.model->description(), {})),
        store(session.model->description(), freezing, device, compute_dtype(config), StatePlaces{.on_device = true}),
        runner(*session.model, store, freezing, session.parallel, device, LF_RECOMPUTE_NONE) {
    WeightSource(config, session.model->description()).fill(store, config.job.seed);
  }
  RunResult run(const MicroBatch& batch, bool outputs) {
    runner.begin_step();
    store.zero_gradients();
    RunResult result = runner.run(batch, 0, RunOptions{.outputs = outputs, .loss_scale = 1 / batch.loss_weight});
    store.fetch_gradients();
    return result;
  }
  AdamW optimizer(const OptimizerSection& settings) const {
    std::vector<OptimizedParameter> parameters;
    for (const ParameterSlot& slot : store.slots())
      if (slot.trained)
        parameters.push_back({store.description().parameters[slot.parameter].name, slot.offset, slot.elements,
                              static_cast<uint32_t>(slot.unit), true, 1});
    if (store.state_on_device()) {
      std::unique_ptr<AdamWMemory> memory = adamw_on_device(device, store, ranges_of(parameters));
      return AdamW(settings, std::move(parameters), std::move(memory));
    }
    return AdamW(OptimizerInputs{.settings = settings,
                                 .master = store.master(),
                                 .gradients = store.gradients(),
                                 .compute_bf16 = store.compute_bf16(),
                                 .parameters = std::move(parameters)});
  }
  const Device& device;
  Session session;
  Freezing freezing;
  ParameterStore store;
  Runner runner;
};

// A column of i64; empty where there is none.
std::vector<int64_t> integers(const MicroBatch& batch, const std::string& name) {
  for (const lf_named_tensor& column : batch.columns)
    if (sdk::view(column.name) == name) {
      const auto* values = static_cast<const int64_t*>(column.tensor.data);
      return {values, values + sdk::element_count(column.tensor)};
    }
  return {};
}

// What the reference states under a name, or, for a case of several runs, under "0.name", "1.name" ..., one after the
// other. Nothing where it states neither.
std::optional<Array> stated(const Arrays& expected, const std::string& name) {
  if (const auto found = expected.find(name); found != expected.end()) return found->second;
  std::optional<Array> all;
  for (size_t i = 0; expected.contains(fmt::format("{}.{}", i, name)); ++i) {
    const Array& one = expected.at(fmt::format("{}.{}", i, name));
    if (!all) all.emplace(Array{{0}, {}});
    all->values.insert(all->values.end(), one.values.begin(), one.values.end());
    all->shape[0] = static_cast<int64_t>(all->values.size());
  }
  return all;
}

// Row by row back in the shape of the case's inputs.
Array scatter(const Array& packed, const std::vector<int64_t>& rows, const std::vector<int64_t>& shape) {
  Array full{shape, std::vector<float>(static_cast<size_t>(whole(shape).elements()))};
  const size_t columns = packed.values.size() / std::max<size_t>(rows.size(), 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t to = static_cast<size_t>(rows[i]) * columns;
    if (to + columns > full.values.size()) fail(Exit::kBug, "source_row {} lies outside the case's rows", rows[i]);
    std::copy_n(packed.values.begin() + static_cast<std::ptrdiff_t>(i * columns), columns,
                full.values.begin() + static_cast<std::ptrdiff_t>(to));
  }
  return full;
}

// Only rows that were run: what a reference says of its padding is its own affair.
double difference_at(const std::vector<int64_t>& rows, size_t columns, const Array& ours, const Array& expected) {
  double worst = 0;
  for (const int64_t row : rows)
    for (size_t c = 0; c < columns; ++c) {
      const size_t at = static_cast<size_t>(row) * columns + c;
      const double d = std::abs(double{ours.values[at]} - double{expected.values[at]});
      if (!(d <= worst)) worst = d;  // lets NaN through
    }
  return worst;
}

// Outputs back in the shape of the case's inputs: value by value where collate says where each belongs, else row by
// row where it says that, else as they are.
Array place_back(Array made, const MicroBatch& batch, const std::string& name, const std::vector<int64_t>& shape) {
  if (const std::vector<int64_t> places = integers(batch, "place." + name); !places.empty()) {
    Array full{shape, std::vector<float>(static_cast<size_t>(whole(shape).elements()))};
    for (size_t i = 0; i < places.size(); ++i) full.values.at(static_cast<size_t>(places[i])) = made.values.at(i);
    return full;
  }
  if (const std::vector<int64_t> rows = integers(batch, "source_row"); !rows.empty()) return scatter(made, rows, shape);
  if (made.values.size() != static_cast<size_t>(whole(shape).elements()))
    fail(Exit::kBug, "output {} has {} values, the reference {}, and collate made no column place.{} or source_row",
         name, made.values.size(), whole(shape).elements(), name);
  made.shape = shape;
  return made;
}

void compare_gradients(Table& table, const std::string& name, const Arrays& ours, const Arrays& expected, bool bf16) {
  if (std::none_of(expected.begin(), expected.end(),
                   [](const auto& item) { return item.first.starts_with("grad."); })) {
    table.note(name, "the reference states no gradients");
    return;
  }
  double square = 0, square_difference = 0;
  for (const auto& [key, array] : expected)
    if (key.starts_with("grad.")) square += std::pow(norm(array.values), 2);
  const double global = std::sqrt(square);
  double worst = 0;
  std::string worst_name = "none";
  size_t compared = 0;
  for (const auto& [key, array] : expected) {
    if (!key.starts_with("grad.")) continue;
    const auto found = ours.find(key.substr(5));
    if (found == ours.end()) {
      table.miss(name, key + " has no gradient here");
      continue;
    }
    ++compared;
    if (found->second.shape != array.shape) {
      table.miss(name, key + " has another shape");
      continue;
    }
    double top = 0;
    for (const float value : array.values) top = std::max(top, std::abs(double{value}));
    const double difference = largest_difference(found->second.values, array.values);
    const double share = difference / (1e-4 * top + 1e-6 * global);
    for (size_t i = 0; i < array.values.size(); ++i)
      square_difference += std::pow(double{found->second.values[i]} - double{array.values[i]}, 2);
    if (!(share <= worst)) {
      worst = share;
      worst_name = key.substr(5);
    }
  }
  for (const auto& [key, array] : ours)
    if (!expected.contains("grad." + key)) table.miss(name, "grad." + key + " is not in the reference");
  if (compared == 0) return;
  if (bf16)
    table.row(name, fmt::format("{} gradients together, of their norm", compared),
              std::sqrt(square_difference) / global, 0.1);
  else
    table.row(name, fmt::format("{} gradients, worst {}", compared, worst_name), worst, 1);
}

// Five updates as the reference made them (meta.json says how); loss and gradient norm before each.
void compare_trajectory(Table& table, const std::string& name, Bench& bench, const MicroBatch& batch,
                        const Arrays& expected, const json& how) {
  OptimizerSection settings;
  settings.learning_rate = how.at("lr");
  settings.beta1 = how.at("betas").at(0);
  settings.beta2 = how.at("betas").at(1);
  settings.epsilon = how.at("eps");
  settings.weight_decay = how.at("weight_decay");
  settings.clip_norm = how.at("clip_grad_norm");
  AdamW optimizer = bench.optimizer(settings);
  const Array& losses = expected.at("adamw.loss");
  const Array& norms = expected.at("adamw.grad_norm");
  double worst_loss = 0, worst_norm = 0;
  for (size_t step = 0; step < losses.values.size(); ++step) {
    const RunResult result = bench.run(batch, false);
    const double loss = result.loss_sum / batch.loss_weight;
    const StepStats stats = optimizer.step(settings.learning_rate, loss, bench.runner.units_with_gradient());
    bench.store.publish();
    worst_loss = std::max(worst_loss, std::abs(loss / double{losses.values[step]} - 1));
    worst_norm = std::max(worst_norm, std::abs(stats.grad_norm / double{norms.values[step]} - 1));
  }
  table.row(name, fmt::format("loss over {} AdamW steps, relative", losses.values.size()), worst_loss, 2e-4);
  table.row(name, fmt::format("gradient norm over {} AdamW steps", losses.values.size()), worst_norm, 2e-4);
}

void run_case(Table& table, const Settings& settings, const JobConfig& config, const Device& device,
              const std::string& name, const json& meta) {
  const std::filesystem::path folder = settings.directory / name;
  std::optional<Arrays> expected;
  if (std::filesystem::exists(folder / "expected.safetensors")) expected = read_arrays(folder / "expected.safetensors");
  SessionOptions session;
  session.model_config = text_of(settings.directory / settings.config);
  json losses = json::array();
  if (expected)
    for (const auto& [key, array] : *expected)
      if ((key.ends_with("_loss") && !key.ends_with("token_loss")) || key.ends_with("_kl")) losses.push_back(key);
  session.losses_json = losses.dump();
  if (meta.contains("cases") && meta["cases"].contains(name))
    session.no_gradient_json = meta["cases"][name].value("no_grad", json::array()).dump();
  session.open_policy = session.open_device = false;

  Bench bench(config, session, device);
  const Fields fields(folder / "inputs.safetensors");
  const MicroBatch batch = collate_fields(*bench.session.model, fields);
  RunResult result = bench.run(batch, true);

  Arrays actual;
  for (lf_named_tensor& output : result.outputs) {
    const std::string key(sdk::view(output.name));
    if (!sdk::present(output.tensor)) continue;  // this case does not ask for it
    Array packed = to_array(output.tensor);
    sdk::release(output.tensor);
    const std::optional<Array> wanted = expected ? stated(*expected, key) : std::nullopt;
    actual[key] = wanted ? place_back(std::move(packed), batch, key, wanted->shape) : std::move(packed);
  }
  const auto scalar = [](double value) { return Array{{}, {static_cast<float>(value)}}; };
  actual["loss"] = scalar(result.loss_sum / result.loss_weight);
  actual["loss_sum"] = scalar(result.loss_sum);
  actual["loss_count"] = scalar(result.loss_weight);
  const Arrays gradients = gradients_by_file_tensor(bench.store, bench.runner.units_with_gradient());
  for (const auto& [key, array] : gradients) actual["grad." + key] = array;
  const std::filesystem::path out = settings.out.empty() ? folder : settings.out / name;
  std::filesystem::create_directories(out);
  write_arrays(actual, out / "actual.safetensors");
  if (!expected) {
    fmt::print("{:<14} no expected.safetensors; loss {:.6f} over {} tokens, {}\n", name, actual["loss"].values[0],
               result.loss_weight, (out / "actual.safetensors").string());
    return;
  }

  for (const Output& output : bench.session.model->description().outputs) {
    const std::optional<Array> wanted = stated(*expected, output.name);
    if (!wanted) continue;
    if (!actual.contains(output.name)) {
      table.note(name, output.name + " is stated, and the case's inputs do not ask for it");
      continue;
    }
    const std::vector<int64_t> rows = integers(batch, "source_row");
    const bool by_row = !rows.empty() && integers(batch, "place." + output.name).empty();
    const double difference =
        by_row ? difference_at(rows, static_cast<size_t>(output.columns), actual.at(output.name), *wanted)
               : largest_difference(actual.at(output.name).values, wanted->values);
    if (settings.bf16())
      table.shown(name, output.name, difference);
    else
      table.row(name, output.name, difference, 2e-5);
  }
  for (size_t k = 0; k < result.aux.size(); ++k) {
    const std::string& term = bench.session.model->description().aux_names[k];
    if (!expected->contains(term)) continue;
    double sum = 0;  // some are stated layer by layer
    for (const float value : expected->at(term).values) sum += double{value};
    const double difference = std::abs(result.aux[k] / result.loss_weight - sum);
    table.row(name, term, difference, settings.bf16() ? 2e-2 * std::abs(sum) : 1e-5);
  }
  if (expected->contains("loss_count"))
    table.row(name, "loss_count", std::abs(actual["loss_count"].values[0] - expected->at("loss_count").values[0]), 0);
  const double loss = double{expected->at("loss").values[0]};
  table.row(name, "loss", std::abs(actual["loss"].values[0] - loss), settings.bf16() ? 2e-2 * std::abs(loss) : 1e-5);
  compare_gradients(table, name, gradients, *expected, settings.bf16());
  if (expected->contains("adamw.loss") && !settings.bf16())
    compare_trajectory(table, name, bench, batch, *expected, meta.at("cases").at(name).at("adamw"));
}

// What --family says, else the one installed family that takes the folder's config.json.
std::string family_for(const Settings& settings, JobConfig config) {
  if (!settings.family.empty()) return settings.family;
  SessionOptions options;
  options.open_device = options.open_policy = false;
  options.model_config = text_of(settings.directory / settings.config);
  std::vector<std::string> takers;
  std::string refusals;
  for (const Candidate& candidate : list_plugins(config.plugin_dirs, PluginHost{.torch_build = LF_TORCH_BUILD})) {
    if (!candidate.manifest || candidate.refusal || candidate.manifest->kind != PluginKind::kModel) continue;
    config.model.family = candidate.manifest->id;
    try {
      const Session described(config, options);
      takers.push_back(config.model.family);
    } catch (const Error& error) {
      refusals += fmt::format("\n  {}: {}", config.model.family, error.what());
    }
  }
  if (takers.size() == 1) return takers.front();
  if (takers.empty())
    fail(Exit::kConfig, "lfrun parity: no installed family takes {}; install one that does{}",
         (settings.directory / settings.config).string(), refusals);
  fail(Exit::kUsage, "lfrun parity: {} families take this config ({}); say which by --family ID", takers.size(),
       fmt::join(takers, ", "));
}

}  // namespace

int run_parity(std::span<const std::string> arguments, const std::vector<std::filesystem::path>& plugin_dirs) {
  const std::optional<Settings> parsed = parse(arguments);
  if (!parsed) return static_cast<int>(Exit::kDone);
  const Settings& settings = *parsed;
  if (std::error_code error; !std::filesystem::is_directory(settings.directory, error))
    fail(Exit::kInputMissing, "lfrun parity: {}: expected a folder of cases, got {}", settings.directory.string(),
         std::filesystem::exists(settings.directory, error) ? "a file" : "nothing there");
  JobConfig config;
  config.plugin_dirs = plugin_dirs;
  config.model.path = settings.directory;
  config.device.name = settings.device;
  config.device.op_fallback = settings.op_fallback;
  config.precision.compute = settings.dtype;
  config.model.family = family_for(settings, config);
  if (const auto adapter = settings.directory / "adapter"; std::filesystem::exists(adapter)) config.lora.path = adapter;
  json meta;
  if (std::filesystem::exists(settings.directory / "meta.json"))
    meta = python_json(text_of(settings.directory / "meta.json"));
  const CommonDevice common(config);
  Table table;
  for (const std::string& name : settings.cases.empty() ? case_names(settings.directory) : settings.cases)
    run_case(table, settings, config, common.device(), name, meta);
  fmt::print("{} of {} hold\n", table.rows() - table.misses(), counted(table.rows(), "comparison"));
  return static_cast<int>(table.misses() == 0 ? Exit::kDone : Exit::kMismatch);
}

}  // namespace lf
