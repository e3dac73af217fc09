// Collectives as exchanges of bytes; each runs on a stream's thread, over the bytes behind device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arithmetic.h"
#include "communicator.h"

namespace lf::sim {

bool all_reduce(Communicator& ranks, const std::byte* in, std::byte* out, uint64_t n, Element element, Reduction op);
bool reduce_scatter(Communicator& ranks, const std::byte* in, std::byte* out, uint64_t n_out, Element element,
                    Reduction op);
bool all_gather(Communicator& ranks, const std::byte* in, std::byte* out, uint64_t bytes);
bool broadcast(Communicator& ranks, const std::byte* in, std::byte* out, uint64_t bytes, int root);
// Counts and offsets in elements, as they stand in device memory when the stream comes to them.
bool all_to_all_v(Communicator& ranks, const std::byte* in, const size_t* send_counts, const size_t* send_offsets,
                  std::byte* out, const size_t* recv_counts, const size_t* recv_offsets, uint64_t item_bytes);

}  // namespace lf::sim
