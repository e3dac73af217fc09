#include "pi05/data/frame_file.h"

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::robot {

FrameFile::FrameFile(const std::string& path, int64_t first_frame, const FrameColumns& columns)
    : parquet_(path), first_(first_frame) {
  if (!columns.state.empty()) state_ = numbers(columns.state, columns.state_width);
  action_ = numbers(columns.action, columns.action_width);
  seconds_ = numbers("timestamp", 1);
  task_ = parquet_.integers("task_index");
  const Column<int64_t> index = parquet_.integers("index");
  for (int64_t row = 0; row < index.rows; ++row)
    if (index.values[static_cast<size_t>(row)] != first_ + row)
      throw sdk::Failure(
          LF_E_DATA, fmt::format("{}: expected frame {} in row {}, got {}; meta/episodes belongs to other files", path,
                                 first_ + row, row, index.values[static_cast<size_t>(row)]));
}

Column<float> FrameFile::numbers(const std::string& column, int64_t width) const {
  Column<float> out = parquet_.floats(column);
  if (out.width != width && out.rows > 0)
    throw sdk::Failure(LF_E_DATA, fmt::format("{}: column \"{}\": expected the {} numbers of meta/info.json, got {}",
                                              parquet_.path(), column, width, out.width));
  return out;
}

}  // namespace lf::robot
