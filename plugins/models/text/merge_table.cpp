#include "text/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

namespace lf::text {
namespace {

constexpr uint32_t kNoRank = UINT32_MAX;
constexpr size_t kScanned = 48;  // up to this length looking at every pair each time is faster than a queue

}  // namespace

MergeTable::MergeTable(size_t count) {
  merges_.resize(std::bit_ceil(count * 8 / 5 + 16));
  mask_ = merges_.size() - 1;
}

void MergeTable::grow() {
  const std::vector<Merge> old = std::move(merges_);
  merges_.assign(old.size() * 2, Merge{});
  mask_ = merges_.size() - 1;
  for (const Merge& merge : old) {
    if (merge.pair == kFree) continue;
    size_t slot = slot_of(merge.pair);
    while (merges_[slot].pair != kFree) slot = (slot + 1) & mask_;
    merges_[slot] = merge;
  }
}

bool MergeTable::add(TokenId left, TokenId right, TokenId merged) {
  if (find(left, right) != nullptr) return false;
  if (8 * (count_ + 1) > 5 * merges_.size()) grow();
  size_t slot = slot_of(key(left, right));
  while (merges_[slot].pair != kFree) slot = (slot + 1) & mask_;
  merges_[slot] = {key(left, right), static_cast<uint32_t>(count_++), merged};
  return true;
}

void MergeTable::apply(std::vector<TokenId>& word) const {
  if (word.size() <= kScanned) {
    apply_scanning(word);
  } else {
    apply_queued(word);
  }
}

void MergeTable::apply_scanning(std::vector<TokenId>& word) const {
  size_t n = word.size();
  if (n < 2) return;
  std::array<uint32_t, kScanned> rank;  // of the pair that starts here
  std::array<TokenId, kScanned> merged;
  const auto look = [&](size_t i) {
    const Merge* merge = i + 1 < n ? find(word[i], word[i + 1]) : nullptr;
    rank[i] = merge != nullptr ? merge->rank : kNoRank;
    merged[i] = merge != nullptr ? merge->merged : 0;
  };
  for (size_t i = 0; i < n; ++i) look(i);
  while (true) {
    const size_t best = static_cast<size_t>(std::min_element(rank.begin(), rank.begin() + n) - rank.begin());
    if (rank[best] == kNoRank) break;
    word[best] = merged[best];
    --n;
    for (size_t i = best + 1; i < n; ++i) {
      word[i] = word[i + 1];
      rank[i] = rank[i + 1];
      merged[i] = merged[i + 1];
    }
    look(best);
    if (best > 0) look(best - 1);
  }
  word.resize(n);
}

void MergeTable::apply_queued(std::vector<TokenId>& word) const {
  struct Candidate {
    uint32_t rank;
    uint32_t left, right;  // indices into word
    TokenId left_id, right_id, merged;
    bool operator<(const Candidate& other) const {  // std::priority_queue wants the best last
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  constexpr TokenId kGone = -1;
  const uint32_t n = static_cast<uint32_t>(word.size());
  std::vector<uint32_t> next(n), previous(n);
  for (uint32_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // wraps to UINT32_MAX at the first
  }
  std::priority_queue<Candidate> queue;
  const auto look = [&](uint32_t left, uint32_t right) {
    if (const Merge* merge = find(word[left], word[right]))
      queue.push({merge->rank, left, right, word[left], word[right], merge->merged});
  };
  for (uint32_t i = 0; i + 1 < n; ++i) look(i, i + 1);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    if (word[best.left] != best.left_id || word[best.right] != best.right_id || next[best.left] != best.right) continue;
    word[best.left] = best.merged;
    word[best.right] = kGone;
    next[best.left] = next[best.right];
    if (next[best.left] < n) {
      previous[next[best.left]] = best.left;
      look(best.left, next[best.left]);
    }
    if (previous[best.left] < n) look(previous[best.left], best.left);
  }
  std::erase(word, kGone);
}

}  // namespace lf::text
