// Everything of a run beside its tensors: what `resume` needs to go on with the same bits.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "load/load.h"

namespace lf {

struct TrainerState {
  int64_t step = 0;              // steps done
  int64_t updates = 0;           // of them, steps whose update was applied
  int64_t skipped_in_a_row = 0;  // the last ones, for their gradients were not finite
  uint64_t seed = 0;
  int64_t micro_batches = 0;                    // of a step, on all ranks together; 0: not known
  int64_t total_steps = 0;                      // for which the learning rate was laid out; 0: not known
  DataPosition position;                        // in the data, after `step`
  std::map<std::string, std::string> settings;  // what must not change between runs: option -> JSON, see train/saving.h
  std::map<std::string, std::string> versions;  // of lfrun and its plugins, by name
  std::string model_state;                      // bytes of lf_model_api.state_save
  std::string balance_state;                    // bytes of the policy's state
};

// As JSON, without the two byte strings, which are files of their own.
std::string trainer_state_text(const TrainerState& state);
// Throws lf::Error(kBadData) that starts with `place`.
TrainerState parse_trainer_state(const std::string& place, const std::string& text);

}  // namespace lf
