#include "nn/cpu/sparse_ops.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <numeric>

#include <ATen/ATen.h>

#include "nn/cpu/kernels.h"
#include "nn/cpu/row_gaps.h"
#include "nn/cpu/threads.h"

namespace lf::nn::cpu {
namespace {

constexpr int64_t kPad = 16;         // floats that rows are padded to: of the widest vectors
constexpr int64_t kPartRows = 512;   // queries of a task
constexpr int64_t kBlockRows = 128;  // queries whose latents are made at a time
constexpr int64_t kTileRows = 64;    // rows (queries x index heads) scored at a time

int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }

// f32 [N, columns] with zeros up to a multiple of kPad.
at::Tensor padded_rows(const at::Tensor& rows) {
  const int64_t columns = rows.size(-1), to = padded(columns);
  const at::Tensor wide = rows.to(at::kFloat);
  return columns == to ? wide.contiguous() : at::constant_pad_nd(wide, {0, to - columns});
}

const float* in(const at::Tensor& t) { return t.const_data_ptr<float>(); }
float* out(const at::Tensor& t) { return t.mutable_data_ptr<float>(); }

// Queries [begin, end) of a segment that begins at row `first`.
struct Part {
  int64_t segment, first, begin, end;
  int64_t queries() const { return end - begin; }
};

std::vector<Part> parts_of(const Segments& segments) {
  std::vector<Part> parts;
  for (size_t s = 0; s < segments.count(); ++s) {
    const int64_t first = segments.starts[s], last = segments.starts[s + 1];
    for (int64_t begin = first; begin < last; begin += kPartRows)
      parts.push_back({static_cast<int64_t>(s), first, begin, std::min(begin + kPartRows, last)});
  }
  return parts;
}

// Lets tasks, taken in order, hand in their sums in order: whoever waits, waits for one that is running.
class Turns {
 public:
  template <typename Body>
  void take(int64_t task, Body body) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return next_ == task; });
    body();
    ++next_;
    changed_.notify_all();
  }
  // After a failure nobody must wait for ever.
  void pass(int64_t task) {
    take(task, [] {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t next_ = 0;
};

// What all parts read.
struct Problem {
  SparseShape shape;
  LatentShape latent;
  at::Tensor keys;                                  // f32 [N, key_stride]
  at::Tensor up_key, up_value;                      // f32 [H, P, L], [H, W, L]
  at::Tensor query;                                 // [N, H, P + R] in its dtype
  at::Tensor index_query, index_key, index_weight;  // f32 [N, H_I, index_stride], [N, index_stride], [N, H_I] scaled
};

Problem problem_of(const SparseInputs& rows, const at::Tensor& kv_b, const LatentShape& l, const IndexShape* index) {
  Problem p;
  p.latent = l;
  const int64_t n = rows.query.size(0);
  p.shape = {l.heads, l.latent, l.latent + l.rotated, padded(l.latent + l.rotated), padded(l.latent), 0, 0, 0};
  p.keys = padded_rows(at::cat({rows.latent.detach(), rows.shared_key.detach()}, 1));
  const at::Tensor up = kv_b.detach().to(at::kFloat).view({l.heads, l.plain + l.value, l.latent});
  p.up_key = up.narrow(1, 0, l.plain).contiguous();
  p.up_value = up.narrow(1, l.plain, l.value).contiguous();
  p.query = rows.query.detach().view({n, l.heads, l.head_size()});
  if (index == nullptr) return p;
  p.shape.index_heads = index->heads;
  p.shape.index_size = index->size;
  p.shape.index_stride = padded(index->size);
  p.index_query = padded_rows(rows.index_query.detach().reshape({n, index->heads, index->size}));
  p.index_key = padded_rows(rows.index_key.detach());
  p.index_weight =
      (rows.index_weight.detach().to(at::kFloat) / std::sqrt(static_cast<double>(index->size))).contiguous();
  return p;
}

// Queries of some rows against latents: f32 [B, H, key_stride], scaled.
at::Tensor latent_queries(const Problem& p, int64_t begin, int64_t count) {
  const LatentShape& l = p.latent;
  const auto parts = p.query.narrow(0, begin, count).to(at::kFloat).split_with_sizes({l.plain, l.rotated}, 2);
  at::Tensor made = at::zeros({count, l.heads, p.shape.key_stride}, at::kFloat);
  made.narrow(2, 0, l.latent).copy_(at::bmm(parts[0].transpose(0, 1), p.up_key).transpose(0, 1));
  made.narrow(2, l.latent, l.rotated).copy_(parts[1]);
  return made.mul_(l.scale);
}

// Results among the latents [B, H, out_stride] -> [B, H W].
at::Tensor values_of(const Problem& p, const at::Tensor& latents) {
  const at::Tensor heads = latents.narrow(2, 0, p.latent.latent).transpose(0, 1);
  return at::bmm(heads, p.up_value.transpose(1, 2)).transpose(0, 1).flatten(1);
}

// Picked rows of one query.
struct Picked {
  const int32_t* rows;
  int64_t count;
};

int64_t longest_of(const Segments& segments) {
  int64_t longest = 0;
  for (size_t s = 0; s < segments.count(); ++s)
    longest = std::max(longest, segments.starts[s + 1] - segments.starts[s]);
  return longest;
}

std::vector<int32_t> counting(const Segments& segments) {
  std::vector<int32_t> rows(static_cast<size_t>(longest_of(segments)));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// f32, as the padded inputs: where the gradients of the divergence of some rows of a segment go.
struct IndexSums {
  at::Tensor query, weight;  // [N, H_I, index_stride], [N, H_I], set
  at::Tensor key;            // [rows of the segment, index_stride], added to

  IndexGradients of(const SparseShape& s, int64_t row) const {
    if (!key.defined()) return {};
    return {out(query) + row * s.index_heads * s.index_stride, out(weight) + row * s.index_heads, out(key)};
  }
};

// The whole of the forward for one part.
class ForwardPart {
 public:
  ForwardPart(const Problem& problem, const SparseForward& to, const IndexShape& index, const at::Tensor& panels,
              const std::vector<int32_t>& all, bool divergence, const Part& part)
      : p_(problem),
        to_(to),
        index_(index),
        panels_(panels),
        all_(all),
        divergence_(divergence),
        part_(part),
        longest_(part.end - part.first),
        most_(index.top_k > 0 ? std::min(index.top_k, longest_) : longest_) {
    if (to.dindex_key.defined())
      sums_ = {to.dindex_query, to.dindex_weight, at::zeros({longest_, p_.shape.index_stride}, at::kFloat)};
  }

  void run() {
    const Kernels& k = kernels();
    const int64_t tile = std::clamp<int64_t>(kTileRows / p_.shape.index_heads, 1, 16);
    scores_ = at::empty({tile, (longest_ + 63) / 64 * 64}, at::kFloat);
    products_ = at::empty({k.index_score_scratch(p_.shape.index_heads, tile)}, at::kFloat);
    kept_ = at::empty({most_}, at::kFloat);
    target_ = at::empty({most_}, at::kFloat);
    sort_keys_.resize(static_cast<size_t>(longest_));
    picked_.resize(static_cast<size_t>(most_));
    scratch_ = at::empty({k.sparse_scratch(p_.shape, most_)}, at::kFloat);
    for (int64_t begin = part_.begin; begin < part_.end; begin += kBlockRows) {
      const int64_t count = std::min(kBlockRows, part_.end - begin);
      const at::Tensor queries = latent_queries(p_, begin, count);
      latents_ = at::empty({count, p_.shape.heads, p_.shape.out_stride}, at::kFloat);
      for (int64_t row = begin; row < begin + count; row += tile)
        score(queries, begin, row, std::min(tile, begin + count - row));
      at::Tensor result = to_.out.narrow(0, begin, count);
      result.copy_(values_of(p_, latents_));
    }
  }
  // What the part adds to sums over parts, in turn.
  void hand_in() const {
    if (sums_.key.defined()) at::Tensor(to_.dindex_key.narrow(0, part_.first, longest_)).add_(sums_.key);
    if (divergence_) out(to_.divergence)[part_.segment] += static_cast<float>(sum_);
  }

 private:
  void score(const at::Tensor& queries, int64_t block, int64_t row, int64_t count) {
    const Kernels& k = kernels();
    const bool selects = index_.top_k > 0;
    const int64_t last = row + count - part_.first, stride = scores_.size(1);
    if (selects || divergence_)
      k.index_scores(p_.shape, in(panels_), last,
                     in(p_.index_query) + row * p_.shape.index_heads * p_.shape.index_stride,
                     in(p_.index_weight) + row * p_.shape.index_heads, count, out(scores_), stride, out(products_));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = row + i, position = at - part_.first;
      const float* scores = in(scores_) + i * stride;
      Picked picked{all_.data(), position + 1};
      const float* kept = scores;
      if (selects) {
        picked = {picked_.data(),
                  k.select_top(scores, position + 1, index_.top_k, picked_.data(), out(kept_), sort_keys_.data())};
        kept = in(kept_);
        write_gaps(picked.rows, picked.count, to_.selected.mutable_data_ptr<uint8_t>() + at * to_.selected.size(1));
      }
      attend(queries, block, at, picked, kept);
    }
  }
  void attend(const at::Tensor& queries, int64_t block, int64_t row, Picked picked, const float* kept) {
    const Kernels& k = kernels();
    const SparseShape& s = p_.shape;
    const int64_t in_block = row - block;
    k.sparse_forward(s, in(p_.keys) + part_.first * s.key_stride, picked.rows, picked.count,
                     in(queries) + in_block * s.heads * s.key_stride, out(latents_) + in_block * s.heads * s.out_stride,
                     out(to_.log_sum) + row * s.heads, divergence_ ? out(target_) : nullptr, out(scratch_));
    if (!divergence_) return;
    sum_ += k.index_divergence(s, in(p_.index_key) + part_.first * s.index_stride, picked.rows, picked.count, kept,
                               in(target_), in(p_.index_query) + row * s.index_heads * s.index_stride,
                               in(p_.index_weight) + row * s.index_heads, sums_.of(s, row), out(scratch_));
  }

  const Problem& p_;
  const SparseForward& to_;
  const IndexShape& index_;
  const at::Tensor& panels_;
  const std::vector<int32_t>& all_;
  const bool divergence_;
  const Part part_;
  const int64_t longest_, most_;  // rows of the segment up to the part's end; rows that a query picks
  at::Tensor scores_, products_, kept_, target_, scratch_, latents_;
  IndexSums sums_;
  std::vector<uint32_t> sort_keys_;
  std::vector<int32_t> picked_;
  double sum_ = 0;
};

// Index panels of every segment.
std::vector<at::Tensor> panels_of(const Problem& p, const Segments& segments) {
  std::vector<at::Tensor> panels(segments.count());
  for_tasks(static_cast<int64_t>(segments.count()), [&](int64_t s, int64_t) {
    const auto at = static_cast<size_t>(s);
    const int64_t first = segments.starts[at], rows = segments.starts[at + 1] - first;
    panels[at] = at::empty({kernels().index_panel_floats(p.shape.index_size, rows)}, at::kFloat);
    if (rows > 0)
      kernels().index_panels(in(p.index_key) + first * p.shape.index_stride, p.shape.index_stride, p.shape.index_size,
                             rows, out(panels[at]));
  });
  return panels;
}

// What a backward is asked for, and where it goes.
struct BackwardRequest {
  const SparseForward& forward;
  int64_t top_k;
  at::Tensor dout;          // undefined: only the divergence's gradients
  at::Tensor dquery;        // [N, H, P + R]; may be the query itself
  at::Tensor dkeys, dkv_b;  // f32 [N, key_stride], [H, P + W, L]; dkv_b undefined where not wanted
  at::Tensor dindex_query, dindex_weight, dindex_key;  // undefined where not wanted
};

// Backward of one part.
class BackwardPart {
 public:
  BackwardPart(const Problem& problem, const BackwardRequest& request, const std::vector<int32_t>& all,
               const Part& part)
      : p_(problem), to_(request), all_(all), part_(part), longest_(part.end - part.first) {
    if (to_.dout.defined()) dkeys_ = at::zeros({longest_, p_.shape.key_stride}, at::kFloat);
    if (to_.dkv_b.defined()) {
      dup_key_ = at::zeros_like(p_.up_key);
      dup_value_ = at::zeros_like(p_.up_value);
    }
    if (to_.dindex_key.defined())
      sums_ = {to_.dindex_query, to_.dindex_weight, at::zeros({longest_, p_.shape.index_stride}, at::kFloat)};
  }

  void run() {
    const int64_t most = to_.top_k > 0 ? std::min(to_.top_k, longest_) : longest_;
    scratch_ = at::empty({kernels().sparse_scratch(p_.shape, most)}, at::kFloat);
    target_ = at::empty({most}, at::kFloat);
    picked_.resize(static_cast<size_t>(most));
    for (int64_t begin = part_.begin; begin < part_.end; begin += kBlockRows)
      block(begin, std::min(kBlockRows, part_.end - begin));
  }
  void hand_in() const {
    const auto rows = [&](const at::Tensor& t) { return at::Tensor(t.narrow(0, part_.first, longest_)); };
    if (dkeys_.defined()) rows(to_.dkeys).add_(dkeys_);
    if (sums_.key.defined()) rows(to_.dindex_key).add_(sums_.key);
    if (!dup_key_.defined()) return;
    at::Tensor(to_.dkv_b.narrow(1, 0, p_.latent.plain)).add_(dup_key_);
    at::Tensor(to_.dkv_b.narrow(1, p_.latent.plain, p_.latent.value)).add_(dup_value_);
  }

 private:
  // Rows before the query's own that attention saw.
  Picked picked(int64_t row) {
    const int64_t position = row - part_.first;
    if (to_.top_k <= 0) return {all_.data(), position + 1};
    const at::Tensor& selected = to_.forward.selected;
    const int64_t count = std::min(position + 1, to_.top_k);
    read_gaps(selected.const_data_ptr<uint8_t>() + row * selected.size(1), count, picked_.data());
    return {picked_.data(), count};
  }

  void block(int64_t begin, int64_t count) {
    const SparseShape& s = p_.shape;
    const LatentShape& l = p_.latent;
    const at::Tensor queries = latent_queries(p_, begin, count);
    at::Tensor dvalues, dlatents, latents, dqueries;
    if (to_.dout.defined()) {
      dvalues = to_.dout.narrow(0, begin, count).to(at::kFloat).view({count, l.heads, l.value}).transpose(0, 1);
      dlatents = at::zeros({count, l.heads, s.out_stride}, at::kFloat);
      dlatents.narrow(2, 0, l.latent).copy_(at::bmm(dvalues, p_.up_value).transpose(0, 1));
      latents = at::empty_like(dlatents);
      dqueries = at::empty_like(queries);
    }
    const auto row_of = [](const at::Tensor& t, int64_t i) { return t.defined() ? out(t) + i * t.stride(0) : nullptr; };
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = begin + i;
      const Picked rows = picked(row);
      kernels().sparse_backward(s, in(p_.keys) + part_.first * s.key_stride, rows.rows, rows.count, row_of(queries, i),
                                in(to_.forward.log_sum) + row * s.heads, row_of(dlatents, i), row_of(latents, i),
                                row_of(dqueries, i), row_of(dkeys_, 0), sums_.key.defined() ? out(target_) : nullptr,
                                out(scratch_));
      if (sums_.key.defined())
        kernels().index_divergence(s, in(p_.index_key) + part_.first * s.index_stride, rows.rows, rows.count, nullptr,
                                   in(target_), in(p_.index_query) + row * s.index_heads * s.index_stride,
                                   in(p_.index_weight) + row * s.index_heads, sums_.of(s, row), out(scratch_));
    }
    if (!to_.dout.defined()) return;
    const at::Tensor dmade = dqueries.narrow(2, 0, l.latent).transpose(0, 1).mul(l.scale);  // [H, B, L]
    // Before the gradient is written, perhaps over these very queries.
    if (dup_key_.defined()) {
      const at::Tensor plain = p_.query.narrow(0, begin, count).narrow(2, 0, l.plain).to(at::kFloat).permute({1, 2, 0});
      dup_key_.baddbmm_(plain, dmade);
      dup_value_.baddbmm_(dvalues.transpose(1, 2), latents.narrow(2, 0, l.latent).transpose(0, 1));
    }
    at::Tensor to = to_.dquery.narrow(0, begin, count);
    to.narrow(2, 0, l.plain).copy_(at::bmm(dmade, p_.up_key.transpose(1, 2)).transpose(0, 1));
    to.narrow(2, l.plain, l.rotated).copy_(dqueries.narrow(2, l.latent, l.rotated) * l.scale);
  }

  const Problem& p_;
  const BackwardRequest& to_;
  const std::vector<int32_t>& all_;
  const Part part_;
  const int64_t longest_;  // rows of the segment up to the part's end
  at::Tensor dkeys_, dup_key_, dup_value_, scratch_, target_;
  IndexSums sums_;
  std::vector<int32_t> picked_;
};

// make(part) -> object with run(); hand_in(object) in the order of the parts.
template <typename Make, typename HandIn>
void for_parts(const std::vector<Part>& parts, Make make, HandIn hand_in) {
  Turns turns;
  for_tasks(static_cast<int64_t>(parts.size()), [&](int64_t task, int64_t) {
    try {
      auto made = make(parts[static_cast<size_t>(task)]);
      made.run();
      turns.take(task, [&] { hand_in(made); });
    } catch (...) {
      turns.pass(task);
      throw;
    }
  });
}

}  // namespace

SparseForward sparse_attention(const SparseInputs& rows, const at::Tensor& kv_b, const LatentShape& shape,
                               const IndexShape& index, const Segments& segments, bool divergence, bool gradients) {
  const Problem p = problem_of(rows, kv_b, shape, &index);
  const int64_t n = rows.query.size(0);
  SparseForward to;
  to.out = at::empty({n, shape.heads * shape.value}, rows.query.options().requires_grad(false));
  to.log_sum = at::empty({n, shape.heads}, at::kFloat);
  const int64_t longest = longest_of(segments);
  if (index.top_k > 0) to.selected = at::empty({n, gap_bytes(std::min(index.top_k, longest), longest)}, at::kByte);
  if (divergence) to.divergence = at::zeros({static_cast<int64_t>(segments.count())}, at::kFloat);
  if (divergence && gradients) {
    to.dindex_query = at::empty_like(p.index_query);
    to.dindex_weight = at::empty_like(p.index_weight);
    to.dindex_key = at::zeros_like(p.index_key);
  }
  const std::vector<at::Tensor> panels = panels_of(p, segments);
  const std::vector<int32_t> all = counting(segments);
  for_parts(
      parts_of(segments),
      [&](const Part& part) {
        return ForwardPart(p, to, index, panels[static_cast<size_t>(part.segment)], all, divergence, part);
      },
      [](const ForwardPart& part) { part.hand_in(); });
  if (to.dindex_key.defined()) {
    to.dindex_query = to.dindex_query.narrow(2, 0, index.size).reshape({n, index.heads * index.size});
    to.dindex_key = to.dindex_key.narrow(1, 0, index.size).contiguous();
    to.dindex_weight.div_(std::sqrt(static_cast<double>(index.size)));
  }
  return to;
}

SparseGradients sparse_attention_backward(const at::Tensor& dout, const SparseInputs& rows, const at::Tensor& kv_b,
                                          const SparseForward& forward, const LatentShape& shape,
                                          const IndexShape& index, const Segments& segments, bool wants_kv_b,
                                          bool wants_index) {
  const Problem p = problem_of(rows, kv_b, shape, wants_index ? &index : nullptr);
  BackwardRequest request{forward, index.top_k, dout, {}, {}, {}, {}, {}, {}};
  if (dout.defined()) {
    request.dquery = rows.gives_query_up ? p.query : at::empty_like(p.query);
    request.dkeys = at::zeros_like(p.keys);
    if (wants_kv_b) request.dkv_b = at::zeros({shape.heads, shape.plain + shape.value, shape.latent}, at::kFloat);
  }
  if (wants_index) {
    request.dindex_query = at::empty_like(p.index_query);
    request.dindex_weight = at::empty_like(p.index_weight);
    request.dindex_key = at::zeros_like(p.index_key);
  }
  const std::vector<int32_t> all = counting(segments);
  for_parts(
      parts_of(segments), [&](const Part& part) { return BackwardPart(p, request, all, part); },
      [](const BackwardPart& part) { part.hand_in(); });
  SparseGradients to;
  if (dout.defined()) {
    to.query = request.dquery.flatten(1);
    const auto type = rows.latent.scalar_type();
    to.latent = request.dkeys.narrow(1, 0, shape.latent).to(type).contiguous();
    to.shared_key = request.dkeys.narrow(1, shape.latent, shape.rotated).to(type).contiguous();
    if (wants_kv_b) to.kv_b = request.dkv_b.view({shape.heads * (shape.plain + shape.value), shape.latent});
  }
  if (wants_index) {
    const int64_t n = rows.query.size(0);
    to.index_query = request.dindex_query.narrow(2, 0, index.size).reshape({n, index.heads * index.size});
    to.index_key = request.dindex_key.narrow(1, 0, index.size).contiguous();
    to.index_weight = request.dindex_weight.div_(std::sqrt(static_cast<double>(index.size)));
  }
  return to;
}

}  // namespace lf::nn::cpu
