// One block at one size, timed: what run.py calls, in a process of its own for each so that memory peaks are its own.
//
//   lf_sparse_attention_bench dense|sparse|warmup|experts LENGTH [REPEATS]
//
// Prints one JSON line: CPU seconds (all threads) of forward and of forward + backward, medians; in MB above what was
// there before, what is held between the two, the peak, and the peak less the gradients that come in and go out, which
// any attention of this shape has (the query's, where it takes the query's place, is no memory more). Threads:
// OMP_NUM_THREADS.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/latent_attention.h"
#include "nn/moe.h"
#include "nn/sparse_attention.h"

namespace {

using namespace lf::nn;

// Published sizes (arXiv:2412.19437; DeepSeek-V3.2-Exp): 128 heads of 128 + 64 and 128, latents of 512, 64 index heads
// of 128, top 2048. Heads by 8, sizes by 2, latents and the selection by 4.
constexpr LatentShape kLatent{16, 64, 32, 64, 128, 0.102};
constexpr IndexShape kIndex{8, 64, 512};
// 64 small experts, 6 for each row, as DeepSeek-V2-Lite's count; width by 4.
constexpr int64_t kWidth = 512, kExpertWidth = 128, kExperts = 64, kPerRow = 6;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double status_mb(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0) return std::atof(line.c_str() + key.size() + 1) / 1024;
  return 0;
}

at::Tensor random(at::IntArrayRef shape, double deviation, bool gradient = true) {
  at::Tensor t = at::randn(shape, at::kFloat) * deviation;
  return gradient ? t.requires_grad_(true) : t;
}

Parameter parameter(at::IntArrayRef shape, double deviation) {
  const at::Tensor value = random(shape, deviation, false);
  return {value, at::zeros_like(value)};
}

struct Run {
  Tensors inputs;
  std::vector<Parameter> parameters;
  // The result, and what its gradient is given to.
  Tensors (*forward)(const Tensors&, const std::vector<Parameter>&, int64_t length);
};

Tensors dense(const Tensors& in, const std::vector<Parameter>& parameters, int64_t length) {
  return {latent_attention(in[0], linear(in[1], {parameters[0], {}}), in[2], kLatent, {{0, length}})};
}

Tensors indexed(const Tensors& in, const std::vector<Parameter>& parameters, int64_t length, const IndexShape& index) {
  // As in a model's layer the query is given up: its gradient takes its place.
  const IndexedAttention made = sparse_attention({in[0], in[1], in[2], in[3], in[4], in[5], /*gives_query_up=*/true},
                                                 parameters[0], kLatent, index, {{0, length}},
                                                 /*wants_divergence=*/true);
  return {made.out, made.divergence};
}
Tensors sparse(const Tensors& in, const std::vector<Parameter>& parameters, int64_t length) {
  return indexed(in, parameters, length, kIndex);
}
Tensors warmup(const Tensors& in, const std::vector<Parameter>& parameters, int64_t length) {
  return {indexed(in, parameters, length, {kIndex.heads, kIndex.size, 0})[1]};
}

Tensors experts_of(const Tensors& in, const std::vector<Parameter>& parameters, int64_t) {
  const Routing routing = route_in_groups(in[0], parameters[0], at::zeros({kExperts}), {kPerRow, 1, 1, true, 2.5});
  return {experts(in[0], routing, {parameters[1], parameters[2]}, in[0])};
}

Run make(const std::string& kind, int64_t n) {
  if (kind == "experts")
    return {{random({n, kWidth}, 1)},
            {parameter({kExperts, kWidth}, 0.05), parameter({kExperts, kWidth, 2 * kExpertWidth}, 0.05),
             parameter({kExperts, kExpertWidth, kWidth}, 0.05)},
            experts_of};
  Run run;
  const bool learns_all = kind != "warmup";
  run.parameters = {parameter({kLatent.heads * (kLatent.plain + kLatent.value), kLatent.latent}, 0.09)};
  if (!learns_all) run.parameters[0].gradient = at::Tensor();
  run.inputs = {random({n, kLatent.heads * kLatent.head_size()}, 1, learns_all),
                random({n, kLatent.latent}, 1, learns_all), random({n, kLatent.rotated}, 1, learns_all)};
  run.forward = dense;
  if (kind == "dense") return run;
  run.inputs.push_back(random({n, kIndex.heads * kIndex.size}, 1));
  run.inputs.push_back(random({n, kIndex.size}, 1));
  run.inputs.push_back(random({n, kIndex.heads}, 0.35));
  run.forward = kind == "warmup" ? warmup : sparse;
  return run;
}

// As layers do that come after: the result is theirs and not kept here, and its gradient comes as a tensor of its own.
at::Tensor loss_of(const Tensors& out, const at::Tensor& weights) {
  at::Tensor loss = (out[0] * weights).sum();
  for (size_t i = 1; i < out.size(); ++i) loss = loss + out[i].sum();
  return loss;
}

double megabytes(const at::Tensor& t) { return static_cast<double>(t.nbytes()) / 1048576; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** arguments) {
  const std::string kind = count > 1 ? arguments[1] : "";
  if (count < 3 || (kind != "dense" && kind != "sparse" && kind != "warmup" && kind != "experts")) {
    std::fprintf(stderr, "usage: %s dense|sparse|warmup|experts LENGTH [REPEATS]\n", arguments[0]);
    return 64;
  }
  const int64_t length = std::atoll(arguments[2]);
  const int repeats = count > 3 ? std::atoi(arguments[3]) : 3;
  at::manual_seed(1);
  const Run run = make(kind, length);
  run.forward(make(kind, 64).inputs, run.parameters, 64);  // threads and instruction sets are found out
  const bool rows = kind != "warmup";
  const at::Tensor weights =
      rows ? random({length, kind == "experts" ? kWidth : kLatent.heads * kLatent.value}, 1, false) : at::ones({1});
  const at::Tensor query = run.inputs[0].detach().clone();
  malloc_trim(0);                               // what is free is not held
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak counts from here
  const double before = status_mb("VmRSS:");
  double held = 0, gradients = rows ? megabytes(weights) : 0;
  for (const at::Tensor& t : run.inputs)
    if (t.requires_grad()) gradients += megabytes(t);
  if (kind == "sparse") gradients -= megabytes(query);  // lies where the query was
  std::vector<double> forward, both;
  for (int i = 0; i < repeats; ++i) {
    run.inputs[0].detach().copy_(query);
    const double begun = cpu_seconds();
    Tensors out = run.forward(run.inputs, run.parameters, length);
    forward.push_back(cpu_seconds() - begun);
    const at::Tensor loss = loss_of(out, weights);
    out.clear();
    if (i == 0) {
      malloc_trim(0);
      held = status_mb("VmRSS:") - before;
    }
    const double resumed = cpu_seconds();
    torch::autograd::backward({loss}, {});
    both.push_back(forward.back() + cpu_seconds() - resumed);
    for (const at::Tensor& t : run.inputs)
      if (t.requires_grad()) t.mutable_grad().reset();
  }
  const double peak = status_mb("VmHWM:") - before;
  std::printf(
      "{\"kind\": \"%s\", \"length\": %ld, \"threads\": %d, \"forward\": %.4f, \"both\": %.4f, \"held_mb\": %.1f, "
      "\"peak_mb\": %.1f, \"own_mb\": %.1f}\n",
      kind.c_str(), static_cast<long>(length), at::get_num_threads(), median(forward), median(both), held, peak,
      peak - gradients);
  return 0;
}
