// TensorBoard event files, written without protobuf: LibTorch carries an old copy of it, and two do not live in one
// process. Internal to metrics. Formats: TFRecord (length, masked crc32c, data, masked crc32c) and tensorflow.Event of
// tensorboard/compat/proto/{event,summary}.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/append_file.h"
#include "metrics/report.h"

namespace lf {

uint32_t crc32c(std::string_view bytes);           // Castagnoli, RFC 3720
std::string event_record(std::string_view event);  // the frame around one serialised Event

class EventsFile {
 public:
  // A new file in `folder`; `first_step` > 1 tells TensorBoard to forget what earlier files say of that step and later
  // ones. `start` is the unix time, part of the name. Throws lf::Error(kCannotCreate, kIo).
  EventsFile(const std::filesystem::path& folder, double start, int64_t first_step);
  void append(const StepReport& report);  // throws lf::Error(kIo)

 private:
  AppendFile file_;
};

}  // namespace lf
