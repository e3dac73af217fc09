#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/log.h"

namespace lf {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Copies every piece into memory of its own.
std::unique_ptr<std::byte[]> copy_pieces(std::vector<StateTensor>& tensors) {
  const auto bytes_of = [](const StateTensor& tensor, const StatePiece& piece) {
    return static_cast<size_t>(piece.box.elements() * dtype_bytes(tensor.dtype));
  };
  size_t total = 0;
  for (const StateTensor& tensor : tensors) {
    for (const StatePiece& piece : tensor.pieces) total += bytes_of(tensor, piece);
  }
  auto memory = std::make_unique_for_overwrite<std::byte[]>(total);
  size_t at = 0;
  for (StateTensor& tensor : tensors) {
    for (StatePiece& piece : tensor.pieces) {
      const size_t bytes = bytes_of(tensor, piece);
      if (piece.read)
        std::exchange(piece.read, nullptr)(0, {memory.get() + at, bytes});
      else if (bytes > 0)
        std::memcpy(memory.get() + at, piece.data, bytes);
      piece.data = memory.get() + at;
      at += bytes;
    }
  }
  return memory;
}

// What ranks tell each other between the phases of a save: a first letter, then text. 'f': the disk is full.
std::string told(const std::exception& error) {
  const auto* file = dynamic_cast<const FileError*>(&error);
  return (file != nullptr && file->no_space() ? "f" : "e") + std::string(error.what());
}

// Thrown on every rank alike when one of them failed.
struct SaveFailed {
  SaveReport::Outcome outcome;
  std::string reason;
};

// One phase: `work` on this rank, then everyone's outcome. Nobody goes on, and nobody is left waiting, when one fails.
template <typename Work>
std::vector<std::string> phase(Exchange& exchange, Work&& work) {
  std::string mine;
  try {
    mine = "." + work();
  } catch (const SaveFailed& failed) {
    mine = (failed.outcome == SaveReport::Outcome::kNoSpace ? "f" : "e") + failed.reason;
  } catch (const std::exception& error) {
    mine = told(error);
  }
  std::vector<std::string> all = exchange.all_gather(mine);
  for (std::string& one : all) {
    if (one.empty() || one[0] == '.') continue;
    throw SaveFailed{one[0] == 'f' ? SaveReport::Outcome::kNoSpace : SaveReport::Outcome::kFailed, one.substr(1)};
  }
  for (std::string& one : all) one.erase(0, 1);
  return all;
}

std::string bytes_of(const std::vector<uint64_t>& counts) {
  return {reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(uint64_t)};
}

std::vector<uint64_t> summed(const std::vector<std::string>& all) {
  std::vector<uint64_t> sum(all.at(0).size() / sizeof(uint64_t));
  for (const std::string& one : all) {
    for (size_t i = 0; i < sum.size(); ++i) {
      uint64_t count = 0;
      std::memcpy(&count, one.data() + i * sizeof count, sizeof count);
      sum[i] += count;
    }
  }
  return sum;
}

// Leavings of saves and deletions that were killed.
void remove_leftovers(FileSystem& files, const fs::path& directory) {
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(".tmp-") || name.starts_with(".deleting-") ||
        (name.starts_with("step-") && name.ends_with(".old")))
      leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) remove_tree(files, path);
}

// Renamed first, so that a half-deleted folder is never taken for a checkpoint.
void delete_old(FileSystem& files, const fs::path& directory, int64_t newest, int keep) {
  std::vector<int64_t> steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::optional<int64_t> step = checkpoint_step(entry.path());
    if (step && *step <= newest) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  for (size_t i = static_cast<size_t>(std::max(1, keep)); i < steps.size(); ++i) {
    const fs::path gone = directory / (".deleting-" + checkpoint_name(steps[i]));
    remove_tree(files, gone);
    files.rename(directory / checkpoint_name(steps[i]), gone);
    remove_tree(files, gone);
  }
}

void write_latest(FileSystem& files, const fs::path& directory, int64_t step) {
  const fs::path draft = directory / ".tmp-latest";
  write_file(files, draft, checkpoint_name(step) + "\n");
  files.rename(draft, directory / "latest");
  files.sync_directory(directory);
}

}  // namespace

struct CheckpointWriter::Job {
  TrainerState state;
  std::vector<StateTensor> tensors;
  std::unique_ptr<std::byte[]> memory;  // what the pieces point into, when copied
  SaveReport report;
  std::atomic<bool> ended{false};
  std::thread thread;
};

uint64_t checkpoint_bytes(const std::vector<StateTensor>& tensors) {
  return StateFiles(tensors, UINT64_MAX).total_bytes();
}

CheckpointWriter::CheckpointWriter(FileSystem& files, Exchange& exchange, CheckpointOptions options)
    : files_(files), exchange_(exchange), options_(std::move(options)) {}

CheckpointWriter::~CheckpointWriter() {
  if (job_ != nullptr && job_->thread.joinable()) job_->thread.join();
}

bool CheckpointWriter::save(const TrainerState& state, const std::vector<StateTensor>& tensors, Busy busy) {
  if (job_ != nullptr && !job_->ended) {
    if (busy == Busy::kSkip) {
      if (exchange_.size() != 1) fail(Exit::kBug, "checkpoint: a save can be skipped by one rank alone only");
      log::warning("checkpoint of step {} skipped: the one of step {} is still being written", state.step,
                   job_->state.step);
      return false;
    }
    log::warning("training waits at step {}: the checkpoint of step {} is still being written", state.step,
                 job_->state.step);
  }
  if (job_ != nullptr) report_ = wait();
  auto job = std::make_unique<Job>();
  job->state = state;
  job->tensors = tensors;
  bool asynchronous = options_.asynchronous;
  if (asynchronous) {
    try {
      job->memory = copy_pieces(job->tensors);
    } catch (const std::bad_alloc&) {
      log::warning("checkpoint of step {}: no memory for a copy of the state; training waits until it is written",
                   state.step);
      asynchronous = false;
    }
  }
  job_ = std::move(job);
  if (asynchronous) {
    job_->thread = std::thread([this, running = job_.get()] { run(*running); });
  } else {
    run(*job_);
  }
  return true;
}

// Phases: folder and files; everyone's tensors; manifest and publication. See docs/checkpoints.md.
void CheckpointWriter::run(Job& job) noexcept {
  const Clock::time_point start = Clock::now();
  SaveReport& report = job.report;
  report.step = job.state.step;
  const bool leads = exchange_.rank() == 0;
  const fs::path name = checkpoint_name(job.state.step);
  const fs::path folder = options_.directory / (".tmp-" + name.string()), target = options_.directory / name;
  bool published = false;
  try {
    StateFiles state(job.tensors, options_.max_file_bytes);
    phase(exchange_, [&]() -> std::string {
      if (!leads) return "";
      std::error_code code;
      fs::create_directories(options_.directory, code);
      if (code) throw FileError(code.value(), "mkdir", options_.directory);
      remove_leftovers(files_, options_.directory);
      const uint64_t bytes = state.total_bytes() + job.state.model_state.size() + job.state.balance_state.size();
      const uint64_t needed = bytes + kCheckpointMargin;
      const uint64_t available = files_.available_bytes(options_.directory);
      if (available < needed)
        throw SaveFailed{
            SaveReport::Outcome::kNoSpace,
            fmt::format(
                "{}: a checkpoint of {} bytes and a margin of {} need {} bytes, but {} are free; free some space",
                options_.directory.string(), fmt::group_digits(bytes), fmt::group_digits(kCheckpointMargin),
                fmt::group_digits(needed), fmt::group_digits(available))};
      files_.make_directory(folder);
      state.create(files_, folder);
      return "";
    });
    const std::vector<std::string> written = phase(exchange_, [&] {
      if (!leads) state.open(files_, folder);
      return bytes_of(state.write(job.tensors));
    });
    const std::string undone =
        phase(exchange_, [&]() -> std::string {
          if (!leads) return "";
          CheckpointManifest manifest;
          manifest.step = job.state.step;
          manifest.files = state.finish(summed(written));
          for (const auto& [file, text] :
               {std::pair<std::string, std::string>{"trainer.json", trainer_state_text(job.state)},
                {"model_state.bin", job.state.model_state},
                {"balance_state.bin", job.state.balance_state}}) {
            write_file(files_, folder / file, text);
            manifest.files[file] = {text.size(), hash_hex(text), {}};
          }
          for (const auto& [file, entry] : manifest.files) report.bytes += entry.bytes;
          files_.sync_directory(folder);
          write_file(files_, folder / kManifestName, manifest_text(manifest));
          files_.sync_directory(folder);
          replace_tree(files_, folder, target);
          published = true;
          // From here on the checkpoint stands, whatever else goes wrong.
          try {
            write_latest(files_, options_.directory, job.state.step);
            delete_old(files_, options_.directory, job.state.step, options_.keep);
          } catch (const std::exception& error) {
            return error.what();
          }
          return "";
        }).at(0);
    report.outcome = SaveReport::Outcome::kSaved;
    report.reason = undone;
    report.directory = target;
  } catch (const SaveFailed& failed) {
    report.outcome = failed.outcome;
    report.reason = failed.reason;
  } catch (const std::exception& error) {
    report.outcome = SaveReport::Outcome::kFailed;
    report.reason = error.what();
  }
  report.seconds = seconds_since(start);
  job.memory.reset();
  if (leads && report.outcome != SaveReport::Outcome::kSaved && !published) {
    try {
      remove_tree(files_, folder);
    } catch (const std::exception&) {  // the next save removes it
    }
  }
  if (leads && report.outcome == SaveReport::Outcome::kSaved) {
    log::info("checkpoint of step {} saved: {} bytes in {:.2f} s", report.step, fmt::group_digits(report.bytes),
              report.seconds);
    if (!report.reason.empty()) log::warning("checkpoint of step {} stands, but: {}", report.step, report.reason);
  } else if (leads) {
    log::warning("checkpoint of step {} NOT saved, older ones are kept: {}", report.step, report.reason);
  }
  job.ended = true;
}

std::optional<SaveReport> CheckpointWriter::poll() {
  if (job_ != nullptr && job_->ended) return wait();
  return take_report();
}

std::optional<SaveReport> CheckpointWriter::wait() {
  if (job_ != nullptr) {
    if (job_->thread.joinable()) job_->thread.join();
    report_ = job_->report;
    job_.reset();
  }
  return take_report();
}

std::optional<SaveReport> CheckpointWriter::take_report() {
  std::optional<SaveReport> taken = std::exchange(report_, std::nullopt);
  if (taken && options_.stop_when_full && taken->outcome == SaveReport::Outcome::kNoSpace)
    fail(Exit::kCannotCreate, "checkpoint of step {}: {}; [checkpoint] on_full is \"stop\"", taken->step,
         taken->reason);
  return taken;
}

}  // namespace lf
