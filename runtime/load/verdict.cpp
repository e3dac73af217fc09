#include "load/verdict.h"

namespace lf {
namespace {

void judge_length(const Sample& sample, const ModelCalls& model, const DataSection& options, JudgedSample& out) {
  const int64_t rows = out.features.rows();
  if (rows <= options.max_tokens) return;
  if (options.too_long == "cut") {
    out.features = model.features(sample, options.max_tokens);
    if (out.features.rows() <= options.max_tokens) {
      out.verdict = Verdict::kCut;
      return;
    }
  }
  out.verdict = Verdict::kTooLong;
  out.reason = fmt::format("{}: {} tokens; data.max_tokens is {}{}", sample.place, rows, options.max_tokens,
                           options.too_long == "cut" ? ", and it cannot be cut to that" : "");
  out.features = {};
}

}  // namespace

JudgedSample judge(const Sample& sample, const ModelCalls& model, const DataSection& options) {
  JudgedSample out;
  try {
    out.features = model.features(sample, 0);
    judge_length(sample, model, options, out);
  } catch (const BadSample& bad) {
    out.verdict = Verdict::kBad;
    out.reason = bad.what();
    out.features = {};
  }
  return out;
}

JudgedSample judge(const Dataset& dataset, const ModelCalls& model, const DataSection& options, uint64_t position,
                   uint64_t index) {
  JudgedSample out;
  try {
    Sample sample = dataset.sample(index);
    sample.epoch = position / dataset.size();
    out = judge(sample, model, options);
  } catch (const BadSample& bad) {
    out.verdict = Verdict::kBad;
    out.reason = bad.what();
  }
  out.position = position;
  out.index = index;
  return out;
}

void put(WireWriter& out, const JudgedSample& sample) {
  out.put(sample.position);
  out.put(sample.index);
  out.put(static_cast<uint8_t>(sample.verdict));
  if (!sample.usable()) {
    out.put(sample.reason);
    return;
  }
  for (size_t c = 0; c < sample.features.atoms.size(); ++c) {
    out.put(sample.features.atoms[c]);
    out.put(sample.features.numbers[c]);
  }
}

JudgedSample get_judged(WireReader& in, size_t n_components) {
  JudgedSample out;
  out.position = in.get<uint64_t>();
  out.index = in.get<uint64_t>();
  out.verdict = static_cast<Verdict>(in.get<uint8_t>());
  if (!out.usable()) {
    out.reason = in.text();
    return out;
  }
  for (size_t c = 0; c < n_components; ++c) {
    out.features.atoms.push_back(in.get<uint32_t>());
    out.features.numbers.push_back(in.values<double>());
  }
  return out;
}

}  // namespace lf
