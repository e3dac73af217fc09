#include "nn/cpu/kernels.h"

namespace lf::nn::cpu {

const Kernels& kernels() {
  static const Kernels& best = __builtin_cpu_supports("x86-64-v4")   ? x86_64_v4::kernels()
                               : __builtin_cpu_supports("x86-64-v3") ? x86_64_v3::kernels()
                                                                     : x86_64_v2::kernels();
  return best;
}

template <>
const KernelsOf<float>& kernels_of<float>() {
  return kernels().f32;
}
template <>
const KernelsOf<Bf16>& kernels_of<Bf16>() {
  return kernels().bf16;
}

}  // namespace lf::nn::cpu
