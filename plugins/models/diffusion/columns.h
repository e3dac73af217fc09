// The columns of a micro-batch: all samples one after another, without padding.
//
// S samples, R image rows (a sample's wanted ones and those of pictures given), T wanted rows, M text rows, G times:
//   latents       f32 [R, in columns]    noisy
//   text          f32 [M, text columns]
//   pooled        f32 [S, pooled columns]   Flux
//   guidance      f32 [S]                   Flux with guidance
//   time          f32 [G]                as the time embedding wants it
//   text_starts, image_starts   i64 [S + 1]
//   time_starts   i64 [S + 1]            of each sample's times among all; the first is its own
//   runs          i64 [Q, 2]             image rows and their time: (rows, place among all times)
//   positions     i64 [3, M + R]         all text rows, then all image rows; of Wan [3, R]
//   key_bias      f32 [M]                Wan: logarithm of how many text rows a row stands for; absent: 0
//   wanted        i64 [S, 2]             image rows that are predicted: first, counted within the sample, and how many
//   target        f32 [T, out columns]
//   share         f32 [T]                of a row's squared errors in its sample's mean; 0: it does not count
//   weight        f32 [S]                of a sample's mean in the loss
//   place.prediction   i64 [T, out columns]   flat place of each value in the reference (lfrun parity); of samples made
//   of tensors only
#pragma once

#include <span>

#include "diffusion/packed_sample.h"
#include "family/columns.h"

namespace lf::diffusion {

family::Columns make_columns(std::span<const PackedSample> samples, const DiffusionConfig& config);

}  // namespace lf::diffusion
