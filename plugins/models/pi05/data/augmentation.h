// Pictures changed by chance, as openpi trains: cut, turned a little, and in other colours. Pure. Source: openpi,
// models_pytorch/preprocessing_pytorch.py (preprocess_observation_pytorch, train). Cameras whose names hold "wrist" are
// neither cut nor turned there.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lf::robot {

struct Augmentation {
  bool moves = true;          // cut and turned
  int64_t top = 0, left = 0;  // of the part that is kept, kept_side(side) a side; it is then resized to the whole
  double degrees = 0;         // below 0.1 either way nothing turns
  double brightness = 1, contrast = 1, saturation = 1;
};

// 95 of 100 pixels.
int64_t kept_side(int64_t side);

// Six numbers in [0, 1): places evenly among those that there are, -5 to 5 degrees, brightness 0.7 to 1.3, contrast 0.6
// to 1.4, saturation 0.5 to 1.5.
inline constexpr int kAugmentationDraws = 6;
Augmentation augmentation_of(const std::array<double, kAugmentationDraws>& uniform, int64_t side, bool moves);

// rgb: u8 [side, side, 3], in place. What turning brings in from outside is black. Between the steps numbers are not
// rounded and not cut off; at the end they are, to bytes (the reference stops at single precision).
void augment(std::vector<uint8_t>& rgb, int64_t side, const Augmentation& by);

}  // namespace lf::robot
