// Samples from frames of LeRobot directories: chance adds noise and time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "family/findings.h"
#include "pi05/cost.h"
#include "pi05/data/robot_samples.h"
#include "pi05/policy_sample.h"

namespace lf::pi05 {

// [model.options], over what the config says of data.
robot::RobotOptions read_options(const nlohmann::json& options, const Pi05Config& config, family::Findings& findings);

// As data/robot_samples.h, whose errors are these. Noise, time and what augmentation does to pictures are a pure
// function of the seed, the sample's id and its epoch.
class RecordedFrames {
 public:
  RecordedFrames(const lf_host* host, const Pi05Config& config, robot::RobotOptions options, std::string tokenizer,
                 uint64_t seed);

  void open_tokenizer() const { frames_.open_tokenizer(); }
  SampleSize size(const lf_sample& sample) const;
  PolicySample read(const lf_sample& sample) const;
  // What to save beside the policy that `directory` trained; `source`: the folder that it came from, or empty.
  std::vector<family::SavedFile> files(const std::string& directory, const std::filesystem::path& source) const {
    return robot::processor_files(frames_.statistics(directory), source);
  }

 private:
  const Pi05Config config_;
  const uint64_t seed_;
  const robot::RobotOptions options_;
  const robot::RobotSamples frames_;
};

}  // namespace lf::pi05
