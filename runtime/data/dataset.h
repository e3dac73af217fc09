// A data set: lines of JSONL files and frames of LeRobot directories, each reached at once by its index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/job.h"
#include "data/bad_sample.h"

namespace lf {

struct Sample {
  uint64_t index = 0;
  std::string json;   // canonical, docs/samples.md
  std::string place;  // "train.jsonl:17"; "pusht:frame 17"
  // How often the run went through the data set before. Not known here: whoever walks the run's order sets it.
  uint64_t epoch = 0;
};

// Immutable once made; all functions may be called from any thread.
class Dataset {
 public:
  struct File {
    std::filesystem::path path;
    uint64_t samples = 0;
    std::string format;  // sharegpt | messages | text | lerobot | empty
    bool detected = false;
  };

  // Opens and indexes every file (one pass over the bytes; of a LeRobot directory meta/info.json) and settles each
  // one's format. Throws kInputMissing for a path that is not there, kBadData where no sample at all is good, naming
  // the first reason, or where a file is of another kind than JSON lines.
  explicit Dataset(const DataSection& options);
  ~Dataset();
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  uint64_t size() const;  // non-empty lines of all files, and frames, in the order of data.path
  // Throws BadSample, or Error(kIo) where a file has changed since it was opened. Whether media files can be read is
  // found out by whoever reads them.
  Sample sample(uint64_t index) const;
  std::string place(uint64_t index) const;
  const std::vector<File>& files() const;
  // What tells that the same samples stand in the same order, whatever the paths: each file's content_hash(), of a
  // LeRobot directory its number of frames. One word for each of files().
  std::string fingerprint() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lf
