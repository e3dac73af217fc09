#include "nn/cpu/ops.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "nn/cpu/kernels.h"
#include "nn/cpu/threads.h"

namespace lf::nn::cpu {
namespace {

// Enough work for a thread to be worth waking: elements of a pointwise loop.
constexpr int64_t kGrainElements = 16384;

int64_t row_grain(int64_t columns) { return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(columns, 1)); }

// body(float{}) or body(Bf16{}).
template <typename Body>
auto by_type(const at::Tensor& t, Body body) {
  return t.scalar_type() == at::kFloat ? body(float{}) : body(Bf16{});
}

template <typename T>
const T* in(const at::Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.const_data_ptr()) : nullptr;
}
template <typename T>
T* out(const at::Tensor& t) {
  return t.defined() ? static_cast<T*>(t.mutable_data_ptr()) : nullptr;
}

// Sums over rows are made in this many parts, whatever the number of threads, so that their order never changes.
constexpr int64_t kSumParts = 16;

struct Parts {
  int64_t rows, count;
  int64_t begin(int64_t part) const { return rows * part / count; }
};
Parts parts_of(int64_t rows) { return {rows, std::clamp<int64_t>(rows / 32, 1, kSumParts)}; }

void add_sum(const Parameter& parameter, const at::Tensor& partial) {
  if (parameter.trained()) parameter.add_gradient(partial.size(0) == 1 ? partial[0] : partial.sum(0));
}

}  // namespace

bool fits(const at::Tensor& x) {
  return x.is_cpu() && x.is_contiguous() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

at::Tensor normalize(const at::Tensor& x, const Norm& norm, NormStatistics* statistics, const at::Tensor& into) {
  const int64_t rows = x.size(0), columns = x.size(1);
  const at::Tensor y = into.defined() ? into : at::empty_like(x);
  const auto wide = x.options().dtype(at::kFloat);
  statistics->inverse_deviation = at::empty({rows, 1}, wide);
  if (norm.kind == NormKind::kLayer) statistics->mean = at::empty({rows, 1}, wide);
  by_type(x, [&]<typename T>(T) {
    const NormForward<T> work{in<T>(x),  in<T>(norm.weight.value),     in<T>(norm.bias.value),
                              out<T>(y), out<float>(statistics->mean), out<float>(statistics->inverse_deviation),
                              columns,   static_cast<float>(norm.eps), static_cast<float>(norm.offset)};
    for_ranges(rows, row_grain(columns), [&](int64_t begin, int64_t end) {
      kernels_of<T>().norm_forward(work, {begin, end});
    });
  });
  return y;
}

at::Tensor normalize_backward(const at::Tensor& dy_given, const at::Tensor& x, const NormStatistics& statistics,
                              const Norm& norm, bool wants_input_gradient, const at::Tensor& into) {
  const at::Tensor dy = dy_given.contiguous();
  const int64_t rows = x.size(0), columns = x.size(1);
  const at::Tensor dx = !wants_input_gradient ? at::Tensor() : into.defined() ? into : at::empty_like(x);
  const Parts parts = parts_of(rows);
  const auto sums = [&](const Parameter& p) {
    return p.trained() ? at::zeros({parts.count, columns}, x.options().dtype(at::kFloat)) : at::Tensor();
  };
  const at::Tensor dweight = sums(norm.weight), dbias = sums(norm.bias);
  by_type(x, [&]<typename T>(T) {
    const NormBackward<T> work{in<T>(dy),
                               in<T>(x),
                               in<T>(norm.weight.value),
                               in<float>(statistics.mean),
                               in<float>(statistics.inverse_deviation),
                               out<T>(dx),
                               columns,
                               static_cast<float>(norm.offset)};
    const auto row_of = [columns](float* sums, int64_t part) {
      return sums == nullptr ? nullptr : sums + part * columns;
    };
    for_tasks(parts.count, [&](int64_t part, int64_t) {
      kernels_of<T>().norm_backward(work, {parts.begin(part), parts.begin(part + 1)}, row_of(out<float>(dweight), part),
                                    row_of(out<float>(dbias), part));
    });
  });
  if (dweight.defined()) add_sum(norm.weight, dweight);
  if (dbias.defined()) add_sum(norm.bias, dbias);
  return dx;
}

at::Tensor gate_backward(const at::Tensor& dout_given, const at::Tensor& y, const at::Tensor& gate_given,
                         const at::Tensor& dy) {
  const at::Tensor dout = dout_given.contiguous(), gate = gate_given.contiguous();
  const int64_t columns = y.size(1);
  const Parts parts = parts_of(y.size(0));
  const at::Tensor sums = at::zeros({parts.count, columns}, y.options().dtype(at::kFloat));
  by_type(y, [&]<typename T>(T) {
    const GateBackward<T> work{in<T>(dout), in<T>(y), in<T>(gate), out<T>(dy), columns};
    for_tasks(parts.count, [&](int64_t part, int64_t) {
      kernels_of<T>().gate_backward(work, {parts.begin(part), parts.begin(part + 1)},
                                    out<float>(sums) + part * columns);
    });
  });
  return sums.sum(0);
}

at::Tensor activate(const at::Tensor& h, Activation activation, const at::Tensor& into) {
  const bool gated = is_gated(activation);
  const int64_t rows = h.size(0), width = h.size(1) / (gated ? 2 : 1);
  const at::Tensor y = into.defined() ? into : at::empty({rows, width}, h.options());
  by_type(h, [&]<typename T>(T) {
    if (gated) {
      const auto& k = kernels_of<T>();
      const auto loop = activation == Activation::kGatedSilu ? k.gated_silu : k.gated_gelu_tanh;
      for_ranges(rows, row_grain(width), [&](int64_t begin, int64_t end) {
        loop(in<T>(h), out<T>(y), width, {begin, end});
      });
    } else {
      const auto& k = kernels_of<T>();
      const auto loop = activation == Activation::kGeluTanh ? k.gelu_tanh : k.quick_gelu;
      const PlainRows<T> work{in<T>(h), nullptr, nullptr, out<T>(y), width, 0, y.stride(0)};
      for_ranges(rows, row_grain(width), [&](int64_t begin, int64_t end) { loop(work, {begin, end}); });
    }
  });
  return y;
}

ActivationBackward activate_backward(const at::Tensor& dy_given, const at::Tensor& h, Activation activation,
                                     const at::Tensor& into) {
  const bool gated = is_gated(activation);
  const at::Tensor dy = gated || dy_given.stride(1) != 1 ? dy_given.contiguous() : dy_given;
  const int64_t rows = h.size(0), width = dy.size(1);
  const ActivationBackward back{at::empty_like(h), into.defined() ? into : at::empty({rows, width}, h.options())};
  by_type(h, [&]<typename T>(T) {
    if (gated) {
      const auto& k = kernels_of<T>();
      const auto loop = activation == Activation::kGatedSilu ? k.gated_silu_backward : k.gated_gelu_tanh_backward;
      for_ranges(rows, row_grain(width), [&](int64_t begin, int64_t end) {
        loop(in<T>(dy), in<T>(h), out<T>(back.dh), out<T>(back.value), width, {begin, end});
      });
    } else {
      const auto& k = kernels_of<T>();
      const auto loop = activation == Activation::kGeluTanh ? k.gelu_tanh_backward : k.quick_gelu_backward;
      const PlainRows<T> work{in<T>(h), in<T>(dy),    out<T>(back.dh),     out<T>(back.value),
                              width,    dy.stride(0), back.value.stride(0)};
      for_ranges(rows, row_grain(width), [&](int64_t begin, int64_t end) { loop(work, {begin, end}); });
    }
  });
  return back;
}

namespace {

// Heads of kind `kind` (queries, keys, values) of a stream: their columns of the stream's rows and of the joint ones.
template <typename T>
HeadsProblem<T> heads_problem(const Stream& stream, size_t kind, const HeadsShape& shape, const PairRotary& rotary,
                              const at::Tensor& weight) {
  const auto column = static_cast<int64_t>(kind) * shape.width();
  HeadsProblem<T> problem{};
  problem.x = in<T>(stream.x) + column;
  problem.x_stride = stream.x.size(1);
  problem.to = in<int64_t>(stream.to);
  problem.weight = in<float>(weight);
  if (stream.rotated[kind]) {
    problem.cosine = in<float>(rotary.cosine);
    problem.sine = in<float>(rotary.sine);
  }
  problem.heads = shape.heads;
  problem.head_size = shape.head_size;
  problem.norm_heads = shape.norm_across ? shape.heads : 1;
  problem.eps = static_cast<float>(stream.norms[kind].eps);
  return problem;
}

// f32, for every head of a row.
at::Tensor spread(const Norm& norm, const HeadsShape& shape) {
  if (!norm.weight.defined()) return {};
  const at::Tensor weight = norm.weight.value.to(at::kFloat);
  return shape.norm_across ? weight.contiguous() : weight.repeat({shape.heads});
}

}  // namespace

void join_heads(const Stream& stream, const HeadsShape& shape, const PairRotary& rotary, const at::Tensor& joint) {
  const int64_t rows = stream.x.size(0);
  for (size_t kind = 0; kind < stream.norms.size(); ++kind) {
    const at::Tensor weight = spread(stream.norms[kind], shape);
    by_type(stream.x, [&]<typename T>(T) {
      auto problem = heads_problem<T>(stream, kind, shape, rotary, weight);
      problem.y = out<T>(joint) + static_cast<int64_t>(kind) * shape.width();
      problem.y_stride = joint.size(1);
      for_ranges(rows, row_grain(shape.width()), [&](int64_t begin, int64_t end) {
        kernels_of<T>().heads_forward(problem, {begin, end});
      });
    });
  }
}

at::Tensor join_heads_backward(const at::Tensor& djoint, const Stream& stream, const HeadsShape& shape,
                               const PairRotary& rotary) {
  const at::Tensor dx = at::empty_like(stream.x);
  const Parts parts = parts_of(stream.x.size(0));
  for (size_t kind = 0; kind < stream.norms.size(); ++kind) {
    const Norm& norm = stream.norms[kind];
    const at::Tensor weight = spread(norm, shape);
    const at::Tensor sums =
        norm.trained() ? at::zeros({parts.count, shape.width()}, stream.x.options().dtype(at::kFloat)) : at::Tensor();
    by_type(stream.x, [&]<typename T>(T) {
      const auto column = static_cast<int64_t>(kind) * shape.width();
      auto problem = heads_problem<T>(stream, kind, shape, rotary, weight);
      problem.dy = in<T>(djoint) + column;
      problem.y_stride = djoint.size(1);
      problem.dx = out<T>(dx) + column;
      for_tasks(parts.count, [&](int64_t part, int64_t) {
        float* of_part = sums.defined() ? out<float>(sums) + part * shape.width() : nullptr;
        kernels_of<T>().heads_backward(problem, {parts.begin(part), parts.begin(part + 1)}, of_part);
      });
    });
    if (sums.defined()) {
      const at::Tensor sum = sums.sum(0);
      norm.weight.add_gradient(shape.norm_across ? sum : sum.view({shape.heads, shape.head_size}).sum(0));
    }
  }
  return dx;
}

namespace {

// Long tasks first, so that no thread is left with one at the end.
std::vector<AttentionTask> attention_tasks(const AttentionShape& shape, const Segments& queries, const Segments& keys) {
  std::vector<AttentionTask> tasks;
  for (size_t s = 0; s < keys.count(); ++s)
    if (keys.starts[s] < keys.starts[s + 1])
      for (int64_t head = 0; head < shape.kv_heads; ++head)
        tasks.push_back({{queries.starts[s], queries.starts[s + 1]}, {keys.starts[s], keys.starts[s + 1]}, head});
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const auto& a, const auto& b) { return a.keys.end - a.keys.begin > b.keys.end - b.keys.begin; });
  return tasks;
}

template <typename T>
AttentionProblem<T> attention_problem(const AttentionRows& rows, const AttentionForward& forward,
                                      const AttentionShape& shape, const at::Tensor& query_weight,
                                      const at::Tensor& key_weight, double eps, const AttentionSide& queries,
                                      const AttentionSide& keys) {
  AttentionProblem<T> problem{};
  problem.query = in<T>(rows.query);
  problem.key = in<T>(rows.key);
  problem.value = in<T>(rows.value);
  problem.query_stride = rows.query.stride(0);
  problem.key_stride = rows.key.stride(0);
  problem.value_stride = rows.value.stride(0);
  problem.group_stride = shape.layout == QkvLayout::kByGroup ? (shape.heads / shape.kv_heads + 2) * shape.head_size : 0;
  problem.query_rotary = {in<float>(queries.rotary.cosine), in<float>(queries.rotary.sine)};
  problem.key_rotary = {in<float>(keys.rotary.cosine), in<float>(keys.rotary.sine)};
  problem.query_weight = in<float>(query_weight);
  problem.key_weight = in<float>(key_weight);
  problem.eps = static_cast<float>(eps);
  problem.scale = static_cast<float>(shape.score_scale());
  problem.rows = rows.query.size(0);
  problem.heads = shape.heads;
  problem.kv_heads = shape.kv_heads;
  problem.head_size = shape.head_size;
  problem.value_size = shape.value_width();
  problem.causal = shape.causal;
  problem.out = out<T>(forward.out);
  problem.log_sum = out<float>(forward.log_sum);
  return problem;
}

at::Tensor widened(const Parameter& weight) {
  return weight.defined() ? weight.value.to(at::kFloat).contiguous() : at::Tensor();
}

// One scratch per thread, big enough for the longest task.
class Scratch {
 public:
  Scratch(const std::vector<AttentionTask>& tasks, const AttentionShape& shape, bool backward) {
    const int64_t longest = tasks.empty() ? 0 : tasks.front().keys.end - tasks.front().keys.begin;
    floats_ = kernels().attention_scratch(shape.head_size, shape.value_width(), longest, backward);
    memory_ = at::empty({std::min<int64_t>(thread_count(), static_cast<int64_t>(tasks.size())), floats_}, at::kFloat);
  }
  float* of(int64_t thread) const { return memory_.mutable_data_ptr<float>() + thread * floats_; }

 private:
  int64_t floats_;
  at::Tensor memory_;
};

}  // namespace

AttentionForward attention(const AttentionRows& rows, const AttentionShape& shape, const HeadNorms& norms,
                           const AttentionSide& queries, const AttentionSide& keys) {
  const int64_t n = rows.query.size(0);
  const AttentionForward forward{at::empty({n, shape.heads * shape.value_width()}, rows.query.options()),
                                 at::empty({shape.heads, n}, rows.query.options().dtype(at::kFloat))};
  const std::vector<AttentionTask> tasks = attention_tasks(shape, queries.segments, keys.segments);
  const at::Tensor query_weight = widened(norms.query.weight), key_weight = widened(norms.key.weight);
  const Scratch scratch(tasks, shape, false);
  by_type(rows.query, [&]<typename T>(T) {
    const auto problem =
        attention_problem<T>(rows, forward, shape, query_weight, key_weight, norms.query.eps, queries, keys);
    for_tasks(static_cast<int64_t>(tasks.size()), [&](int64_t task, int64_t thread) {
      kernels_of<T>().attention_forward(problem, tasks[static_cast<size_t>(task)], scratch.of(thread));
    });
  });
  return forward;
}

void attention_backward(const at::Tensor& dout_given, const AttentionRows& rows, const AttentionForward& forward,
                        const AttentionShape& shape, const HeadNorms& norms, const AttentionSide& queries,
                        const AttentionSide& keys, const AttentionRows& gradients) {
  const at::Tensor dout = dout_given.contiguous();
  const std::vector<AttentionTask> tasks = attention_tasks(shape, queries.segments, keys.segments);
  const at::Tensor query_weight = widened(norms.query.weight), key_weight = widened(norms.key.weight);
  const Scratch scratch(tasks, shape, true);
  const int64_t n_tasks = static_cast<int64_t>(tasks.size());
  const at::Tensor norm_gradients =
      norms.present() ? at::empty({n_tasks, 2, shape.head_size}, dout.options().dtype(at::kFloat)) : at::Tensor();
  by_type(rows.query, [&]<typename T>(T) {
    auto problem = attention_problem<T>(rows, forward, shape, query_weight, key_weight, norms.query.eps, queries, keys);
    problem.dout = in<T>(dout);
    problem.dquery = out<T>(gradients.query);
    problem.dkey = out<T>(gradients.key);
    problem.dvalue = out<T>(gradients.value);
    float* sums = out<float>(norm_gradients);
    for_tasks(n_tasks, [&](int64_t task, int64_t thread) {
      kernels_of<T>().attention_backward(problem, tasks[static_cast<size_t>(task)], scratch.of(thread),
                                         sums == nullptr ? nullptr : sums + task * 2 * shape.head_size);
    });
  });
  if (norm_gradients.defined()) {
    const at::Tensor sums = norm_gradients.sum(0);
    norms.query.weight.add_gradient(sums[0]);
    norms.key.weight.add_gradient(sums[1]);
  }
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights, double scale,
                         const at::Tensor& rounded) {
  const at::Tensor losses = at::empty({logits.size(0)}, logits.options());
  for_ranges(logits.size(0), row_grain(logits.size(1)), [&](int64_t begin, int64_t end) {
    kernels().cross_entropy(out<float>(logits), in<int64_t>(targets), in<float>(weights), logits.size(1),
                            static_cast<float>(scale), out<float>(losses), out<Bf16>(rounded), {begin, end});
  });
  return losses;
}

void add_rows(const at::Tensor& table, const at::Tensor& given_ids, const at::Tensor& rows) {
  const at::Tensor ids = given_ids.contiguous();
  const int64_t n = ids.size(0), columns = table.size(1);
  by_type(rows, [&]<typename T>(T) {
    // Threads share out the columns: every row of the table then gets its addends in one order.
    for_ranges(columns, std::max<int64_t>(64, kGrainElements / std::max<int64_t>(n, 1)),
               [&](int64_t begin, int64_t end) {
                 kernels_of<T>().add_rows(out<float>(table), in<int64_t>(ids), in<T>(rows), n, columns, {begin, end});
               });
  });
}

}  // namespace lf::nn::cpu
