#include "check/findings.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "core/amount.h"
#include "core/error.h"
#include "optimizer/learning_rate.h"
#include "train/saving.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void not_writable(const fs::path& output, const fs::path& folder, const std::string& why) {
  fail(Exit::kCannotCreate, "job.output: {} cannot be written: {}: {}; choose another", output.string(),
       folder.string(), why);
}

uint64_t bytes_in(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored))
    if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  return bytes;
}

}  // namespace

void require_writable(const fs::path& output) {
  // The run directory, or the nearest folder above it that is there and in which it would be made.
  fs::path folder = output;
  std::error_code error;
  while (!fs::exists(fs::symlink_status(folder, error)) && folder != folder.root_path()) {
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
      not_writable(output, folder, error.message());
    folder = folder.parent_path();
  }
  if (!fs::is_directory(folder, error)) not_writable(output, folder, "is not a folder");
  // A file without a name is gone when it is closed.
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) {
    close(fd);
    return;
  }
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) not_writable(output, folder, std::strerror(errno));
  std::string name = (folder / ".lfrun-check-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) not_writable(output, folder, std::strerror(errno));
  rmdir(name.c_str());
}

std::string resume_line(const JobConfig& config, const std::map<std::string, std::string>& settings,
                        int64_t total_steps, uint64_t most_bytes) {
  const fs::path directory = config.job.output / "ckpt";
  if (!has_checkpoints(directory)) return "nothing: starts at the first step";
  if (!config.checkpoint.resume)
    fail(
        Exit::kConfig,
        "checkpoint.resume: expected a run directory without checkpoints where it is false, but {} has some; set it to "
        "true to go on from them, or start over with --fresh",
        directory.string());
  const bool all = bytes_in(directory) <= most_bytes;
  const ResumePoint found = find_resume_point(directory, all ? Verify::kHashes : Verify::kSizes);
  const Checkpoint& checkpoint = *found.checkpoint;
  if (!settings.empty()) require_same_settings(checkpoint, settings);
  std::string line = fmt::format("step {}: {}, {}", checkpoint.state().step, checkpoint.path().string(),
                                 all ? "every byte is as saved" : "sizes are as saved; training reads every byte");
  if (config.job.steps > 0 && checkpoint.state().step >= config.job.steps)
    line += fmt::format("\n  nothing is left to train: job.steps = {}", config.job.steps);
  const TrainerState& state = checkpoint.state();
  const std::string moved =
      state.total_steps == 0 || total_steps == 0
          ? ""
          : moved_schedule(config.schedule, config.optimizer.learning_rate, state.total_steps, total_steps, state.step);
  if (!moved.empty()) line += "\n  warning: " + moved;
  for (const std::string& broken : found.skipped) line += "\n  warning: passed over: " + broken;
  return line;
}

}  // namespace lf
