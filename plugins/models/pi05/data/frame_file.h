// The numbers of one data file of a LeRobot directory, in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pi05/data/parquet_file.h"

namespace lf::robot {

// Which columns, and how many numbers each has. An empty name: none.
struct FrameColumns {
  std::string state, action;
  int64_t state_width = 0, action_width = 0;
};

// Immutable once read; any thread.
class FrameFile {
 public:
  // first_frame: what its first row is counted as through the directory. Throws sdk::Failure(LF_E_DATA) beginning with
  // the path where columns are missing, have other widths, or frames are not in order.
  FrameFile(const std::string& path, int64_t first_frame, const FrameColumns& columns);

  int64_t end() const { return first_ + parquet_.rows(); }  // one more than its last frame
  // Of a frame, by its number through the directory.
  std::span<const float> state(int64_t frame) const { return row(state_, frame, 1); }
  std::span<const float> states(int64_t frame, int64_t n) const { return row(state_, frame, n); }
  std::span<const float> actions(int64_t frame, int64_t n) const { return row(action_, frame, n); }
  float seconds(int64_t frame) const { return seconds_.values[static_cast<size_t>(frame - first_)]; }
  int64_t task(int64_t frame) const { return task_.values[static_cast<size_t>(frame - first_)]; }
  // The file of an embedded picture.
  std::string picture(const std::string& camera, int64_t frame) const {
    return parquet_.picture(camera, frame - first_);
  }
  const std::string& path() const { return parquet_.path(); }

 private:
  std::span<const float> row(const Column<float>& column, int64_t frame, int64_t n) const {
    return std::span(column.values)
        .subspan(static_cast<size_t>((frame - first_) * column.width), static_cast<size_t>(n * column.width));
  }
  Column<float> numbers(const std::string& column, int64_t width) const;

  const ParquetFile parquet_;
  const int64_t first_;
  Column<float> state_, action_, seconds_;
  Column<int64_t> task_;
};

}  // namespace lf::robot
