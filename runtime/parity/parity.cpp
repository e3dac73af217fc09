#include "parity/parity.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/amount.h"
#include "core/error.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "parity/arguments.h"
#include "parity/bench.h"
#include "parity/case.h"
#include "parity/comparison.h"
#include "parity/numbers.h"
#include "parity/placing.h"
#include "parity/recorded.h"

namespace lf {
namespace {

using nlohmann::json;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    fail(exit_of_unreadable(errno),
         "{}: cannot be read: {}; a parity directory holds config.json and model.safetensors", file.string(),
         std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Five updates as the reference made them (meta.json says how); loss and gradient norm before each.
void compare_trajectory(Table& table, const std::string& name, Bench& bench, const MicroBatch& batch,
                        const Arrays& expected, const OptimizerSection& settings) {
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

SessionOptions options_of_case(const ParityArguments& settings, const RecordedCase& recorded,
                               const std::optional<Arrays>& expected) {
  SessionOptions session;
  session.model_config = text_of(settings.directory / settings.config);
  json losses = json::array();
  if (expected)
    for (const auto& [key, array] : *expected)
      if ((key.ends_with("_loss") && !key.ends_with("token_loss")) || key.ends_with("_kl")) losses.push_back(key);
  session.losses_json = losses.dump();
  session.no_gradient_json = recorded.no_gradient_json;
  session.open_policy = session.open_device = false;
  return session;
}

// Outputs where the case's inputs have them, and losses. Takes the outputs out of `result`.
Arrays arrays_of(RunResult& result, const MicroBatch& batch, const std::optional<Arrays>& expected) {
  Arrays made;
  for (lf_named_tensor& output : result.outputs) {
    const std::string key(sdk::view(output.name));
    if (!sdk::present(output.tensor)) continue;  // this case does not ask for it
    Array packed = to_array(output.tensor);
    sdk::release(output.tensor);
    const std::optional<Array> wanted = expected ? stated(*expected, key) : std::nullopt;
    made[key] = wanted ? place_back(std::move(packed), batch, key, wanted->shape) : std::move(packed);
  }
  const auto scalar = [](double value) { return Array{{}, {static_cast<float>(value)}}; };
  made["loss"] = scalar(result.loss_sum / result.loss_weight);
  made["loss_sum"] = scalar(result.loss_sum);
  made["loss_count"] = scalar(result.loss_weight);
  return made;
}

void compare_outputs(Table& table, const std::string& name, const Description& description, const MicroBatch& batch,
                     const Arrays& actual, const Arrays& expected, bool bf16) {
  for (const Output& output : description.outputs) {
    const std::optional<Array> wanted = stated(expected, output.name);
    if (!wanted) continue;
    if (!actual.contains(output.name)) {
      table.note(name, output.name + " is stated, and the case's inputs do not ask for it");
      continue;
    }
    const std::vector<int64_t> rows = integers(batch, "source_row");
    const bool by_row = !rows.empty() && integers(batch, "place." + output.name).empty();
    const double difference =
        by_row ? difference_at(rows, static_cast<size_t>(output.columns > 0 ? output.columns : wanted->shape.back()),
                               actual.at(output.name), *wanted)
               : largest_difference(actual.at(output.name).values, wanted->values);
    if (bf16)
      table.shown(name, output.name, difference);
    else
      table.row(name, output.name, difference, 2e-5);
  }
}

void compare_losses(Table& table, const std::string& name, const Description& description, const RunResult& result,
                    const Arrays& actual, const Arrays& expected, bool bf16) {
  for (size_t k = 0; k < result.aux.size(); ++k) {
    const std::string& term = description.aux_names[k];
    if (!expected.contains(term)) continue;
    double sum = 0;  // some are stated layer by layer
    for (const float value : expected.at(term).values) sum += double{value};
    const double difference = std::abs(result.aux[k] / result.loss_weight - sum);
    table.row(name, term, difference, bf16 ? 2e-2 * std::abs(sum) : 1e-5);
  }
  const auto difference = [&](const char* key) {
    return std::abs(double{actual.at(key).values[0]} - double{expected.at(key).values[0]});
  };
  if (expected.contains("loss_count")) table.row(name, "loss_count", difference("loss_count"), 0);
  const double loss = double{expected.at("loss").values[0]};
  table.row(name, "loss", difference("loss"), bf16 ? 2e-2 * std::abs(loss) : 1e-5);
}

void run_case(Table& table, const ParityArguments& settings, const JobConfig& config, const Device& device,
              const std::string& name, const RecordedCase& recorded) {
  const std::filesystem::path folder = settings.directory / name;
  std::optional<Arrays> expected;
  if (std::filesystem::exists(folder / "expected.safetensors")) expected = read_arrays(folder / "expected.safetensors");
  Bench bench(config, options_of_case(settings, recorded, expected), device);
  const Fields fields(folder / "inputs.safetensors");
  const MicroBatch batch = collate_fields(*bench.session.model, fields);
  RunResult result = bench.run(batch, true);

  Arrays actual = arrays_of(result, batch, expected);
  const Arrays gradients = gradients_by_file_tensor(bench.store, bench.runner.units_with_gradient());
  for (const auto& [key, array] : gradients) actual["grad." + key] = array;
  const std::filesystem::path out = settings.out.empty() ? folder : settings.out / name;
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error)
    fail(Exit::kCannotCreate, "lfrun parity: {}: cannot be made: {}; name another folder by --out", out.string(),
         error.message());
  write_arrays(actual, out / "actual.safetensors");
  if (!expected) {
    fmt::print("{:<14} no expected.safetensors; loss {:.6f} over {} tokens, {}\n", name, actual["loss"].values[0],
               result.loss_weight, (out / "actual.safetensors").string());
    return;
  }

  const Description& description = bench.session.model->description();
  compare_outputs(table, name, description, batch, actual, *expected, settings.bf16());
  compare_losses(table, name, description, result, actual, *expected, settings.bf16());
  compare_gradients(table, name, gradients, *expected, settings.bf16());
  if (expected->contains("adamw.loss") && !settings.bf16())
    compare_trajectory(table, name, bench, batch, *expected, recorded.adamw);
}

// All, or those that are named. One that was recorded and is gone is no case that holds.
std::vector<std::string> wanted_cases(const ParityArguments& settings, const Recorded& recorded) {
  const std::vector<std::string> there = case_names(settings.directory);
  for (const std::string& name : recorded.names())
    if (settings.cases.empty() && std::find(there.begin(), there.end(), name) == there.end())
      fail(Exit::kInputMissing,
           "lfrun parity: {}: expected the folder {}, as it lists that case, got none; record it anew, or name the "
           "cases that are there: {}",
           (settings.directory / "meta.json").string(), (settings.directory / name).string(), fmt::join(there, ", "));
  for (const std::string& name : settings.cases)
    if (std::find(there.begin(), there.end(), name) == there.end())
      fail(Exit::kInputMissing, "lfrun parity: {}: expected one of the cases in {} ({}), got none of that name", name,
           settings.directory.string(), fmt::join(there, ", "));
  return settings.cases.empty() ? there : settings.cases;
}

// What --family says, else the one installed family that takes the folder's config.json.
std::string family_for(const ParityArguments& settings, JobConfig config) {
  if (!settings.family.empty()) return settings.family;
  SessionOptions options;
  options.open_device = options.open_policy = false;
  options.model_config = text_of(settings.directory / settings.config);
  std::vector<std::string> takers;
  std::string refusals;
  std::vector<Error> mistakes;  // found by families that know such a config
  for (const Candidate& candidate : list_plugins(config.plugins.dirs, plugin_host(config.plugins))) {
    if (candidate.refusal && (!candidate.manifest || candidate.manifest->kind == PluginKind::kModel))
      refusals += fmt::format("\n  {}: {}", candidate.path.string(), *candidate.refusal);
    if (!candidate.manifest || candidate.refusal || candidate.manifest->kind != PluginKind::kModel) continue;
    config.model.family = candidate.manifest->id;
    try {
      const Session described(config, options);
      takers.push_back(config.model.family);
    } catch (const Error& error) {
      const std::string said = fmt::format("{}: {}", config.model.family, error.what());
      refusals += "\n  " + said;
      if (said.find("family that knows") == std::string::npos)
        mistakes.emplace_back(error.exit(), "lfrun parity: " + said);
    }
  }
  if (takers.size() == 1) return takers.front();
  if (takers.empty() && mistakes.size() == 1) throw mistakes.front();
  if (takers.empty())
    fail(Exit::kConfig, "lfrun parity: no installed family takes {}; install one that does{}",
         (settings.directory / settings.config).string(), refusals);
  fail(Exit::kUsage, "lfrun parity: {} families take this config ({}); say which by --family ID", takers.size(),
       fmt::join(takers, ", "));
}

}  // namespace

int run_parity(std::span<const std::string> arguments, const PluginPlaces& places) {
  const std::optional<ParityArguments> parsed = read_parity_arguments(arguments);
  if (!parsed) return static_cast<int>(Exit::kDone);
  const ParityArguments& settings = *parsed;
  if (std::error_code error; !std::filesystem::is_directory(settings.directory, error))
    fail(Exit::kInputMissing, "lfrun parity: {}: expected a folder of cases, got {}", settings.directory.string(),
         std::filesystem::exists(settings.directory, error) ? "a file" : "nothing there");
  JobConfig config;
  config.plugins = places;
  config.model.path = settings.directory;
  config.device.name = settings.device;
  config.device.op_fallback = settings.op_fallback;
  config.precision.compute = settings.dtype;
  config.model.family = family_for(settings, config);
  if (const auto adapter = settings.directory / "adapter"; std::filesystem::exists(adapter)) config.lora.path = adapter;
  const Recorded recorded(settings.directory);
  const std::vector<std::string> cases = wanted_cases(settings, recorded);
  const CommonDevice common(config);
  Table table;
  for (const std::string& name : cases) run_case(table, settings, config, common.device(), name, recorded.of(name));
  fmt::print("{} of {} hold\n", table.rows() - table.misses(), counted(table.rows(), "comparison"));
  return static_cast<int>(table.misses() == 0 ? Exit::kDone : Exit::kMismatch);
}

}  // namespace lf
