#include "nn/sparse_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "nn/precision.h"

namespace lf::nn {
namespace {

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

// What all blocks read.
struct BlockProblem {
  BlockProblem(const SparseInputs& in, const at::Tensor& kv_b, const LatentShape& s, const IndexShape& i)
      : rows(in), shape(s), index(i), type(wide(in.query)), keys(at::cat({in.latent, in.shared_key}, 1)) {
    const auto up = kv_b.view({s.heads, s.plain + s.value, s.latent}).split_with_sizes({s.plain, s.value}, 1);
    up_key = up[0], up_value = up[1];
    if (in.index_key.defined()) index_key = in.index_key.to(type);
  }

  const SparseInputs& rows;
  LatentShape shape;
  IndexShape index;
  at::ScalarType type;
  at::Tensor keys;              // [N, L + R]
  at::Tensor up_key, up_value;  // [H, P, L], [H, W, L]
  at::Tensor index_key;         // wide [N, D_I]; undefined where the indexer is not asked
};

// Sums over the blocks. Undefined where not wanted.
struct BlockSums {
  at::Tensor dkeys;                                 // wide [N, L + R]
  at::Tensor up_key, up_value;                      // wide, as the problem's
  at::Tensor index_query, index_key, index_weight;  // wide [N, H_I, D_I], [N, D_I], [N, H_I]
};

// Queries [begin, end) of the segment that begins at row `first`.
class QueryBlock {
 public:
  QueryBlock(const BlockProblem& p, int64_t first, int64_t begin, int64_t end)
      : p_(p), first_(first), begin_(begin), count_(end - begin), seen_(end - first) {}

  bool selects() const { return p_.index.top_k > 0 && p_.index.top_k < seen_; }

  // i32 [B, top_k], ascending.
  at::Tensor select() const {
    const int64_t k = p_.index.top_k;
    const auto longs = p_.keys.options().dtype(at::kLong);
    const at::Tensor later = at::arange(seen_, longs).unsqueeze(0).gt(places());
    const at::Tensor scores =
        index_scores(index_products(p_.index_key.narrow(0, first_, seen_))).masked_fill(later, kUnseen);
    // topk chooses freely among equals: it only tells the border, and equals are counted from the earliest.
    const at::Tensor border = std::get<0>(scores.topk(k, 1)).narrow(1, k - 1, 1);
    const at::Tensor above = scores.le(border).logical_not(), equal = scores.eq(border);
    const at::Tensor room = k - above.sum(1, /*keepdim=*/true);
    const at::Tensor taken = above.logical_or(equal.logical_and(equal.cumsum(1).le(room)));
    const at::Tensor by_place = taken.to(at::kInt) * at::arange(seen_, 0, -1, longs.dtype(at::kInt));
    return std::get<1>(by_place.topk(k, 1)).to(at::kInt);
  }

  // selected: of these queries, or undefined: every earlier row.
  void see(const at::Tensor& selected) {
    if (selected.defined()) picked_ = selected.to(at::kLong);
    keys_ = of_rows(p_.keys);
    const at::Tensor rows =
        selected.defined() ? picked_ : at::arange(seen_, p_.keys.options().dtype(at::kLong)).unsqueeze(0);
    later_ = rows.gt(places());
  }

  // [B, H W]. Keeps shares for the divergence and for attend_back().
  at::Tensor attend() {
    const LatentShape& s = p_.shape;
    const auto query = p_.rows.query.narrow(0, begin_, count_)
                           .reshape({count_, s.heads, s.head_size()})
                           .split_with_sizes({s.plain, s.rotated}, 2);
    plain_query_ = query[0].transpose(0, 1);
    absorbed_ = at::cat({at::bmm(plain_query_, p_.up_key).transpose(0, 1), query[1]}, 2);
    const at::Tensor products = at::matmul(absorbed_, keys_.transpose(-1, -2)).to(p_.type) * s.scale;
    share_ = products.masked_fill(later_.unsqueeze(1), kUnseen).softmax(-1);
    mixed_ = at::matmul(share_.to(keys_.scalar_type()), latents()).transpose(0, 1);
    return at::bmm(mixed_, p_.up_value.transpose(1, 2)).transpose(0, 1).flatten(1);
  }

  // After attend(): [] summed over the queries. sums, if given, gets its gradients.
  at::Tensor diverge(const BlockSums* sums) const {
    const at::Tensor index_keys = of_rows(p_.index_key);
    const at::Tensor products = index_products(index_keys), target = share_.mean(1);
    const at::Tensor scores = index_scores(products).masked_fill(later_, kUnseen);
    const at::Tensor log_guess = scores.log_softmax(-1);
    if (sums) learn(index_keys, products, log_guess.exp() * target.sum(1, true) - target, *sums);
    return (at::xlogy(target, target) - target * log_guess.masked_fill(later_, 0)).sum();
  }

  // After attend(): dout [B, H W] -> dquery [B, H (P + R)].
  at::Tensor attend_back(const at::Tensor& dout, const BlockSums& sums) const {
    const LatentShape& s = p_.shape;
    const at::Tensor by_head = dout.reshape({count_, s.heads, s.value}).transpose(0, 1);
    const at::Tensor dmixed = at::bmm(by_head, p_.up_value).transpose(0, 1);
    const at::Tensor dshare = at::matmul(dmixed, latents().transpose(-1, -2)).to(p_.type);
    const at::Tensor dproducts =
        (share_ * (dshare - (share_ * dshare).sum(-1, true)) * s.scale).to(keys_.scalar_type());
    const at::Tensor dabsorbed = at::matmul(dproducts, keys_);
    const at::Tensor dplain = dabsorbed.narrow(2, 0, s.latent).transpose(0, 1);
    const at::Tensor dkeys = to_keys(dproducts, absorbed_);
    dkeys.narrow(-1, 0, s.latent).add_(to_keys(share_.to(keys_.scalar_type()), dmixed));
    add_to_rows(sums.dkeys, dkeys);
    if (sums.up_key.defined()) {
      at::Tensor(sums.up_key).add_(wide_product(plain_query_, dplain));
      at::Tensor(sums.up_value).add_(wide_product(by_head, mixed_));
    }
    const at::Tensor dquery = at::bmm(dplain, p_.up_key.transpose(1, 2)).transpose(0, 1);
    return at::cat({dquery, dabsorbed.narrow(2, s.latent, s.rotated)}, 2).flatten(1);
  }

 private:
  // [B, 1]: of the queries within the segment.
  at::Tensor places() const {
    return at::arange(begin_ - first_, begin_ - first_ + count_, p_.keys.options().dtype(at::kLong)).unsqueeze(1);
  }
  // Seen rows [M, C], or of each query the picked ones [B, K, C].
  at::Tensor of_rows(const at::Tensor& all) const {
    const at::Tensor seen = all.narrow(0, first_, seen_);
    return picked_.defined() ? seen.index_select(0, picked_.flatten()).view({count_, -1, all.size(1)}) : seen;
  }
  at::Tensor latents() const { return keys_.narrow(-1, 0, p_.shape.latent); }

  // max(q k / sqrt(D_I), 0): wide [B, H_I, M or K].
  at::Tensor index_products(const at::Tensor& keys) const {
    return at::matmul(index_query(), keys.transpose(-1, -2)).div_(root()).relu_();
  }
  at::Tensor index_scores(const at::Tensor& products) const {
    return at::matmul(index_weight().unsqueeze(1), products).squeeze(1);
  }
  at::Tensor index_query() const {
    return p_.rows.index_query.narrow(0, begin_, count_).to(p_.type).reshape({count_, p_.index.heads, p_.index.size});
  }
  at::Tensor index_weight() const { return p_.rows.index_weight.narrow(0, begin_, count_).to(p_.type); }
  double root() const { return std::sqrt(static_cast<double>(p_.index.size)); }

  void learn(const at::Tensor& index_keys, const at::Tensor& products, const at::Tensor& dscores,
             const BlockSums& sums) const {
    const at::Tensor each = dscores.unsqueeze(1);
    sums.index_weight.narrow(0, begin_, count_).copy_((products * each).sum(-1));
    const at::Tensor dproducts = (each * index_weight().unsqueeze(2)).masked_fill_(products.le(0), 0).div_(root());
    sums.index_query.narrow(0, begin_, count_).copy_(at::matmul(dproducts, index_keys));
    add_to_rows(sums.index_key, to_keys(dproducts, index_query()));
  }

  // by [B, heads, M or K], of [B, heads, C] -> what each seen row [M, C] or picked row [B, K, C] gets.
  at::Tensor to_keys(const at::Tensor& by, const at::Tensor& of) const {
    return picked_.defined() ? at::bmm(by.transpose(1, 2), of) : at::mm(by.flatten(0, 1).t(), of.flatten(0, 1));
  }
  void add_to_rows(const at::Tensor& sum, const at::Tensor& rows) const {
    at::Tensor seen = sum.narrow(0, first_, seen_);
    if (picked_.defined())
      seen.index_add_(0, picked_.flatten(), rows.flatten(0, 1).to(seen.scalar_type()));
    else
      seen.add_(rows);
  }
  // aᵀ b of every head in wide: [H, B, p], [H, B, q] -> [H, p, q].
  at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b) const {
    return at::bmm(a.to(p_.type).transpose(1, 2), b.to(p_.type));
  }

  const BlockProblem& p_;
  int64_t first_, begin_, count_, seen_;
  at::Tensor picked_;                                  // i64 [B, K]; undefined: every seen row
  at::Tensor keys_;                                    // [M, L + R] or [B, K, L + R]
  at::Tensor later_;                                   // bool [B, M or K]
  at::Tensor plain_query_, absorbed_, share_, mixed_;  // [H, B, P], [B, H, L + R], wide [B, H, M or K], [H, B, L]
};

int64_t rows_of_a_block(const BlockProblem& p, int64_t length) {
  const int64_t k = p.index.top_k, kept = k > 0 ? std::min(k, length) : length;
  const int64_t widest =
      std::max({p.index.heads * length, p.shape.heads * kept, k > 0 ? kept * (p.shape.latent + p.shape.rotated) : 0});
  return std::max<int64_t>(kSparseBlockElements / std::max<int64_t>(widest, 1), 1);
}

template <typename Do>
void for_blocks(const BlockProblem& p, const Segments& segments, int64_t block_rows, Do run) {
  for (size_t s = 0; s < segments.count(); ++s) {
    const int64_t first = segments.starts[s], last = segments.starts[s + 1];
    const int64_t rows = block_rows > 0 ? block_rows : rows_of_a_block(p, last - first);
    for (int64_t begin = first; begin < last; begin += rows) {
      const int64_t end = std::min(begin + rows, last);
      run(QueryBlock(p, first, begin, end), begin, end - begin, static_cast<int64_t>(s));
    }
  }
}

BlockSums index_sums(const BlockProblem& p, int64_t n) {
  const auto options = p.keys.options().dtype(p.type);
  BlockSums sums;
  sums.index_query = at::empty({n, p.index.heads, p.index.size}, options);
  sums.index_key = at::zeros({n, p.index.size}, options);
  sums.index_weight = at::empty({n, p.index.heads}, options);
  return sums;
}

}  // namespace

SparseForward sparse_forward_in_blocks(const SparseInputs& rows, const at::Tensor& kv_b, const LatentShape& shape,
                                       const IndexShape& index, const Segments& segments, bool divergence,
                                       bool gradients, int64_t block_rows) {
  const at::NoGradGuard no_grad;
  const BlockProblem p(rows, kv_b, shape, index);
  const int64_t n = rows.query.size(0);
  int64_t longest = 0;
  for (size_t s = 0; s < segments.count(); ++s)
    longest = std::max(longest, segments.starts[s + 1] - segments.starts[s]);
  SparseForward to;
  to.out = at::empty({n, shape.heads * shape.value}, p.keys.options());
  if (index.top_k > 0 && index.top_k < longest)
    to.selected = at::zeros({n, index.top_k}, p.keys.options().dtype(at::kInt));
  if (divergence) to.divergence = at::zeros({static_cast<int64_t>(segments.count())}, p.keys.options().dtype(p.type));
  const bool learns = divergence && gradients;
  const BlockSums sums = learns ? index_sums(p, n) : BlockSums{};
  for_blocks(p, segments, block_rows, [&](QueryBlock block, int64_t begin, int64_t count, int64_t segment) {
    at::Tensor selected;
    if (block.selects()) selected = to.selected.narrow(0, begin, count).copy_(block.select());
    block.see(selected);
    to.out.narrow(0, begin, count).copy_(block.attend());
    if (divergence) to.divergence.select(0, segment).add_(block.diverge(learns ? &sums : nullptr));
  });
  if (learns) {
    to.dindex_query = sums.index_query.flatten(1);
    to.dindex_key = sums.index_key;
    to.dindex_weight = sums.index_weight;
  }
  return to;
}

SparseGradients sparse_backward_in_blocks(const at::Tensor& dout, const SparseInputs& rows, const at::Tensor& kv_b,
                                          const SparseForward& forward, const LatentShape& shape,
                                          const IndexShape& index, const Segments& segments, bool wants_kv_b,
                                          bool wants_index, int64_t block_rows) {
  const at::NoGradGuard no_grad;
  const BlockProblem p(rows, kv_b, shape, index);
  const int64_t n = rows.query.size(0);
  BlockSums sums = wants_index ? index_sums(p, n) : BlockSums{};
  SparseGradients to;
  if (dout.defined()) {
    to.query = at::empty_like(rows.query);
    sums.dkeys = at::zeros_like(p.keys, p.type);
    if (wants_kv_b) {
      to.kv_b = at::zeros_like(kv_b, p.type);
      const auto parts = to.kv_b.view({shape.heads, shape.plain + shape.value, shape.latent})
                             .split_with_sizes({shape.plain, shape.value}, 1);
      sums.up_key = parts[0], sums.up_value = parts[1];
    }
  }
  for_blocks(p, segments, block_rows, [&](QueryBlock block, int64_t begin, int64_t count, int64_t) {
    block.see(block.selects() ? forward.selected.narrow(0, begin, count) : at::Tensor());
    block.attend();
    if (wants_index) block.diverge(&sums);
    if (dout.defined()) to.query.narrow(0, begin, count).copy_(block.attend_back(dout.narrow(0, begin, count), sums));
  });
  if (dout.defined()) {
    const auto type = rows.latent.scalar_type();
    to.latent = sums.dkeys.narrow(1, 0, shape.latent).to(type).contiguous();
    to.shared_key = sums.dkeys.narrow(1, shape.latent, shape.rotated).to(type).contiguous();
  }
  if (wants_index) {
    to.index_query = sums.index_query.flatten(1);
    to.index_key = sums.index_key;
    to.index_weight = sums.index_weight;
  }
  return to;
}

}  // namespace lf::nn
