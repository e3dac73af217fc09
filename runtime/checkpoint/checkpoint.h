// Checkpoints of training: <run>/ckpt/step-00000042/, complete and checked, or not there.
//
//   parameters.safetensors  optimizer.safetensors   tensors by name, uncut: no layout is known to them
//   trainer.json  model_state.bin  balance_state.bin
//   manifest.json                                   written last: sizes and xxh3-128 of all the others
//
// See docs/checkpoints.md for the order of writes and what survives which accident.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/state_files.h"
#include "checkpoint/trainer_state.h"
#include "core/exchange.h"

namespace lf {

// ---- writing ------------------------------------------------------------------------------------------------------

struct CheckpointOptions {
  std::filesystem::path directory;           // <run>/ckpt
  int keep = 2;                              // newest complete ones; at least 1
  bool asynchronous = true;                  // write on a thread, from a copy of the state
  bool stop_when_full = false;               // [checkpoint] on_full = "stop"
  uint64_t max_file_bytes = 16'000'000'000;  // of tensors in one file
};

struct SaveReport {
  enum class Outcome { kSaved, kNoSpace, kFailed };
  int64_t step = 0;
  Outcome outcome = Outcome::kFailed;
  std::string reason;               // of a failure; of something left undone after a success
  std::filesystem::path directory;  // of the checkpoint, where it was saved
  uint64_t bytes = 0;
  double seconds = 0;  // writing, hidden behind training when asynchronous
};

// Free space asked for beside a checkpoint's tensors: small files, folders, and rounding up to blocks.
inline constexpr uint64_t kCheckpointMargin = 1 << 20;

// Bytes on disk of one checkpoint of these tensors, without the margin: for `lfrun check`.
uint64_t checkpoint_bytes(const std::vector<StateTensor>& tensors);

// Writes checkpoints. With an Exchange of several ranks, every rank owns a writer on the same folder and calls save()
// at the same steps with its own pieces; the exchange is used on the writing thread only. With a LocalExchange one rank
// saves all.
//
// A failed save never throws and leaves the older checkpoints alone: it is logged as a warning, reported, and the next
// save tries again. The exception: with `stop_when_full`, a full disk throws lf::Error(kCannotCreate) from the next
// call.
class CheckpointWriter {
 public:
  enum class Busy { kWait, kSkip };

  CheckpointWriter(FileSystem& files, Exchange& exchange, CheckpointOptions options);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();  // waits for a save in flight

  // When it returns, everything has been copied (asynchronous) or written: later changes of the tensors do not reach
  // the checkpoint. While a save is in flight it waits for it, or skips this one and returns false (exchange of size 1
  // only, since ranks could decide differently); both with a warning.
  bool save(const TrainerState& state, const std::vector<StateTensor>& tensors, Busy busy = Busy::kWait);

  // The report of a save that ended since the last call; nothing while it is in flight. wait() waits for it.
  std::optional<SaveReport> poll();
  std::optional<SaveReport> wait();

 private:
  struct Job;
  void run(Job& job) noexcept;
  std::optional<SaveReport> take_report();

  FileSystem& files_;
  Exchange& exchange_;
  CheckpointOptions options_;
  std::unique_ptr<Job> job_;
  std::optional<SaveReport> report_;  // ended, not asked for yet
};

// ---- reading ------------------------------------------------------------------------------------------------------

enum class Verify {
  kHashes,  // every byte against the manifest
  kSizes,   // presence and sizes: enough where another rank has just checked the bytes
};

// A complete checkpoint, open for reading; any thread may read. Refused with lf::Error(kBadData) naming file, and
// tensor where it can be told: no manifest, a byte that differs, a file cut, missing, added, renamed or swapped.
class Checkpoint {
 public:
  static Checkpoint open(const std::filesystem::path& directory, Verify verify);

  const std::filesystem::path& path() const { return path_; }
  const TrainerState& state() const { return state_; }
  const TensorEntry* find(std::string_view name) const;  // null: not there
  std::vector<std::string> names() const;
  // A box of the tensor, packed, as `dtype`. Throws lf::Error(kBadData) where it is missing or of another shape than
  // asked.
  void read(std::string_view name, std::span<const int64_t> shape, const Box& box, DType dtype, void* out) const;
  void read(std::string_view name, std::span<const int64_t> shape, DType dtype, void* out) const;
  // Elements from `first` on, counted row-major, as f32.
  void read_elements(std::string_view name, std::span<const int64_t> shape, int64_t first, std::span<float> out) const;

 private:
  struct Found {
    const SafetensorsFile& file;
    const TensorEntry& entry;
  };
  Found require(std::string_view name, std::span<const int64_t> shape) const;

  std::filesystem::path path_;
  TrainerState state_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

struct ResumePoint {
  std::optional<Checkpoint> checkpoint;  // the newest complete one; nothing: the run starts at step 0
  std::vector<std::string> skipped;      // newer ones, and why; to be shown
};

// Looks through <run>/ckpt, newest first. Throws lf::Error(kBadData) when there are checkpoints and none of them is
// whole: starting over in silence would lose the run. A save that was cut off before it was ever published is no
// checkpoint: it is told in `skipped`, and removed by the next save. `next_move` ends the message.
inline constexpr std::string_view kFreshOrRestore = "start over with --fresh, or restore one of them";
ResumePoint find_resume_point(const std::filesystem::path& directory, Verify verify,
                              std::string_view next_move = kFreshOrRestore);

// Whether anything of that name is there, whole or not.
bool has_checkpoints(const std::filesystem::path& directory);

// ---- names --------------------------------------------------------------------------------------------------------

std::string checkpoint_name(int64_t step);                                  // "step-00000042"
std::optional<int64_t> checkpoint_step(const std::filesystem::path& path);  // of such a name, else nothing

}  // namespace lf
