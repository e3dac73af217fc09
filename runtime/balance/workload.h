// Samples as numbers: what `lfrun balance` and the benchmarks plan with, where training has a model plugin's features.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lf {

// What is known of a sample beyond its sizes: rows of the decoder, and seconds on a machine that was measured.
struct MeasuredWork {
  int64_t rows = 0;
  double encoder_seconds = 0, decoder_seconds = 0;
};

// One sample. A frame is a video frame, an image or a tile: what a per-frame encoder processes by itself.
struct WorkSample {
  std::string id;
  int64_t text_tokens = 0;
  int64_t vision_patches = 0;  // over all frames
  int64_t frames = 0;
  int64_t supervised_tokens = -1;             // of the text, those learned from, which have logits; -1: all of it
  std::optional<MeasuredWork> measured = {};  // replaces what the cost of its sizes would be

  int64_t supervised() const { return supervised_tokens < 0 ? text_tokens : supervised_tokens; }
};

// Named distributions of docs/benchmarks/balancing.md, from a fixed seed: D1, D1-skewed, D2, D3, D3-long, D4, D4-ai2d,
// D4-chartqa, D4-docvqa, D4-synthdog, D5, D5-video, D6, and the mixtures of the joint goals, joint and video10.
// Throws lf::Error(kUsage) for another name, listing these.
std::vector<WorkSample> synthetic_samples(std::string_view distribution, size_t count, uint64_t seed);
std::vector<std::string> synthetic_names();

// FLOPs of a forward pass, from sizes alone (constant factors such as forward to backward cancel in every ratio).
// A decoder layer of width d and p parameters costs 2pL for L tokens and 2dL^2 for causal attention over them (two
// products of L x L x d, half of them masked); a full-attention encoder layer costs 2pL + 4dL^2 for each frame of L
// patches. Layers multiply.
struct CostShape {
  double width = 0, layer_parameters = 0, layers = 0;
  double parameters() const { return layer_parameters * layers; }
  // Encoder: attention within windows of so many patches, but for `whole_layers` layers; 0: within a frame.
  int64_t window = 0;
  double whole_layers = 0;
};
// FLOPs of one sample, by what they grow with.
struct WorkParts {
  double encoder_rows = 0, frame_pairs = 0, window_pairs = 0;
  double decoder_rows = 0, pairs = 0, head = 0;
};
struct WorkCost {
  CostShape decoder, encoder;
  int64_t patches_per_token = 4;  // patches merged into one row of the decoder
  double per_sample = 0;          // FLOPs
  double head = 0;                // FLOPs of a token that is learned from; others have no logits
  // Where given, replaces the decoder's shape: quadratic * L^2 + linear * L + per_sample, in any unit.
  double quadratic = 0, linear = 0;

  double parameters() const { return decoder.parameters() + encoder.parameters() + head / 2; }  // layers and head
  int64_t tokens(const WorkSample& sample) const;                                               // rows of the decoder
  WorkParts parts(const WorkSample& sample) const;                                              // of its shapes
  double decode(const WorkSample& sample) const;
  double encode_frame(int64_t patches) const;
  double encode(const WorkSample& sample) const;  // all its frames, which share its patches evenly
};

// Shapes by name: 1B, 8B, 70B (decoders alone), 6B+20B (vision 6B, language 20B), 0.6B+8B. kUsage for another name.
WorkCost named_cost(std::string_view name);
std::vector<std::string> cost_names();

}  // namespace lf
