// Our side of run.py: one training step of a model plugin on one recorded batch, driven over standard input.
//
//   lf_step_server CASE_DIR --dtype fp32|bf16 --threads N --plugin-dir DIR [--family qwen_vl]
//
// Each line "step" runs forward, backward and AdamW on CASE_DIR/batch through the same core that trains, and answers
// one JSON line {"seconds", "cpu_seconds", "loss"}; "memory" answers {"peak_bytes", "base_bytes"}; "quit" ends.
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "core/error.h"
#include "core/heap.h"
#include "model/runner.h"
#include "optimizer/adamw.h"
#include "parity/case.h"
#include "train/resident_memory.h"
#include "train/session.h"
#include "train/weights.h"

namespace lf {
namespace {

struct Arguments {
  std::filesystem::path directory, plugins;
  std::string dtype = "fp32", family = "qwen_vl";
  int threads = 1;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (word == "--dtype")
      arguments.dtype = value();
    else if (word == "--threads")
      arguments.threads = std::atoi(value());
    else if (word == "--plugin-dir")
      arguments.plugins = std::filesystem::absolute(value());
    else if (word == "--family")
      arguments.family = value();
    else
      arguments.directory = word;
  }
  if (arguments.directory.empty() || arguments.plugins.empty())
    fail(Exit::kUsage, "usage: lf_step_server CASE_DIR --dtype fp32|bf16 --threads N --plugin-dir DIR");
  return arguments;
}

double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

AdamW make_optimizer(const ParameterStore& store, int threads) {
  OptimizerInputs inputs;  // the peer's settings: every parameter decays, nothing is clipped
  inputs.settings.learning_rate = 1e-4;
  inputs.settings.clip_norm = 0;
  inputs.master = store.master();
  inputs.gradients = store.gradients();
  inputs.compute_bf16 = store.compute_bf16();
  inputs.threads = threads;
  for (const ParameterSlot& slot : store.slots())
    if (slot.trained)
      inputs.parameters.push_back({store.description().parameters[slot.parameter].name, slot.offset, slot.elements,
                                   static_cast<uint32_t>(slot.unit), true, 1});
  return AdamW(std::move(inputs));
}

int serve(const Arguments& arguments) {
  at::set_num_threads(arguments.threads);
  setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256", 0);  // as lfrun does, both
  set_up_heap();
  JobConfig config;
  config.plugins.dirs = {arguments.plugins};
  config.model.family = arguments.family;
  config.model.path = std::filesystem::absolute(arguments.directory);
  config.precision.compute = arguments.dtype;
  SessionOptions options;
  options.open_policy = false;
  const int64_t base_bytes = resident_memory().now_bytes;
  Session session(config, options);
  const Description& description = session.model->description();
  const Freezing freezing = freeze(description, {});
  const ParameterStore store(description, freezing, *session.device, compute_dtype(config));
  WeightSource(config, description).fill(store, 1);
  Runner runner(*session.model, store, freezing, session.parallel, *session.device,
                place_of_model(session, *session.device), LF_RECOMPUTE_NONE);
  AdamW optimizer = make_optimizer(store, arguments.threads);
  const Fields fields(config.model.path / "batch/inputs.safetensors");
  const MicroBatch batch = collate_fields(*session.model, fields);

  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    if (line == "memory") {
      fmt::print("{{\"peak_bytes\": {}, \"base_bytes\": {}}}\n", resident_memory().peak_bytes, base_bytes);
    } else {
      const double wall = wall_seconds(), cpu = cpu_seconds();
      runner.begin_step();
      store.zero_gradients();
      const RunResult result = runner.run(batch, 0, RunOptions{.loss_scale = 1 / batch.loss_weight});
      const double loss = result.loss_sum / result.loss_weight;
      optimizer.step(1e-4, loss, runner.units_with_gradient());
      fmt::print("{{\"seconds\": {}, \"cpu_seconds\": {}, \"loss\": {}}}\n", wall_seconds() - wall, cpu_seconds() - cpu,
                 loss);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace lf

int main(int argc, char** argv) {
  try {
    return lf::serve(lf::parse(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "lf_step_server: {}\n", error.what());
    return 1;
  }
}
