// One line of JSON into the canonical sample of docs/samples.md.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "data/bad_sample.h"
#include "data/media_root.h"
#include "data/source_format.h"

namespace lf {

constexpr uint64_t kMaxLineBytes = 64 << 20;

// A line of JSON that is an object, kept with what the parser needs behind it.
class SampleLine {
 public:
  // text: followed by kPadding zero bytes beyond its size, as LineIndex::read gives it. `place`: "train.jsonl:17", the
  // beginning of every message. Throws BadSample for what is no JSON object.
  static constexpr size_t kPadding = simdjson::SIMDJSON_PADDING;
  SampleLine(const std::string& text, std::string place);

  // By its keys; nothing where it has neither format's.
  std::optional<SourceFormat> format() const { return detect_format(object_); }

  // Throws BadSample. train_all: messages are trained unless they say otherwise.
  std::string canonical(SourceFormat format, const MediaPlaces& media, bool train_all) const;

 private:
  std::string place_;
  simdjson::dom::parser parser_;
  simdjson::dom::element object_;
};

// What a sample line of `bytes` is refused with where that is too long.
BadSample too_long_a_line(const std::string& place, uint64_t bytes);

}  // namespace lf
