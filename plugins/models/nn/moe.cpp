#include "nn/moe.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "nn/activation.h"
#include "nn/adapter.h"
#include "nn/linear.h"
#include "nn/matmul.h"

namespace lf::nn {
namespace {

// The (row, k) pairs in the order of their experts; inside an expert in row order.
struct Dispatch {
  at::Tensor pair;              // i64 [N k]: sorted position -> flat pair
  at::Tensor row;               // i64 [N k]: sorted position -> row
  at::Tensor position;          // i64 [N k]: flat pair -> sorted position
  std::vector<int64_t> starts;  // [E + 1]: slices of sorted positions
};

Dispatch dispatch(const at::Tensor& expert, int64_t n_experts) {
  const int64_t k = expert.size(1);
  const at::Tensor flat = expert.flatten();
  Dispatch result;
  result.pair = std::get<1>(flat.sort(/*stable=*/true, 0, false));
  result.row = result.pair.floor_divide(k);
  result.position = at::empty_like(result.pair).index_copy_(0, result.pair, at::arange(flat.size(0), flat.options()));
  const at::Tensor counts = flat.bincount({}, n_experts).cpu();
  result.starts.assign(1, 0);
  for (int64_t e = 0; e < n_experts; ++e)
    result.starts.push_back(result.starts.back() + counts.const_data_ptr<int64_t>()[e]);
  return result;
}

// out[slice e] = rows[slice e] @ W_e for every expert with rows, W [E, rows' width, width] with what its adapter adds.
at::Tensor per_expert(const at::Tensor& rows, const std::vector<int64_t>& starts, const Parameter& parameter) {
  const ExpertAdapter adapter(parameter, parameter.value.size(0));
  at::Tensor out = at::empty({rows.size(0), parameter.value.size(2)}, rows.options());
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const auto e = static_cast<int64_t>(s);
    const int64_t n = starts[s + 1] - starts[s];
    if (n == 0) continue;
    const at::Tensor own = rows.narrow(0, starts[s], n), to = out.narrow(0, starts[s], n);
    const at::Tensor matrix = parameter.value.select(0, e);
    if (adapter.defined())
      to.copy_(multiply(own, matrix, Second::kPlain, adapter.rows(e, own)));
    else
      multiply_into(to, own, matrix, Second::kPlain);
  }
  return out;
}

// out[slice e] = dy[slice e] @ W_eᵀ, with what flows through its adapter.
at::Tensor per_expert_back(const at::Tensor& dy, const std::vector<int64_t>& starts, const Parameter& parameter) {
  const ExpertAdapter adapter(parameter, parameter.value.size(0));
  at::Tensor out = at::empty({dy.size(0), parameter.value.size(1)}, dy.options());
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const auto e = static_cast<int64_t>(s);
    const int64_t n = starts[s + 1] - starts[s];
    if (n == 0) continue;
    const at::Tensor own = dy.narrow(0, starts[s], n), to = out.narrow(0, starts[s], n);
    const at::Tensor matrix = parameter.value.select(0, e).t();
    if (adapter.defined())
      to.copy_(multiply(own, matrix, Second::kPlain, adapter.input_gradient(e, own)));
    else
      multiply_into(to, own, matrix, Second::kPlain);
  }
  return out;
}

// gradient[e] += xᵀ dy over the slice of every expert with rows, and the adapter's.
void add_per_expert(const Parameter& parameter, const at::Tensor& x, const at::Tensor& dy,
                    const std::vector<int64_t>& starts) {
  const ExpertAdapter adapter(parameter, parameter.value.size(0));
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int64_t n = starts[s + 1] - starts[s];
    if (n == 0) continue;
    const at::Tensor a = x.narrow(0, starts[s], n), b = dy.narrow(0, starts[s], n);
    const auto e = static_cast<int64_t>(s);
    if (parameter.trained()) add_transposed_product(parameter.gradient.select(0, e), a, b);
    if (adapter.defined()) adapter.add_gradients(e, b, a);
  }
}

// Row sums over k of sorted rows, in k order: [N, C] in f32, then the rows' dtype.
at::Tensor combine(const at::Tensor& sorted, const Dispatch& order, int64_t n, int64_t k) {
  return sorted.index_select(0, order.position).view({n, k, sorted.size(1)}).sum(1);
}

}  // namespace

Routing route(const at::Tensor& x, const Parameter& router, const TopRouting& config) {
  Routing routing;
  routing.probability = wide_linear(x, router).softmax(-1);
  auto [top, index] = routing.probability.topk(config.top_k, -1);
  routing.expert = index;
  routing.weight = config.normalise ? top / top.sum(-1, true) : top;
  return routing;
}

Routing route_in_groups(const at::Tensor& x, const Parameter& router, const at::Tensor& bias,
                        const GroupRouting& config) {
  const at::Tensor score = wide_linear(x, router).sigmoid();
  const int64_t n = x.size(0), n_experts = router.value.size(0), in_group = n_experts / config.groups;
  Routing routing;
  {
    at::NoGradGuard no_grad;
    at::Tensor choice = score.detach() + bias.to(score.scalar_type());
    if (config.chosen_groups < config.groups) {
      at::Tensor grouped = choice.view({n, config.groups, in_group});
      const at::Tensor best = std::get<0>(grouped.topk(std::min<int64_t>(2, in_group), -1)).sum(-1);
      const at::Tensor chosen = std::get<1>(best.topk(config.chosen_groups, -1));
      const at::Tensor closed = at::ones_like(best, at::kBool).scatter_(1, chosen, false);
      grouped.masked_fill_(closed.unsqueeze(-1), -std::numeric_limits<double>::infinity());
    }
    routing.expert = std::get<1>(choice.topk(config.top_k, -1));
  }
  routing.weight = score.gather(1, routing.expert);
  if (config.normalise) routing.weight = routing.weight / (routing.weight.sum(-1, true) + 1e-20);
  routing.weight = routing.weight * config.scale;
  routing.probability = score / (score.sum(-1, true) + 1e-20);
  return routing;
}

at::Tensor excess_load(const Routing& routing) {
  const int64_t n_experts = routing.probability.size(1);
  return (routing.expert.flatten().bincount({}, n_experts) * n_experts - routing.expert.numel()).to(at::kFloat);
}

at::Tensor experts(const at::Tensor& x, const Routing& routing, const Experts& weights, const at::Tensor& residual) {
  const int64_t n = x.size(0), k = routing.expert.size(1), n_experts = weights.gate_up.value.size(0);
  Dispatch order;
  at::Tensor gate_up, y;
  {
    at::NoGradGuard no_grad;
    order = dispatch(routing.expert, n_experts);
    gate_up = per_expert(x.index_select(0, order.row), order.starts, weights.gate_up);
    const at::Tensor weighted = activate(gate_up, Activation::kGatedSilu) *
                                routing.weight.flatten().index_select(0, order.pair).unsqueeze(1).to(x.scalar_type());
    y = residual + combine(per_expert(weighted, order.starts, weights.down), order, n, k);
  }
  const bool wants = x.requires_grad(), wants_weight = routing.weight.requires_grad();
  return record(
      y, {.inputs = {x, routing.weight, residual},
          .trains = weights.trained(),
          .saved = {x, gate_up, routing.weight},
          .backward = [weights, order, n, k, wants, wants_weight](const Tensors& dy, const Tensors& saved) -> Tensors {
            const at::Tensor &x = saved[0], &gate_up = saved[1], &weight = saved[2];
            const at::Tensor g = dy[0].index_select(0, order.row);
            const at::Tensor w = weight.flatten().index_select(0, order.pair).unsqueeze(1).to(x.scalar_type());
            // d(activation) without the weight: with it for the chain, without it for the weight's own gradient.
            const at::Tensor da = per_expert_back(g, order.starts, weights.down);
            const auto back = activate_backward(da * w, gate_up, Activation::kGatedSilu);
            if (weights.keeps(weights.down)) add_per_expert(weights.down, back.value * w, g, order.starts);
            at::Tensor dweight;
            if (wants_weight) {
              const at::Tensor sorted = (back.value.to(weight.scalar_type()) * da.to(weight.scalar_type())).sum(1);
              dweight = sorted.index_select(0, order.position).view({n, k});
            }
            if (weights.keeps(weights.gate_up))
              add_per_expert(weights.gate_up, x.index_select(0, order.row), back.dh, order.starts);
            at::Tensor dx;
            if (wants) dx = combine(per_expert_back(back.dh, order.starts, weights.gate_up), order, n, k);
            return {dx, dweight, dy[0]};
          }});
}

at::Tensor routing_statistics(const Routing& routing, const Segments& segments) {
  const int64_t n_experts = routing.probability.size(1);
  const auto per_segment = [&](auto&& row) {
    Tensors rows;
    for (size_t s = 0; s < segments.count(); ++s) rows.push_back(row(segments.starts[s], segments.starts[s + 1]));
    return at::stack(rows);
  };
  const at::Tensor counts = per_segment([&](int64_t begin, int64_t end) {
    return routing.expert.slice(0, begin, end).flatten().bincount({}, n_experts).to(routing.probability.scalar_type());
  });
  const at::Tensor sums =
      per_segment([&](int64_t begin, int64_t end) { return routing.probability.slice(0, begin, end).sum(0); });
  return at::cat({counts, sums}, 1);
}

at::Tensor balance_loss(const at::Tensor& statistics, const at::Tensor& rows) {
  const int64_t n_experts = statistics.size(1) / 2;
  const at::Tensor safe = rows.clamp_min(1).unsqueeze(1);
  const at::Tensor share = statistics.narrow(1, 0, n_experts).detach() / safe;
  return n_experts * (share * (statistics.narrow(1, n_experts, n_experts) / safe)).sum(1);
}

}  // namespace lf::nn
