// The parts of a PrivateUse1 device, each registered once, in the order that register_device has them. All of it stays
// for the life of the process.
#pragma once

#include <string>

namespace lf::kunlun {

void register_guard();
void register_hooks();
void register_operators();  // those that need no arithmetic: memory, views, copies
void register_fallback();   // all others
void register_attention();  // which of LibTorch's attention kernels is chosen

}  // namespace lf::kunlun
