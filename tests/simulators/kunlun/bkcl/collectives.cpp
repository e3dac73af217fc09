#include "collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lf::sim {
namespace {

constexpr uint64_t kPieceElements = 64 << 10;

Transfer send_to(int peer, const std::byte* data, uint64_t bytes) {
  return {peer, true, const_cast<std::byte*>(data), bytes};
}
Transfer receive_from(int peer, std::byte* data, uint64_t bytes) { return {peer, false, data, bytes}; }

}  // namespace

bool all_reduce(Communicator& ranks, const std::byte* in, std::byte* out, uint64_t n, Element element, Reduction op) {
  const uint64_t item = element_bytes(element);
  std::vector<std::byte> parts(std::min(n, kPieceElements) * item * ranks.size());
  for (uint64_t at = 0; at < n; at += kPieceElements) {
    const uint64_t piece = std::min(kPieceElements, n - at);
    if (!all_gather(ranks, in + at * item, parts.data(), piece * item)) return false;
    reduce(element, op, parts.data(), ranks.size(), piece, out + at * item);
  }
  return true;
}

bool reduce_scatter(Communicator& ranks, const std::byte* in, std::byte* out, uint64_t n_out, Element element,
                    Reduction op) {
  const uint64_t item = element_bytes(element);
  // Gathered aside: `out` may lie inside `in`.
  std::vector<std::byte> parts(n_out * item * ranks.size());
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    transfers.push_back(send_to(peer, in + peer * n_out * item, n_out * item));
    transfers.push_back(receive_from(peer, parts.data() + peer * n_out * item, n_out * item));
  }
  if (!ranks.exchange(std::move(transfers))) return false;
  reduce(element, op, parts.data(), ranks.size(), n_out, out);
  return true;
}

bool all_gather(Communicator& ranks, const std::byte* in, std::byte* out, uint64_t bytes) {
  std::vector<Transfer> transfers;
  const std::vector<std::byte> mine(in, in + bytes);  // `in` may lie inside `out`
  for (int peer = 0; peer < ranks.size(); ++peer) {
    transfers.push_back(send_to(peer, mine.data(), bytes));
    transfers.push_back(receive_from(peer, out + peer * bytes, bytes));
  }
  return ranks.exchange(std::move(transfers));
}

bool broadcast(Communicator& ranks, const std::byte* in, std::byte* out, uint64_t bytes, int root) {
  if (ranks.rank() != root) return ranks.exchange({receive_from(root, out, bytes)});
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < ranks.size(); ++peer)
    if (peer != root) transfers.push_back(send_to(peer, in, bytes));
  if (!ranks.exchange(std::move(transfers))) return false;
  std::memmove(out, in, bytes);
  return true;
}

bool all_to_all_v(Communicator& ranks, const std::byte* in, const size_t* send_counts, const size_t* send_offsets,
                  std::byte* out, const size_t* recv_counts, const size_t* recv_offsets, uint64_t item_bytes) {
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    transfers.push_back(send_to(peer, in + send_offsets[peer] * item_bytes, send_counts[peer] * item_bytes));
    transfers.push_back(receive_from(peer, out + recv_offsets[peer] * item_bytes, recv_counts[peer] * item_bytes));
  }
  return ranks.exchange(std::move(transfers));
}

}  // namespace lf::sim
