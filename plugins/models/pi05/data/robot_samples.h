// Samples of a policy from LeRobot v3 directories: one frame each, with the pictures of that moment, the instruction
// and state as a prompt, and the actions that followed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lf/plugin_api/host.h"
#include "lf/plugin_api/model.h"
#include "pi05/data/processor_files.h"
#include "pi05/data/robot_options.h"
#include "text/vocabulary.h"

namespace lf::robot {

// What the model needs of a sample.
struct RobotShape {
  int64_t horizon = 50;     // actions of a chunk
  int64_t action_dim = 32;  // the data set's own may be fewer
  int64_t image_size = 224;
  int64_t views = 1;  // cameras that the model has room for
};

struct RobotSample {
  // By view: u8 [image_size, image_size, 3], RGB, resized without distortion and padded with black (-1 once it is
  // scaled to [-1, 1]); or empty: no such camera.
  std::vector<std::vector<uint8_t>> views;
  std::vector<std::string> cameras;   // by view: the feature, or ""
  std::vector<text::TokenId> prompt;  // at most options.max_prompt_tokens
  std::vector<float> actions;         // [horizon, action_dim], normalised; 0 in columns that the data set does not have
  std::vector<uint8_t> valid;         // [horizon]: 1, or 0 beyond the episode's end, where the last action is repeated
  int64_t own_dims = 0;               // columns of the data set's own actions
};

struct RobotSampleSize {
  int64_t views = 0;  // present ones
  int64_t prompt_tokens = 0;
  int64_t valid_actions = 0;
  int64_t own_dims = 0;
};

// Directories are opened when the first sample of each comes, and stay open: 4 bytes of memory for each number of the
// states and actions of the files read. Safe to use from many threads.
//
// Errors of a sample are sdk::Failure LF_E_DATA beginning with the sample's place; those of a directory, of the job's
// options or of the tokenizer, which no other sample would escape, LF_E_INVALID.
class RobotSamples {
 public:
  // `host` outlives it. tokenizer: the folder of a tokenizer.json, read at the first sample or when asked to.
  RobotSamples(const lf_host* host, RobotShape shape, RobotOptions options, std::string tokenizer);
  // So that a job without a tokenizer of use ends before its first step. Throws LF_E_INVALID.
  void open_tokenizer() const;
  ~RobotSamples();
  RobotSamples(const RobotSamples&) = delete;
  RobotSamples& operator=(const RobotSamples&) = delete;

  // sample.json: {"robot": {"directory": "/abs/dir", "frame": 17}} (docs/samples.md). Nothing is decoded, but headers
  // of videos are read.
  RobotSampleSize size(const lf_sample& sample) const;
  RobotSample read(const lf_sample& sample) const;
  // Of a directory's frames. Errors are the directory's.
  UsedStatistics statistics(const std::string& directory) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lf::robot
