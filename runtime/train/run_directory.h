// The directory of a run: one run at a time, what it was started with, its logs.
//
//   config.toml env.json log/ metrics.jsonl tb/ status.json curves.svg ckpt/ model/ model_ema/
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "config/config.h"
#include "core/exchange.h"
#include "launch/run_lock.h"
#include "train/session.h"

namespace lf {

class RunDirectory {
 public:
  // Rank 0 makes and, unless it is `locked` already, locks it. Only when that is done, which the ranks tell each other,
  // each makes its log there: nothing is written into the directory of another run.
  RunDirectory(const std::filesystem::path& path, Exchange& control, bool locked, bool terminal);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "ckpt"; }
  std::filesystem::path model() const { return path_ / "model"; }
  std::filesystem::path averaged_model() const { return path_ / "model_ema"; }  // [ema] export = "beside"
  // Rank 0: the resolved job, and versions, plugins and devices that the run is made with.
  // `choices`: what the run decided by itself, and why, by the name of what was decided.
  void record(const ResolvedJob& job, const Session& session, int world_size, const std::string& device_reason,
              const std::map<std::string, std::map<std::string, std::string>>& choices);
  // Rank 0, at the end: calls of operators that the device lacks and the CPU did, by name, of all ranks. After record.
  void record_operators_on_cpu(const std::map<std::string, uint64_t>& counts);

 private:
  std::filesystem::path path_;
  nlohmann::json record_;  // env.json
  std::unique_ptr<RunLock> lock_;
};

}  // namespace lf
