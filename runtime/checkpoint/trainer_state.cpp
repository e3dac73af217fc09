#include "checkpoint/trainer_state.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lf {
namespace {

constexpr int kStateFormat = 2;

}  // namespace

std::string trainer_state_text(const TrainerState& state) {
  nlohmann::json data;
  data["samples_seen"] = state.position.samples_seen;
  data["bad_samples"] = state.position.bad_samples;
  data["long_samples"] = state.position.long_samples;
  data["cut_samples"] = state.position.cut_samples;
  nlohmann::json tree;
  tree["format"] = kStateFormat;
  tree["step"] = state.step;
  tree["updates"] = state.updates;
  tree["skipped_in_a_row"] = state.skipped_in_a_row;
  tree["seed"] = state.seed;
  tree["micro_batches"] = state.micro_batches;
  tree["total_steps"] = state.total_steps;
  tree["data"] = std::move(data);
  tree["settings"] = state.settings;
  tree["versions"] = state.versions;
  return tree.dump(1) + "\n";
}

TrainerState parse_trainer_state(const std::string& place, const std::string& text) {
  TrainerState state;
  try {
    const nlohmann::json tree = nlohmann::json::parse(text);
    if (const int format = tree.at("format").get<int>(); format != kStateFormat)
      fail(Exit::kBadData, "{}: expected format {}, got {}; resume with the lfrun that wrote it", place, kStateFormat,
           format);
    tree.at("step").get_to(state.step);
    tree.at("updates").get_to(state.updates);
    tree.at("skipped_in_a_row").get_to(state.skipped_in_a_row);
    tree.at("seed").get_to(state.seed);
    state.micro_batches = tree.value("micro_batches", int64_t{0});
    state.total_steps = tree.value("total_steps", int64_t{0});
    const nlohmann::json& data = tree.at("data");
    data.at("samples_seen").get_to(state.position.samples_seen);
    data.at("bad_samples").get_to(state.position.bad_samples);
    data.at("long_samples").get_to(state.position.long_samples);
    data.at("cut_samples").get_to(state.position.cut_samples);
    tree.at("settings").get_to(state.settings);
    tree.at("versions").get_to(state.versions);
  } catch (const nlohmann::json::exception& error) {
    fail(Exit::kBadData, "{}: {}", place, error.what());
  }
  return state;
}

}  // namespace lf
