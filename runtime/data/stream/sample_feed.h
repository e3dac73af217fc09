// Samples in the order in which a stream gives them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/job.h"
#include "data/media/held_media.h"

namespace lf {

class MediaPlaces;

struct FedSample {
  std::string place;                  // "feed.jsonl:17", "a.tar:0001.json"
  std::string json;                   // canonical, docs/samples.md
  std::vector<StreamedMedium> media;  // that came with it
  std::string bad;                    // "place: field: reason": then there is nothing else
};

// One stream, read once from its start. One thread.
class SampleFeed {
 public:
  virtual ~SampleFeed() = default;
  // Nothing at the end. A bad sample is one too. Throws what ends the stream for good: bytes that are no archive, or
  // what ByteStream throws.
  virtual std::optional<FedSample> next() = 0;
  // Passes over one sample without looking into it. False at the end.
  virtual bool skip() = 0;
};

// Lines of JSON. `name`: of the stream in places. `options`: format, media_root, train_on.
std::unique_ptr<SampleFeed> open_line_feed(const std::filesystem::path& path, const std::string& name,
                                           const DataSection& options, std::function<bool()> stopped);

// A tar archive as WebDataset has them: neighbouring members whose names are the same up to the first dot of the last
// part are one sample, KEY.json is its line of JSON, and its media are named as they stand beside it.
std::unique_ptr<SampleFeed> open_tar_feed(const std::filesystem::path& path, const std::string& name,
                                          const DataSection& options, std::function<bool()> stopped);

// What both do with a sample's text. `text` may be given SampleLine::kPadding more bytes of capacity.
void read_sample(std::string& text, const DataSection& options, const MediaPlaces& media, FedSample& out);

}  // namespace lf
