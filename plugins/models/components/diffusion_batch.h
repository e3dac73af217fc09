// Samples of one micro-batch of a diffusion transformer, packed without padding.
//
// R image rows, sample after sample (of an edited picture the wanted one first, then the ones given), M text rows, S
// samples, G conditioning rows: one for each sample, and one more for what in it has a time of its own.
#pragma once

#include <memory>
#include <vector>

#include "nn/attention.h"
#include "nn/heads.h"
#include "nn/modulation.h"

namespace lf::components {

// What the last unit found; filled when it runs.
struct DiffusionResult {
  double loss_sum = 0;
  at::Tensor prediction;    // f32 (f64) [T, out columns], if asked for
  at::Tensor sample_error;  // f32 (f64) [S]: mean squared error of each sample's wanted values; if asked for
};

struct DiffusionBatch {
  at::Tensor latents;                              // [R, in columns], noisy, in the compute dtype
  at::Tensor text;                                 // [M, text columns], the same
  at::Tensor pooled, guidance;                     // [S, pooled columns]; f32 [S]: undefined where the model has none
  at::Tensor time;                                 // f32 [G], as the time embedding wants it
  std::vector<int64_t> text_starts, image_starts;  // [S + 1]
  nn::Runs image_runs, text_runs;                  // which conditioning row
  at::Tensor positions;                            // i64 [3, M + R], or [3, R] where text has none
  at::Tensor key_bias;                             // f32 [M], undefined: 0. Added to scores of these text rows

  at::Tensor wanted;                   // i64 [T] of the image rows: what is predicted; undefined: all
  at::Tensor target;                   // f32 (f64) [T, out columns]
  at::Tensor weight;                   // f32 (f64) [T]: of a row's squared errors in the loss
  at::Tensor error_share;              // f32 (f64) [T]: 1 / wanted values of its sample, or 0
  nn::Runs wanted_runs;                // of the wanted rows: which conditioning row
  std::vector<int64_t> wanted_starts;  // [S + 1]

  bool outputs = false;
  std::shared_ptr<DiffusionResult> result;

  int64_t samples() const { return static_cast<int64_t>(text_starts.size()) - 1; }
  int64_t text_rows() const { return text_starts.back(); }
  int64_t image_rows() const { return image_starts.back(); }
};

// Rows of a sample's text, then of its pictures, sample after sample: as they attend to one another.
struct JointRows {
  nn::Segments segments;
  at::Tensor text, image;  // i64: the places of the text rows and of the image rows
};
JointRows joint_rows(const DiffusionBatch& batch);

// The loss of a prediction [T, out columns], as the last unit's result; fills batch.result.
at::Tensor finish(const DiffusionBatch& batch, const at::Tensor& prediction);

}  // namespace lf::components
