// meta.json of a parity directory: how the reference made its numbers.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/job.h"

namespace lf {

struct RecordedCase {
  std::string no_gradient_json = "[]";  // names of parameters that the reference gave no gradient
  // Of the AdamW trajectory. As recorded by default: 1e-3, betas 0.9 and 0.95, decay 0.1 on everything, clipped at 1.
  OptimizerSection adamw = recorded_adamw();

  static OptimizerSection recorded_adamw();
};

class Recorded {
 public:
  // Without a meta.json every case is as by default. Throws kBadData, naming the file and what is wrong in it.
  explicit Recorded(const std::filesystem::path& directory);
  const RecordedCase& of(const std::string& name) const;
  std::vector<std::string> names() const;  // of the cases that it lists

 private:
  std::map<std::string, RecordedCase> cases_;
  RecordedCase any_;
};

}  // namespace lf
