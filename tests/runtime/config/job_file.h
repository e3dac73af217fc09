// A job file written for one test, and what reading it says.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "config/config.h"
#include "core/error.h"

namespace lf::test {

// The required options; tests add to it.
inline const std::string kMinimal = R"([job]
steps = 10
[model]
family = "tiny"
config = "config.json"
[data]
path = "train.jsonl"
)";

class JobFile : public testing::Test {
 protected:
  JobFile() {
    std::string name = testing::TempDir() + "lf_job_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~JobFile() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& text, const std::string& name = "job.toml") const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  JobConfig load(const std::string& text, const std::vector<std::string>& sets = {}) const {
    return load_job(write(text), sets);
  }

  // Exit code and message of the refusal, with the folder's name taken out of the message.
  std::pair<Exit, std::string> refusal(const std::string& text, const std::vector<std::string>& sets = {}) const {
    try {
      load(text, sets);
    } catch (const Error& error) {
      std::string message = error.what();
      const std::string prefix = folder_.string() + "/";
      for (size_t at; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
      return {error.exit(), message};
    }
    return {Exit::kDone, ""};
  }
  std::string message(const std::string& text, const std::vector<std::string>& sets = {}) const {
    return refusal(text, sets).second;
  }

  std::filesystem::path folder_;
};

}  // namespace lf::test
