// The streams of a job: data that can only be read once, in its own order.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/stream/sample_feed.h"

namespace lf {

// True where data.path names a pipe or a tar archive. Looks at the first path only: StreamSet refuses a mixture.
bool is_streamed(const DataSection& options);

// Immutable. Opens nothing before open().
class StreamSet {
 public:
  // Throws kConfig where streams and other files are mixed, or the job asks for what a stream cannot do.
  explicit StreamSet(const JobConfig& config);

  size_t size() const { return paths_.size(); }
  const std::filesystem::path& path(size_t stream) const { return paths_[stream]; }
  std::string kind(size_t stream) const { return paths_[stream].extension() == ".tar" ? "tar" : "jsonl"; }
  // `stopped` is asked while a pipe is waited for.
  std::unique_ptr<SampleFeed> open(size_t stream, std::function<bool()> stopped) const;

 private:
  const DataSection& options_;
  std::vector<std::filesystem::path> paths_;  // absolute
  std::vector<std::string> names_;            // in places of samples
};

}  // namespace lf
