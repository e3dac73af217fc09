#include "data/stream/stream_set.h"

#include "core/error.h"
#include "data/path_text.h"
#include "data/telling_names.h"

namespace lf {
namespace {

bool is_stream(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::is_fifo(status) || (path.extension() == ".tar" && !std::filesystem::is_directory(status));
}

}  // namespace

bool is_streamed(const DataSection& options) { return !options.path.empty() && is_stream(options.path.front()); }

StreamSet::StreamSet(const JobConfig& config) : options_(config.data) {
  for (const std::filesystem::path& path : options_.path) {
    if (!is_stream(path))
      fail(Exit::kConfig, "data.path: {} is no pipe and no .tar, but {} is; expected streams only, or files only",
           readable(path.string()), readable(options_.path.front().string()));
    paths_.push_back(std::filesystem::absolute(path).lexically_normal());
  }
  names_ = telling_names(paths_);
  if (options_.format == "lerobot")
    fail(Exit::kConfig, "data.format: lerobot is a directory's, and {} is a stream; set data.format = \"auto\"",
         readable(paths_.front().string()));
  if (config.job.steps == 0)
    fail(Exit::kConfig,
         "job.epochs: {} is a stream, which is read once and whose length is not known; set job.steps (the run ends "
         "earlier where the stream does)",
         readable(paths_.front().string()));
}

std::unique_ptr<SampleFeed> StreamSet::open(size_t stream, std::function<bool()> stopped) const {
  return kind(stream) == "tar" ? open_tar_feed(paths_[stream], names_[stream], options_, std::move(stopped))
                               : open_line_feed(paths_[stream], names_[stream], options_, std::move(stopped));
}

}  // namespace lf
