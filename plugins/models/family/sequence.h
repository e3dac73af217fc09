// A sample on its way from files or tensors to the columns of a micro-batch: token sequences and the pictures in them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "media/smart_resize.h"

namespace lf::family {

inline constexpr int64_t kUnsupervised = -100;  // a label that asks for nothing, as PyTorch's losses have it

// Pictures yet to be decoded: one, the frames of a video file, or one per frame.
struct MediaFiles {
  std::vector<std::string> paths;  // one file; or, for a video of pictures, one per frame looked at
  std::vector<int64_t> frames;     // of a video file: frames looked at, ascending, the last repeated to fill its group
  media::Size size, target;        // pixels, in the file and after resizing
};
// Patches made elsewhere: f32 [patches, values of a patch], borrowed.
struct ReadyRows {
  const float* rows = nullptr;
};

// Pictures of one size made elsewhere: f32 [3, height, width] each, borrowed.
struct ReadyTiles {
  std::vector<const float*> tiles;
};

// A picture or a video as the vision tower sees it: `groups` temporal groups of height x width patches.
struct VisionInput {
  bool video = false;
  int64_t groups = 1, height = 0, width = 0;
  float seconds_per_group = 1;      // of a video
  std::vector<std::string> stamps;  // of a Qwen3-VL video: the text before each group
  std::variant<MediaFiles, ReadyRows, ReadyTiles> source;

  int64_t patches() const { return groups * height * width; }
};

struct Rows {
  int64_t begin = 0, end = 0;
  bool operator==(const Rows&) const = default;
};

// What attends to itself and to nothing else.
struct Sequence {
  std::vector<int64_t> ids;
  std::vector<int64_t> labels;       // as long; not shifted: row i is to be predicted at row i - 1
  std::vector<VisionInput> vision;   // in order of appearance
  std::vector<Rows> blocks;          // for each: the rows that stand or fall together, with its markers and stamps
  std::vector<int64_t> source_rows;  // of a sequence given as tensors: where its rows were; empty otherwise

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  int64_t supervised() const;  // rows whose next row is to be predicted
};

// Keeps at most `rows` rows, and no part of a picture or a video: a block that would be cut goes whole.
void cut(Sequence& sequence, int64_t rows);
// The same for a sample of several; no limit where rows <= 0. Throws LF_E_DATA where nothing would be left.
void cut_all(std::vector<Sequence>& sequences, int64_t rows);

}  // namespace lf::family
