#include "pi05/flow_time.h"

#include <cmath>

namespace lf::pi05 {

float flow_time(const Pi05Config& config, double uniform) {
  const double beta = config.time_beta == 1 ? std::pow(uniform, 1 / config.time_alpha)
                                            : 1 - std::pow(1 - uniform, 1 / config.time_beta);
  return static_cast<float>(config.time_scale * beta + config.time_offset);
}

}  // namespace lf::pi05
