// Samples to the columns of a micro-batch, packed without padding.
//
// S samples, I images of n patches, T tokens, P = I n + T prefix rows, A = S · horizon action rows:
//   pixel_values     f32 [I n, 3 patch²]
//   token_ids        i64 [T]
//   visual_places    i64 [I n]          where image rows stand among the prefix rows: a sample's images, then its text
//   text_places      i64 [T]
//   prefix_starts    i64 [S + 1]
//   actions, target  f32 [A, action columns]
//   time             f32 [S]
//   counted          f32 [A, action columns]   1: the value is part of the loss, 0: padding
//   sampling_steps   i64 [1], with "noise" f32 [A, action columns]: where actions are sampled too
//   place.NAME       i64 [A, action columns]   of samples made of tensors: flat place of each value of output NAME in
//                                              [B, horizon, action columns] (lfrun parity)
#pragma once

#include <span>

#include "family/columns.h"
#include "pi05/policy_sample.h"

namespace lf::pi05 {

// What the last stage gives where outputs are asked for, each [A, action columns].
inline constexpr const char* kOutputs[] = {"velocity", "element_loss", "sampled_actions"};

// Throws sdk::Failure(LF_E_DATA) for samples of which some are to be sampled and others are not.
family::Columns make_columns(std::span<const PolicySample> samples, const Pi05Config& config);

}  // namespace lf::pi05
