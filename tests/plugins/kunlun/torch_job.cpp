#include "torch_job.h"

#include <ATen/ops/_fused_adamw.h>
#include <torch/csrc/autograd/variable.h>

namespace lf::testing {
namespace {

constexpr int64_t kBatch = 3, kTokens = 17, kWidth = 64, kHeads = 4, kVocabulary = 97, kLayers = 2;

struct Model {
  std::vector<at::Tensor> parameters;
  at::Tensor add(at::IntArrayRef shape, at::Device device, at::ScalarType type) {
    // Made on the CPU: the same on both sides whatever the device's own generator does.
    const auto n = static_cast<double>(parameters.size() + 1);
    at::Tensor values = at::sin(at::arange(c10::multiply_integers(shape), at::kDouble) * (0.7 + n)) * 0.08;
    parameters.push_back(values.view(shape).to(type).to(device).requires_grad_(true));
    return parameters.back();
  }
};

}  // namespace

Trained train(at::Device device, at::ScalarType type, int steps) {
  Model model;
  const auto add = [&](at::IntArrayRef shape) { return model.add(shape, device, type); };
  const at::Tensor embedding = add({kVocabulary, kWidth}), positions = add({kTokens, kWidth});
  struct Layer {
    at::Tensor norm1, shift1, qkv, out, norm2, shift2, up, bias, down;
  };
  std::vector<Layer> layers;
  for (int i = 0; i < kLayers; ++i)
    layers.push_back({add({kWidth}), add({kWidth}), add({3 * kWidth, kWidth}), add({kWidth, kWidth}), add({kWidth}),
                      add({kWidth}), add({4 * kWidth, kWidth}), add({4 * kWidth}), add({kWidth, 4 * kWidth})});
  const at::Tensor last_norm = add({kWidth}), last_shift = add({kWidth});

  const at::Tensor tokens =
      ((at::arange(kBatch * kTokens, at::kLong) * 31) % kVocabulary).view({kBatch, kTokens}).to(device);
  at::Tensor labels = ((at::arange(kBatch * kTokens, at::kLong) * 31 + 31) % kVocabulary);
  labels.slice(0, 0, 5).fill_(-100);
  labels = labels.to(device);

  std::vector<at::Tensor> first, second, largest, counts;
  for (const at::Tensor& p : model.parameters) {
    first.push_back(at::zeros_like(p));
    second.push_back(at::zeros_like(p));
    counts.push_back(at::zeros({}, at::TensorOptions(at::kFloat).device(device)));
  }

  Trained trained;
  for (int step = 0; step < steps; ++step) {
    at::Tensor x = at::embedding(embedding, tokens) + positions;
    for (const Layer& layer : layers) {
      const at::Tensor h = at::layer_norm(x, {kWidth}, layer.norm1 + 1, layer.shift1);
      const auto parts =
          at::linear(h, layer.qkv).view({kBatch, kTokens, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
      const at::Tensor attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
      x = x + at::linear(attended.transpose(1, 2).reshape({kBatch, kTokens, kWidth}), layer.out);
      const at::Tensor m = at::layer_norm(x, {kWidth}, layer.norm2 + 1, layer.shift2);
      x = x + at::linear(at::gelu(at::linear(m, layer.up, layer.bias)), layer.down);
    }
    const at::Tensor rows = at::layer_norm(x, {kWidth}, last_norm + 1, last_shift).view({-1, kWidth});
    const at::Tensor supervised = at::nonzero(labels.ne(-100)).view({-1});
    const at::Tensor chosen = rows.index({supervised});  // advanced indexing, and its backward
    const at::Tensor logits = at::linear(chosen, embedding);
    const at::Tensor loss =
        at::cross_entropy_loss(logits.to(at::kFloat), labels.index({supervised}), {}, at::Reduction::Mean, -100);
    for (at::Tensor& p : model.parameters) p.mutable_grad() = at::Tensor();
    loss.backward();
    trained.losses.push_back(loss.item<double>());

    std::vector<at::Tensor> gradients, norms;
    for (const at::Tensor& p : model.parameters) gradients.push_back(p.grad());
    for (const at::Tensor& g : gradients) norms.push_back(at::norm(g.to(at::kFloat)));
    const at::Tensor norm = at::norm(at::stack(norms));
    const at::Tensor scale = at::clamp_max(1.0 / (norm + 1e-6), 1.0);
    const at::NoGradGuard no_gradients;
    for (const at::Tensor& g : gradients) g.mul_(scale.to(g.scalar_type()));
    at::_foreach_add_(counts, 1);
    std::vector<at::Tensor> values(model.parameters.begin(), model.parameters.end());
    at::_fused_adamw_(values, gradients, first, second, largest, counts, /*lr=*/1e-2, 0.9, 0.95, 0.1, 1e-8, false,
                      false);
  }
  for (const at::Tensor& p : model.parameters) {
    trained.parameters.push_back(p.detach());
    trained.gradients.push_back(p.grad());
  }
  return trained;
}

std::vector<std::pair<std::string, std::function<at::Tensor(at::Device)>>> operations() {
  using D = at::Device;
  const auto wave = [](at::IntArrayRef shape, D device, at::ScalarType type = at::kFloat) {
    return at::sin(at::arange(c10::multiply_integers(shape), at::kDouble) * 1.3).view(shape).to(type).to(device);
  };
  const auto ints = [](std::vector<int64_t> values, D device) { return at::tensor(values, at::kLong).to(device); };
  const auto gradient_of = [](const at::Tensor& loss, const at::Tensor& input) {
    loss.backward();
    return input.grad();
  };
  return {
      {"nonzero",
       [=](D d) {
         return at::nonzero(wave({5, 7}, d).gt(0));
       }},
      {"masked_select",
       [=](D d) {
         return at::masked_select(wave({5, 7}, d), wave({5, 7}, d).gt(0));
       }},
      {"topk",
       [=](D d) {
         return std::get<0>(at::topk(wave({5, 30}, d), 4));
       }},
      {"sort", [=](D d) { return std::get<1>(at::sort(wave({100}, d))); }},
      {"cumsum",
       [=](D d) {
         return at::cumsum(wave({4, 33}, d), 1);
       }},
      {"index_put accumulating",
       [=](D d) {
         at::Tensor t = wave({6, 3}, d);
         t.index_put_({ints({1, 1, 4}, d)}, wave({3, 3}, d), true);
         return t;
       }},
      {"index_add",
       [=](D d) {
         return at::index_add(wave({6, 3}, d), 0, ints({0, 2, 2}, d), wave({3, 3}, d));
       }},
      {"gather",
       [=](D d) {
         return at::gather(wave({3, 3}, d), 1, ints({0, 2, 1}, d).view({3, 1}));
       }},
      {"scatter_add",
       [=](D d) {
         return at::scatter_add(wave({3, 3}, d), 1, ints({0, 2, 1}, d).view({3, 1}), wave({3, 1}, d));
       }},
      {"where with a scalar", [=](D d) { return at::where(wave({9}, d).gt(0), wave({9}, d), 0.5); }},
      {"type promotion of numbers", [=](D d) { return wave({9}, d, at::kBFloat16) * 1.5 + 1; }},
      {"mixed with a CPU scalar tensor", [=](D d) { return wave({9}, d) * at::scalar_tensor(0.3); }},
      {"cat",
       [=](D d) {
         return at::cat({wave({2, 3}, d), wave({4, 3}, d)});
       }},
      {"stack",
       [=](D d) {
         return at::stack({wave({2, 3}, d), wave({2, 3}, d)}, 1);
       }},
      {"split and recombine",
       [=](D d) {
         return at::cat(at::split(wave({9, 2}, d), 4), 0);
       }},
      {"chunked in place",
       [=](D d) {
         at::Tensor t = wave({8, 4}, d);
         t.narrow(0, 2, 3).mul_(2).add_(1);
         t.select(1, 3).zero_();
         return t;
       }},
      {"transposed copy",
       [=](D d) {
         at::Tensor t = at::empty({4, 6}, at::TensorOptions(at::kFloat).device(d));
         t.t().copy_(wave({6, 4}, d));
         return t;
       }},
      {"copy that converts", [=](D d) { return wave({17}, d).to(at::kBFloat16).to(at::kFloat); }},
      {"out= that grows",
       [=](D d) {
         at::Tensor out = at::empty({0}, at::TensorOptions(at::kFloat).device(d));
         at::add_out(out, wave({5, 5}, d), wave({5, 5}, d));
         return out;
       }},
      {"out= into a view",
       [=](D d) {
         at::Tensor t = wave({4, 5}, d), row = t.select(0, 2);
         at::mul_out(row, wave({5}, d), wave({5}, d));
         return t;
       }},
      {"resize keeps what fits",
       [=](D d) {
         at::Tensor t = wave({6}, d);
         t.resize_({12});
         t.slice(0, 6).zero_();
         return t;
       }},
      {"conjugate view",
       [=](D d) {
         return at::view_as_real(at::view_as_complex(wave({6, 2}, d)).conj().resolve_conj());
       }},
      {"fft", [=](D d) { return at::view_as_real(at::fft_fft(wave({32}, d))); }},
      {"complex product",
       [=](D d) {
         const at::Tensor z = at::view_as_complex(wave({6, 2}, d));
         return at::view_as_real(z * z.conj());
       }},
      {"bf16 matmul",
       [=](D d) {
         return at::matmul(wave({33, 65}, d, at::kBFloat16), wave({65, 17}, d, at::kBFloat16));
       }},
      {"batched matmul",
       [=](D d) {
         return at::bmm(wave({3, 8, 9}, d), wave({3, 9, 7}, d));
       }},
      {"einsum",
       [=](D d) {
         return at::einsum("bij,bkj->bik", {wave({2, 3, 4}, d), wave({2, 5, 4}, d)});
       }},
      {"linalg_inv",
       [=](D d) {
         return at::linalg_inv(wave({4, 4}, d) + 5 * at::eye(4).to(d));
       }},
      {"silu backward",
       [=](D d) {
         const at::Tensor x = wave({50}, d).requires_grad_(true);
         return gradient_of(at::silu(x).sum(), x);
       }},
      {"rms_norm backward",
       [=](D d) {
         const at::Tensor x = wave({7, 32}, d).requires_grad_(true);
         return gradient_of((at::rms_norm(x, {32}, wave({32}, d), 1e-6) * wave({7, 32}, d)).sum(), x);
       }},
      {"group_norm backward",
       [=](D d) {
         const at::Tensor x = wave({2, 8, 5}, d).requires_grad_(true);
         return gradient_of((at::group_norm(x, 4) * wave({2, 8, 5}, d)).sum(), x);
       }},
      {"conv2d backward",
       [=](D d) {
         const at::Tensor w = wave({6, 3, 3, 3}, d).requires_grad_(true);
         return gradient_of((at::conv2d(wave({2, 3, 9, 9}, d), w, wave({6}, d)) * wave({2, 6, 7, 7}, d)).sum(), w);
       }},
      {"conv3d of patches, its bias",
       [=](D d) {
         const at::Tensor b = wave({6}, d).requires_grad_(true);
         return gradient_of((at::conv3d(wave({2, 3, 2, 8, 8}, d), wave({6, 3, 2, 4, 4}, d), b, {2, 4, 4})).pow(2).sum(),
                            b);
       }},
      {"grouped-query attention",
       [=](D d) {
         return at::scaled_dot_product_attention(wave({2, 8, 9, 16}, d), wave({2, 2, 9, 16}, d), wave({2, 2, 9, 16}, d),
                                                 {}, 0.0, true, std::nullopt, true);
       }},
      {"attention with a mask, backward",
       [=](D d) {
         const at::Tensor q = wave({1, 4, 9, 16}, d).requires_grad_(true);
         const at::Tensor mask = wave({9, 9}, d).gt(-0.5);
         return gradient_of(
             at::scaled_dot_product_attention(q, wave({1, 4, 9, 16}, d), wave({1, 4, 9, 16}, d), mask).pow(2).sum(), q);
       }},
      {"embedding backward",
       [=](D d) {
         const at::Tensor w = wave({10, 4}, d).requires_grad_(true);
         return gradient_of(at::embedding(w, ints({1, 1, 7}, d)).pow(2).sum(), w);
       }},
      {"sum of a custom dtype", [=](D d) { return at::sum(wave({100}, d, at::kBFloat16), at::kFloat); }},
      {"log_softmax",
       [=](D d) {
         return at::log_softmax(wave({5, 30}, d), 1);
       }},
      {"argmax",
       [=](D d) {
         return at::argmax(wave({5, 30}, d), 1);
       }},
      {"any over dims",
       [=](D d) {
         return at::any(wave({5, 6, 7}, d).gt(0.99), {0, 2});
       }},
      {"foreach norm",
       [=](D d) {
         return at::stack(at::_foreach_norm({wave({5}, d), wave({7, 2}, d)}));
       }},
      {"foreach in place",
       [=](D d) {
         std::vector<at::Tensor> tensors{wave({5}, d), wave({5}, d)};
         at::_foreach_mul_(tensors, 3);
         return at::cat(tensors);
       }},
      {"randn", [=](D d) { return at::randn({40}, at::TensorOptions(at::kFloat).device(d)); }},
      {"randperm", [=](D d) { return at::randperm(40, at::TensorOptions(at::kLong).device(d)); }},
      {"multinomial",
       [=](D d) {
         return at::multinomial(at::softmax(wave({3, 20}, d), 1), 5);
       }},
      {"bernoulli in place",
       [=](D d) { return at::empty({40}, at::TensorOptions(at::kFloat).device(d)).bernoulli_(0.4); }},
      {"eye, tril, full",
       [=](D d) {
         const auto o = at::TensorOptions(at::kFloat).device(d);
         return at::tril(at::eye(5, o) + at::full({5, 5}, 2, o));
       }},
      {"nothing at all",
       [=](D d) {
         return at::mm(wave({0, 4}, d), wave({4, 3}, d));
       }},
      {"unique",
       [=](D d) {
         return std::get<0>(at::_unique2(ints({3, 1, 3, 2}, d)));
       }},
      {"repeat_interleave",
       [=](D d) {
         return at::repeat_interleave(wave({4}, d), ints({1, 0, 3, 2}, d));
       }},
      {"interpolate",
       [=](D d) {
         return at::upsample_bilinear2d(wave({1, 2, 5, 5}, d), {9, 9}, false);
       }},
      {"channels last",
       [=](D d) {
         return (wave({2, 3, 4, 4}, d).contiguous(at::MemoryFormat::ChannelsLast) * 2).contiguous();
       }},
  };
}

}  // namespace lf::testing
