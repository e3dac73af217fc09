// LibTorch's wheel carries c10d's headers but not Gloo's, which they include. These five headers declare as much of
// Gloo as c10d/ProcessGroupGloo.hpp names. That is sound because every Gloo object is made and used inside
// libtorch_cpu.so: here they are only held. gloo_group.cpp checks the LibTorch version and the sizes that depend on it.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
  void closeConnections();
};

}  // namespace gloo
