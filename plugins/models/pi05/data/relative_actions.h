// Actions as differences to the state in which the chunk begins. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pi05/data/feature.h"
#include "pi05/data/normalizer.h"

namespace lf::robot {

// For each number of an action the place of the state's number of the same name, or -1: it stays as it is, since
// its name holds one of `exclude` (in any case, as in lerobot). By name, not by place: vectors of states and of actions
// need not begin alike (lerobot issue 3863). Throws sdk::Failure(LF_E_INVALID) where names are missing, or one of the
// others is not in the state. `place`: before the features' names in messages.
std::vector<int64_t> relative_places(const Feature& action, const Feature& state,
                                     const std::vector<std::string>& exclude, const std::string& place);

// actions: [n, places.size()], in place.
void make_relative(std::span<float> actions, std::span<const float> state, std::span<const int64_t> places);

// A stretch of frames of one episode: actions [frames, places.size()], states [frames, state width].
struct EpisodeValues {
  std::span<const float> actions, states;
};

// What lerobot computes for relative actions (compute_relative_action_stats): over all chunks of `horizon` actions that
// lie within an episode; where no episode is that long, over what there is of each. Of more than kMostChunks chunks
// evenly spread ones are taken. low and high are the quantiles `shares`, interpolated between neighbours.
inline constexpr int64_t kMostChunks = 20000;
Statistics relative_statistics(std::span<const EpisodeValues> episodes, std::span<const int64_t> places,
                               int64_t state_width, int64_t horizon, Shares shares);

}  // namespace lf::robot
