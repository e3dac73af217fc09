// How ranks find each other: an abstract Unix socket whose name is the unique id; who answers there hands every rank
// one piece of shared memory.
#pragma once

#include <cstddef>
#include <span>

namespace lf::sim {

// Writes an id over all of `id` and answers, on a thread of its own, the ranks that will ask with it; gives up after
// the vendor's timeout.
void open_rendezvous(std::span<char> id);

// A file descriptor of the shared memory, zeroed, of segment_bytes(size); -1 when the others do not come in time or
// disagree, -2 when the id is damaged. Blocks.
int join_rendezvous(std::span<const char> id, int rank, int size);

double timeout_seconds();  // BKCL_TIMEOUT; 300 unless set

}  // namespace lf::sim
