// LibTorch's CUDA half, loaded late: 0.2 GB and a driver's initialisation that a job on the CPU never pays for.
#pragma once

#include <filesystem>
#include <string>

namespace lf::cuda {

// Opens libtorch_cuda.so of `directory`, the core's own LibTorch; an empty one: where the process has libtorch_cpu.so
// from. Returns the folder of the wheels (torch/lib/../..). Before the first operator of the process: LibTorch
// remembers for ever that there was no CUDA when it first looked. Throws LF_E_UNSUPPORTED naming the file and what to
// do.
std::filesystem::path load_torch(const std::filesystem::path& directory, const std::string& build);

}  // namespace lf::cuda
