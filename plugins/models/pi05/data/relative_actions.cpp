#include "pi05/data/relative_actions.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::robot {
namespace {

std::string lower(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

[[noreturn]] void refuse_names(const std::string& place, const std::string& feature, const std::string& reason) {
  throw sdk::Failure(LF_E_INVALID, fmt::format("{}.{}: {}", place, feature, reason));
}

void check_names(const Feature& feature, const std::string& place) {
  if (feature.shape.size() != 1 || static_cast<int64_t>(feature.names.size()) != feature.shape[0])
    refuse_names(place, feature.name,
                 fmt::format("relative_actions needs a name for each of {} numbers, got {}; write them into info.json",
                             fmt::join(feature.shape, " x "), feature.names.size()));
}

// numpy.quantile's "linear".
float quantile(std::vector<float>& values, double share) {
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), low, values.end());
  const float below = *low;
  if (low + 1 == values.end()) return below;
  const float above = *std::min_element(low + 1, values.end());
  return static_cast<float>(below + (at - std::floor(at)) * (static_cast<double>(above) - below));
}

struct Chunk {
  const EpisodeValues* episode;
  int64_t begin, length;
};

std::vector<Chunk> chunks_of(std::span<const EpisodeValues> episodes, int64_t action_width, int64_t horizon,
                             bool whole) {
  std::vector<Chunk> out;
  for (const EpisodeValues& episode : episodes) {
    const auto frames = static_cast<int64_t>(episode.actions.size()) / action_width;
    const int64_t starts = whole ? frames - horizon + 1 : frames;
    for (int64_t begin = 0; begin < starts; ++begin)
      out.push_back({&episode, begin, std::min(horizon, frames - begin)});
  }
  return out;
}

}  // namespace

std::vector<int64_t> relative_places(const Feature& action, const Feature& state,
                                     const std::vector<std::string>& exclude, const std::string& place) {
  check_names(action, place);
  check_names(state, place);
  std::vector<int64_t> places;
  for (const std::string& name : action.names) {
    const bool stays = std::any_of(exclude.begin(), exclude.end(), [&](const std::string& part) {
      return !part.empty() && lower(name).find(lower(part)) != std::string::npos;
    });
    const auto found = std::find(state.names.begin(), state.names.end(), name);
    if (!stays && found == state.names.end())
      refuse_names(place, action.name,
                   fmt::format("relative_actions: the state has no \"{}\", but {}; name it in "
                               "model.options.relative_exclude to leave it as it is",
                               name, fmt::join(state.names, ", ")));
    places.push_back(stays ? -1 : found - state.names.begin());
  }
  return places;
}

void make_relative(std::span<float> actions, std::span<const float> state, std::span<const int64_t> places) {
  for (size_t i = 0; i < actions.size(); ++i)
    if (const int64_t from = places[i % places.size()]; from >= 0) actions[i] -= state[static_cast<size_t>(from)];
}

Statistics relative_statistics(std::span<const EpisodeValues> episodes, std::span<const int64_t> places,
                               int64_t state_width, int64_t horizon, Shares shares) {
  const auto width = static_cast<int64_t>(places.size());
  std::vector<Chunk> chunks = chunks_of(episodes, width, horizon, true);
  if (chunks.empty()) chunks = chunks_of(episodes, width, horizon, false);
  const int64_t step = (static_cast<int64_t>(chunks.size()) + kMostChunks - 1) / kMostChunks;
  Statistics out;
  std::vector<float> values;
  for (int64_t column = 0; column < width; ++column) {
    values.clear();
    for (size_t i = 0; i < chunks.size(); i += static_cast<size_t>(step)) {
      const auto [episode, begin, length] = chunks[i];
      const int64_t from = places[static_cast<size_t>(column)];
      const float origin = from < 0 ? 0 : episode->states[static_cast<size_t>(begin * state_width + from)];
      for (int64_t t = begin; t < begin + length; ++t)
        values.push_back(episode->actions[static_cast<size_t>(t * width + column)] - origin);
    }
    double sum = 0, squares = 0;
    for (const float value : values) sum += value;
    const double mean = sum / static_cast<double>(values.size());
    for (const float value : values) squares += (value - mean) * (value - mean);
    out.mean.push_back(static_cast<float>(mean));
    out.deviation.push_back(static_cast<float>(std::sqrt(squares / static_cast<double>(values.size()))));
    out.low.push_back(quantile(values, shares.low));
    out.high.push_back(quantile(values, shares.high));
  }
  return out;
}

}  // namespace lf::robot
