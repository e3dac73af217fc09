#include <algorithm>
#include <cstring>

#include "reduction/flat_ops.h"
#include "reduction/reducer.h"
#include "reduction/tree.h"

namespace lf {
namespace {

using Floats = std::vector<float>;

// A block of this rank's leaves, kept apart from the gradient buffers until its sibling comes.
struct KeptNode {
  TreeNode node;
  std::vector<Floats> values;  // per gradient buffer
};

// A bucket on its way: every rank sends each owner its nodes' values of the owner's slice, the owner adds them in tree
// order, and all gather the slices.
struct Transfer {
  Bucket bucket;
  int64_t slice = 0;  // elements; of the last owners it may be less, or nothing
  Floats sent, received, gathered;
  Ticket exchange, gather;
};

class FixedReducer final : public BucketReducer {
 public:
  using BucketReducer::BucketReducer;

 private:
  void start_step() override {
    while (!kept_.empty()) let_go();
    transfers_.clear();
    nodes_.clear();
    for (int rank = 0; rank < config_.group->size(); ++rank) {
      const auto r = static_cast<size_t>(rank);
      nodes_.push_back(canonical_nodes(first_leaf_[r], first_leaf_[r + 1]));
    }
  }

  void keep_leaf(int64_t leaf) override {
    const TreeNode node{leaf, 1};
    if (!kept_.empty() && are_siblings(kept_.back().node, node)) {
      for_buffers([&](size_t b, float* gradients, int64_t n) {
        add_and_clear(kept_.back().values[b].data(), gradients, n, config_.threads);
      });
      kept_.back().node.leaves *= 2;
    } else {
      keep(node);
    }
    while (kept_.size() > 1 && are_siblings(kept_[kept_.size() - 2].node, kept_.back().node)) {
      KeptNode& left = kept_[kept_.size() - 2];
      for_buffers([&](size_t b, float*, int64_t n) {
        add_into(left.values[b].data(), kept_.back().values[b].data(), n, config_.threads);
      });
      left.node.leaves *= 2;
      let_go();
    }
  }

  void keep(const TreeNode& node) {
    if (spare_.empty()) {
      spare_.emplace_back();
      for (const auto& buffer : config_.gradients) spare_.back().emplace_back(buffer.size());
    }
    kept_.push_back({node, std::move(spare_.back())});
    spare_.pop_back();
    for_buffers([&](size_t b, float* gradients, int64_t n) {
      move_out(kept_.back().values[b].data(), gradients, n, config_.threads);
    });
  }

  void let_go() {
    spare_.push_back(std::move(kept_.back().values));
    kept_.pop_back();
  }

  template <typename Pass>
  void for_buffers(const Pass& pass) {
    for (size_t b = 0; b < config_.gradients.size(); ++b) {
      pass(b, config_.gradients[b].data(), static_cast<int64_t>(config_.gradients[b].size()));
    }
  }

  const float* kept_at(size_t node, const Bucket& bucket) const {
    return kept_[node].values[bucket.buffer].data() + bucket.offset;
  }

  // The last leaf is in the gradient buffer, and joins the blocks that it completes; those before them stay kept.
  void launch(const Bucket& bucket) override {
    const auto& own = nodes_[static_cast<size_t>(config_.group->rank())];
    const size_t apart = own.empty() ? 0 : own.size() - 1;
    for (size_t i = kept_.size(); i > apart; --i)
      add_into(at(bucket), kept_at(i - 1, bucket), bucket.length, config_.threads);
    if (alone()) {
      for (size_t i = apart; i-- > 0;) add_into(at(bucket), kept_at(i, bucket), bucket.length, config_.threads);
      return;
    }
    transfers_.push_back(exchange(bucket, own.size()));
  }

  std::pair<int64_t, int64_t> slice_of(const Transfer& transfer, size_t owner) const {
    const int64_t begin = std::min(static_cast<int64_t>(owner) * transfer.slice, transfer.bucket.length);
    return {begin, std::min(begin + transfer.slice, transfer.bucket.length)};
  }

  Transfer exchange(const Bucket& bucket, size_t own_nodes) {
    const auto ranks = static_cast<size_t>(config_.group->size());
    const auto rank = static_cast<size_t>(config_.group->rank());
    Transfer transfer;
    transfer.bucket = bucket;
    transfer.slice = (bucket.length + static_cast<int64_t>(ranks) - 1) / static_cast<int64_t>(ranks);
    const auto [own_begin, own_end] = slice_of(transfer, rank);
    std::vector<int64_t> send(ranks), receive(ranks);
    int64_t received = 0;
    for (size_t r = 0; r < ranks; ++r) {
      const auto [begin, end] = slice_of(transfer, r);
      send[r] = (end - begin) * static_cast<int64_t>(own_nodes * sizeof(float));
      const int64_t elements = (own_end - own_begin) * static_cast<int64_t>(nodes_[r].size());
      receive[r] = elements * static_cast<int64_t>(sizeof(float));
      received += elements;
    }
    transfer.received.resize(static_cast<size_t>(received));
    const float* from = at(bucket);
    if (own_nodes > 1) {  // by owner, then by node; one node lies in this order already
      transfer.sent.resize(static_cast<size_t>(bucket.length) * own_nodes);
      float* to = transfer.sent.data();
      for (size_t r = 0; r < ranks; ++r) {
        const auto [begin, end] = slice_of(transfer, r);
        for (size_t node = 0; node < own_nodes; ++node) {
          const float* values = node + 1 < own_nodes ? kept_at(node, bucket) : at(bucket);
          to = std::copy(values + begin, values + end, to);
        }
      }
      from = transfer.sent.data();
    }
    transfer.exchange = config_.group->all_to_all_async(from, send, transfer.received.data(), receive);
    return transfer;
  }

  // All exchanges are under way in bucket order; the gathers follow in bucket order, each behind the sum of the next.
  void complete() override {
    std::vector<TreeNode> nodes;
    for (const auto& of_rank : nodes_) nodes.insert(nodes.end(), of_rank.begin(), of_rank.end());
    const auto rank = static_cast<size_t>(config_.group->rank());
    for (size_t t = 0; t < transfers_.size(); ++t) {
      Transfer& transfer = transfers_[t];
      transfer.exchange.wait();
      transfer.sent = Floats();
      const auto [begin, end] = slice_of(transfer, rank);
      const int64_t n = end - begin;
      float* values = transfer.received.data();
      add_in_tree_order(nodes, [&](size_t into, size_t from) {
        add_into(values + static_cast<int64_t>(into) * n, values + static_cast<int64_t>(from) * n, n, config_.threads);
      });
      gather(transfer, n);
      if (t > 0) place(transfers_[t - 1]);
    }
    if (!transfers_.empty()) place(transfers_.back());
    transfers_.clear();
  }

  void gather(Transfer& transfer, int64_t own) {
    const int64_t ranks = config_.group->size();
    transfer.received.resize(static_cast<size_t>(transfer.slice));  // the sum comes first; the last owners' is padded
    std::fill(transfer.received.begin() + own, transfer.received.end(), 0.0f);
    float* out = at(transfer.bucket);
    if (transfer.slice * ranks != transfer.bucket.length) {
      transfer.gathered.resize(static_cast<size_t>(transfer.slice * ranks));
      out = transfer.gathered.data();
    }
    transfer.gather = config_.group->all_gather_async(transfer.received.data(), out,
                                                      transfer.slice * static_cast<int64_t>(sizeof(float)));
  }

  void place(Transfer& transfer) {
    transfer.gather.wait();
    if (!transfer.gathered.empty()) {
      std::copy_n(transfer.gathered.begin(), transfer.bucket.length, at(transfer.bucket));
    }
    transfer.gathered = Floats();
    transfer.received = Floats();
  }

  std::vector<std::vector<TreeNode>> nodes_;  // per rank
  std::vector<KeptNode> kept_;
  std::vector<std::vector<Floats>> spare_;
  std::vector<Transfer> transfers_;
};

}  // namespace

std::unique_ptr<Reducer> make_fixed_reducer(ReducerConfig config) {
  return std::make_unique<FixedReducer>(std::move(config));
}

}  // namespace lf
