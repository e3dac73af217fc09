#include "pi05/data/processor_files.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::robot {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What lerobot's policies call them, whatever the data set does.
constexpr const char *kState = "observation.state", *kAction = "action";

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& expected) {
  throw sdk::Failure(LF_E_INVALID, fmt::format("{}: expected {}; let lerobot save the policy anew, or remove it",
                                               path.string(), expected));
}

const char* mode_name(Normalization kind) {
  switch (kind) {
    case Normalization::kQuantiles:
      return "QUANTILES";
    case Normalization::kInnerQuantiles:
      return "QUANTILE10";
    case Normalization::kRange:
      return "MIN_MAX";
    case Normalization::kMeanDeviation:
      return "MEAN_STD";
    case Normalization::kNone:
      break;
  }
  return "IDENTITY";
}

std::map<std::string, std::vector<float>> named(const UsedStatistics::Feature& feature) {
  if (feature.kind == Normalization::kNone) return {};
  const Statistics& s = feature.statistics;
  if (feature.kind == Normalization::kMeanDeviation) return {{"mean", s.mean}, {"std", s.deviation}};
  const auto [low, high] = range_names(feature.kind);
  return {{low, s.low}, {high, s.high}, {"std", s.deviation}};
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open() || in.bad()) refuse_file(path, "a file that can be read");
  return text;
}

// A small safetensors file, by tensor.
struct StoredTensor {
  std::string dtype, bytes;
  json shape;
};
using State = std::map<std::string, StoredTensor>;

State read_state(const std::filesystem::path& path) {
  const std::string text = text_of(path);
  uint64_t length = 0;
  for (size_t i = 8; text.size() >= 8 && i-- > 0;) length = length << 8 | static_cast<unsigned char>(text[i]);
  if (text.size() < 8 || length > text.size() - 8) refuse_file(path, "a safetensors file");
  const json header = json::parse(text.substr(8, length), nullptr, false);
  if (!header.is_object()) refuse_file(path, "a safetensors file");
  const std::string_view data = std::string_view(text).substr(8 + length);
  State state;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const json offsets = entry.is_object() ? entry.value("data_offsets", json()) : json();
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
        !entry.contains("shape") || offsets[1] < offsets[0] || offsets[1].get<uint64_t>() > data.size())
      refuse_file(path, fmt::format("a place of \"{}\" in the file", name));
    const auto begin = offsets[0].get<uint64_t>();
    state[name] = {entry["dtype"], std::string(data.substr(begin, offsets[1].get<uint64_t>() - begin)), entry["shape"]};
  }
  return state;
}

std::string written(const State& state) {
  json header = json::object();
  std::string data;
  for (const auto& [name, tensor] : state) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(text.size() >> (8 * i) & 255);
  return out + text + data;
}

// Instead of all that the state knows of the feature.
void put(State& state, const std::string& feature, const UsedStatistics::Feature& used) {
  std::erase_if(state, [&](const auto& entry) { return entry.first.starts_with(feature + "."); });
  for (const auto& [name, values] : named(used)) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    state[feature + "." + name] = {"F32", std::move(bytes), {values.size()}};
  }
}

// One of the two pipelines, and the state of its normalising step.
void add_pipeline(const UsedStatistics& used, const std::filesystem::path& source, const std::string& pipeline,
                  std::vector<family::SavedFile>& files) {
  const std::filesystem::path path = source / (pipeline + ".json");
  std::error_code unreadable;
  if (source.empty() || !std::filesystem::exists(path, unreadable)) return;
  ordered_json content = ordered_json::parse(text_of(path), nullptr, false);
  if (!content.is_object() || !content.contains("steps") || !content["steps"].is_array())
    refuse_file(path, "an object with \"steps\"");
  const ordered_json of_source = content;
  for (size_t i = 0; i < content["steps"].size(); ++i) {
    ordered_json& step = content["steps"][i];
    if (!step.is_object() || !step.contains("registry_name") || !step["registry_name"].is_string() ||
        !step.contains("config") || !step["config"].is_object())
      continue;  // of a class of the user's own, or without settings
    const auto name = step["registry_name"].get<std::string>();
    if (name == "relative_actions_processor") {
      ordered_json& config = step["config"];
      config["enabled"] = used.relative_actions;
      if (used.relative_actions) {
        config["exclude_joints"] = used.relative_exclude;
        config["action_names"] = used.action_names;
      }
    } else if (name == "absolute_actions_processor") {
      step["config"]["enabled"] = used.relative_actions;
    } else if (name == "normalizer_processor" || name == "unnormalizer_processor") {
      State state;
      if (step.contains("state_file")) {
        if (!step["state_file"].is_string() ||
            std::filesystem::path(step["state_file"].get<std::string>()).has_parent_path())
          refuse_file(path, "state_file to be a name beside it");
        state = read_state(source / step["state_file"].get<std::string>());
      } else {
        step["state_file"] = fmt::format("{}_step_{}_{}.safetensors", pipeline, i, name);
      }
      put(state, kAction, used.action);
      if (!step["config"].contains("norm_map") || !step["config"]["norm_map"].is_object())
        refuse_file(path, fmt::format("norm_map of {} to be an object", name));
      ordered_json& ways = step["config"]["norm_map"];  // taken here: what is added to an ordered object moves it
      ways["ACTION"] = mode_name(used.action.kind);
      if (used.state) {
        put(state, kState, *used.state);
        ways["STATE"] = mode_name(used.state->kind);
      }
      files.push_back({step["state_file"], written(state)});
    }
  }
  if (content != of_source) files.push_back({pipeline + ".json", content.dump(2)});
}

}  // namespace

std::vector<family::SavedFile> processor_files(const UsedStatistics& used, const std::filesystem::path& source) {
  json stats = json::object();
  const auto add = [&](const char* name, const UsedStatistics::Feature& feature) {
    for (const auto& [statistic, values] : named(feature)) stats[name][statistic] = values;
  };
  add(kAction, used.action);
  if (used.state) add(kState, *used.state);
  std::vector<family::SavedFile> files = {{"stats.json", stats.dump(2) + "\n"}};
  for (const char* pipeline : {"policy_preprocessor", "policy_postprocessor"})
    add_pipeline(used, source, pipeline, files);
  return files;
}

}  // namespace lf::robot
