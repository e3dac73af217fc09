// Small training states with known values.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "runtime/weights/scratch.h"

namespace lf::test {

// Two parameters with both moments, in memory of its own.
struct State {
  std::vector<std::pair<std::string, std::vector<int64_t>>> parameters = {
      {"embed.weight", {10, 4}}, {"layers.0.w", {3, 4, 5}}, {"norm", {7}}};
  std::vector<std::vector<float>> values;
  TrainerState trainer;

  explicit State(int64_t step) {
    trainer.step = step;
    trainer.updates = step - 1;
    trainer.skipped_in_a_row = 1;
    trainer.seed = UINT64_MAX;
    trainer.position.samples_seen = static_cast<uint64_t>(step) * 1000 + 7;
    trainer.position.bad_samples = 3;
    trainer.position.long_samples = 4;
    trainer.position.cut_samples = 5;
    trainer.settings = {{"job.seed", "7"}, {"model.family", "\"qwen_vl\""}};
    trainer.versions = {{"lfrun", "0.1.0"}, {"qwen_vl", "0.1"}};
    trainer.model_state = std::string("model\0state", 11);
    trainer.balance_state = "";
    for (size_t i = 0; i < 3 * parameters.size(); ++i) {
      auto& one = values.emplace_back(static_cast<size_t>(whole(parameters[i / 3].second).elements()));
      for (size_t k = 0; k < one.size(); ++k)
        one[k] = static_cast<float>(step * 10000 + static_cast<int64_t>(i * 1000 + k)) + 0.5f;
    }
  }

  // Names and shapes without any pieces; tensor i belongs to parameter i / 3.
  std::vector<StateTensor> tensors() const {
    std::vector<StateTensor> all;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& [name, shape] = parameters[i / 3];
      all.push_back({i % 3 == 0 ? "parameters" : "optimizer",
                     name + (i % 3 == 0   ? ""
                             : i % 3 == 1 ? ".m"
                                          : ".v"),
                     DType::kF32,
                     shape,
                     {}});
    }
    return all;
  }

  std::vector<StateTensor> whole_tensors() const {
    std::vector<StateTensor> all = tensors();
    for (size_t i = 0; i < all.size(); ++i) all[i].pieces = {{whole(all[i].shape), values[i].data()}};
    return all;
  }
};

// Every value and number of the checkpoint equals the state's.
inline void expect_equal(const Checkpoint& checkpoint, const State& state) {
  EXPECT_EQ(trainer_state_text(checkpoint.state()), trainer_state_text(state.trainer));
  EXPECT_EQ(checkpoint.state().model_state, state.trainer.model_state);
  EXPECT_EQ(checkpoint.state().balance_state, state.trainer.balance_state);
  const std::vector<StateTensor> tensors = state.tensors();
  EXPECT_EQ(checkpoint.names().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float> read(state.values[i].size(), -1.0f);
    checkpoint.read(tensors[i].name, tensors[i].shape, DType::kF32, read.data());
    EXPECT_EQ(read, state.values[i]) << tensors[i].name;
  }
}

inline CheckpointOptions options_for(const std::filesystem::path& directory, int keep = 2) {
  CheckpointOptions options;
  options.directory = directory;
  options.keep = keep;
  return options;
}

inline SaveReport save(FileSystem& files, const std::filesystem::path& directory, const State& state, int keep = 2) {
  LocalExchange alone;
  CheckpointWriter writer(files, alone, options_for(directory, keep));
  writer.save(state.trainer, state.whole_tensors());
  return writer.wait().value();
}

inline std::vector<std::string> entries(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lf::test
