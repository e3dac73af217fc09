// What `lfrun balance` reads: samples as numbers, or a data set whose samples it measures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "balance/workload.h"

namespace lf {

struct SampleFile {
  std::vector<WorkSample> samples;
  std::string note;  // how numbers were come by, where they were not in the file; else empty
};

// .csv: a header of id, text_tokens, vision_patches and frames, in any order, absent ones 0, and supervised_tokens, all
// of the text where absent; .jsonl: objects with these keys, or a data set as training reads it (docs/samples.md), also
// as a folder: then text counts a token for four bytes, of which the assistant's are learned from, a picture ceil(w/28)
// * ceil(h/28) * 4 patches of its header's size, at most 5,120 and what `image_max_pixels` (0: no limit) has of them,
// and a video one such frame for half a second, at most 768. Throws kInputMissing for a file that is not there,
// kBadData naming file and line.
SampleFile read_samples(const std::filesystem::path& path, int64_t image_max_pixels = 0);

// Leaves out, or cuts at its end, what is longer than a pack, as training does; says how many, or nothing.
std::string limit_lengths(std::vector<WorkSample>& samples, const WorkCost& cost, int64_t max_tokens, bool cut);

}  // namespace lf
