#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "data/sample_line.h"
#include "data/stream/byte_stream.h"
#include "data/stream/sample_feed.h"

namespace lf {
namespace {

constexpr size_t kChunk = 1 << 16;

class LineFeed final : public SampleFeed {
 public:
  LineFeed(const std::filesystem::path& path, std::string name, const DataSection& options,
           std::function<bool()> stopped)
      : bytes_(path, std::move(stopped)),
        options_(options),
        media_(options.media_root.empty() ? path.parent_path() : options.media_root),
        name_(std::move(name)) {}

  std::optional<FedSample> next() override {
    if (!read_line()) return std::nullopt;
    FedSample out{.place = fmt::format("{}:{}", name_, line_number_), .json = {}, .media = {}, .bad = {}};
    if (line_bytes_ > kMaxLineBytes)
      out.bad = too_long_a_line(out.place, line_bytes_).what();
    else
      read_sample(line_, options_, media_, out);
    return out;
  }

  bool skip() override { return read_line(); }

 private:
  // The next line that is not blank, without its end; of one that is too long only the beginning. False at the end.
  bool read_line() {
    for (;;) {
      line_.clear();
      line_bytes_ = 0;
      bool ended = false, any = false;
      while (!ended) {
        if (at_ == chunk_.size() && !fill()) break;
        any = true;
        const char* begin = chunk_.data() + at_;
        const void* found = std::memchr(begin, '\n', chunk_.size() - at_);
        const size_t count =
            found != nullptr ? static_cast<size_t>(static_cast<const char*>(found) - begin) : chunk_.size() - at_;
        if (line_bytes_ <= kMaxLineBytes) line_.append(begin, count);
        line_bytes_ += count;
        at_ += count + (found != nullptr ? 1 : 0);
        ended = found != nullptr;
      }
      if (!any) return false;
      if (++line_number_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);
      while (!line_.empty() && std::strchr(" \t\r", line_.back()) != nullptr) line_.pop_back();
      if (!line_.empty()) return true;
    }
  }

  bool fill() {
    chunk_.resize(kChunk);
    chunk_.resize(bytes_.read_some(chunk_));
    at_ = 0;
    return !chunk_.empty();
  }

  ByteStream bytes_;
  const DataSection& options_;
  MediaRoot media_;
  std::string name_, chunk_, line_;
  size_t at_ = 0;
  uint64_t line_number_ = 0, line_bytes_ = 0;
};

}  // namespace

void read_sample(std::string& text, const DataSection& options, const MediaPlaces& media, FedSample& out) {
  const size_t length = text.size();
  text.resize(length + SampleLine::kPadding, '\0');
  text.resize(length);  // keeps the zeroed bytes beyond its end
  try {
    const SampleLine line(text, out.place);
    std::optional<SourceFormat> format = line.format();
    if (options.format != "auto") format = named_format(options.format);
    if (!format) throw BadSample(out.place + ": expected \"messages\", \"conversations\" or \"text\"");
    out.json = line.canonical(*format, media, options.train_on == "all");
  } catch (const BadSample& bad) {
    out.bad = bad.what();
    out.media.clear();
  }
}

std::unique_ptr<SampleFeed> open_line_feed(const std::filesystem::path& path, const std::string& name,
                                           const DataSection& options, std::function<bool()> stopped) {
  return std::make_unique<LineFeed>(path, name, options, std::move(stopped));
}

}  // namespace lf
