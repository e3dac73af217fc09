#include "optimizer/adamw_on_host.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"

namespace lf {
namespace {

constexpr int64_t kBlock = 1 << 16;  // elements: 1.9 MB of traffic, so threads share the work evenly

}  // namespace

AdamWOnHost::AdamWOnHost(std::span<float> master, std::span<const float> gradients, uint16_t* compute_bf16,
                         std::vector<ParameterRange> parameters, int threads)
    : master_(master.data()),
      gradients_(gradients.data()),
      compute_(compute_bf16),
      parameters_(std::move(parameters)),
      threads_(threads),
      m_(static_cast<int64_t>(master.size())),
      v_(static_cast<int64_t>(master.size())) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterRange& range = parameters_[i];
    for (int64_t begin = 0; begin < range.elements; begin += kBlock)
      blocks_.push_back({i, range.offset + begin, range.offset + std::min(begin + kBlock, range.elements)});
  }
  square_sums_.resize(blocks_.size());
}

double AdamWOnHost::gradient_norm(std::span<const uint8_t> counts) {
  parallel_pieces(threads_, static_cast<int64_t>(blocks_.size()), [&](int64_t i) {
    const auto b = static_cast<size_t>(i);
    const Block& block = blocks_[b];
    square_sums_[b] = counts[block.parameter] ? sum_of_squares(gradients_ + block.begin, block.end - block.begin) : 0.0;
  });
  double sum = 0;
  for (double square_sum : square_sums_) sum += square_sum;
  return std::sqrt(sum);
}

std::optional<size_t> AdamWOnHost::first_not_finite(std::span<const uint8_t>) {
  for (size_t b = 0; b < blocks_.size(); ++b)
    if (!std::isfinite(square_sums_[b])) return blocks_[b].parameter;
  return std::nullopt;
}

void AdamWOnHost::update(std::span<const ParameterUpdate> updates) {
  parallel_pieces(threads_, static_cast<int64_t>(blocks_.size()), [&](int64_t i) {
    const Block& block = blocks_[static_cast<size_t>(i)];
    const ParameterUpdate& update = updates[block.parameter];
    if (!update.wanted) return;
    uint16_t* compute = compute_ != nullptr ? compute_ + block.begin : nullptr;
    if (update.sign_step > 0)
      return sign_update(master_ + block.begin, gradients_ + block.begin, compute, block.end - block.begin,
                         update.sign_step);
    adamw_update({.master = master_ + block.begin,
                  .m = m_.data() + block.begin,
                  .v = v_.data() + block.begin,
                  .gradient = gradients_ + block.begin,
                  .compute = compute,
                  .n = block.end - block.begin},
                 update.scalars);
  });
}

FloatRange AdamWOnHost::range_of(const FlatMemory& moment, size_t parameter) const {
  const ParameterRange& range = parameters_[parameter];
  return host_range(moment.data() + range.offset, range.elements);
}

}  // namespace lf
