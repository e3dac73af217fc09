// Random initial values that no layout can change: an element's value depends on the seed, its parameter's name and its
// place in the whole parameter, and on nothing else.
#pragma once

#include <array>

#include "mesh/slices.h"
#include "weights/dtype.h"

namespace lf {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11): four random words
// from a counter and a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Fills the box of a place's array, packed row-major, as the parameter's init says (LF_INIT_...): normal values by Box
// and Muller. The bits are the same on every machine. For tied parameters, initialise the one they are tied to. Pure;
// any thread.
void initialise(const ParameterInfo& parameter, uint64_t seed, const Place& place, const Box& local, DType dtype,
                void* out);

}  // namespace lf
