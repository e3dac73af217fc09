// One sample as the model gets it, noise and time included: rows of numbers, without LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pi05/config.h"

namespace lf::pi05 {

struct PolicySample {
  int64_t images = 0;           // cameras that are there: absent ones are no rows
  std::vector<float> pixels;    // [images · patches, 3 · patch²] from -1 to 1: channel, row, column within a patch
  std::vector<int64_t> tokens;  // of the prompt, without padding
  float time = 0;               // 1 is noise
  std::vector<float> actions;   // [horizon, action columns], noisy: time · noise + (1 - time) · actions
  std::vector<float> target;    // [horizon, action columns]: noise - actions
  int64_t counted_columns = 0;  // the first so many of a row's count in the loss
  std::vector<uint8_t> valid;   // [horizon]: rows that count

  int64_t sampling_steps = 0;  // above 0: actions are also sampled, from `noise` [horizon, action columns]
  std::vector<float> noise;
  // Of a sample given as tensors: its number among those given; else -1.
  int64_t source = -1;

  int64_t prefix_rows(const Pi05Config& config) const {
    return images * config.image_rows() + static_cast<int64_t>(tokens.size());
  }
  int64_t valid_actions() const;
};

// Mixes noise and actions, both [horizon, action columns], at the sample's time.
void put_actions(PolicySample& sample, std::span<const float> actions, std::span<const float> noise);

// Appends an image as rows of patches, row by row; value(channel, y, x).
template <typename Value>
void append_image(PolicySample& sample, const Pi05Config& config, Value value) {
  const int64_t side = config.image_size / config.patch;
  sample.pixels.reserve(sample.pixels.size() + static_cast<size_t>(config.image_rows() * config.patch_columns()));
  for (int64_t row = 0; row < side; ++row)
    for (int64_t column = 0; column < side; ++column)
      for (int64_t channel = 0; channel < 3; ++channel)
        for (int64_t y = 0; y < config.patch; ++y)
          for (int64_t x = 0; x < config.patch; ++x)
            sample.pixels.push_back(value(channel, row * config.patch + y, column * config.patch + x));
  ++sample.images;
}

}  // namespace lf::pi05
