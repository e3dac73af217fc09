#include "load/assemble.h"

#include <optional>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf {
namespace {

struct Columns {  // released unless taken
  std::vector<lf_named_tensor> values;
  ~Columns() {
    for (lf_named_tensor& column : values) sdk::release(column.tensor);
  }
};

struct Loaded {
  uint32_t index;
  Sample sample;
};

class Assembly {
 public:
  Assembly(const ModelCalls& model, const std::vector<JudgedSample>& all, int64_t max_rows)
      : model_(model), all_(all), max_rows_(max_rows) {}

  void load(const StepSamples& source, const std::vector<uint32_t>& samples) {
    for (const uint32_t i : samples) {
      try {
        loaded_.push_back({i, source.sample(i)});
      } catch (const BadSample& bad) {  // the file has changed under us, within a line
        out_.dropped.push_back({i, bad.what()});
      }
    }
  }

  Assembled run() {
    if (loaded_.empty()) return finish({});
    try {
      return finish(collate(loaded_));
    } catch (const BadSample& bad) {
      if (loaded_.size() == 1) {
        drop(loaded_.front(), bad);
        loaded_.clear();
        return finish({});
      }
    }
    keep_good_ones();
    if (loaded_.empty()) return finish({});
    try {
      return finish(collate(loaded_));
    } catch (const BadSample& bad) {
      fail(Exit::kBug, "loader: samples that collate one by one do not together: {}", bad.what());
    }
  }

 private:
  std::vector<lf_named_tensor> collate(const std::vector<Loaded>& samples) const {
    std::vector<ModelCalls::Part> parts;
    for (const Loaded& loaded : samples)
      parts.push_back({&loaded.sample, all_[loaded.index].verdict == Verdict::kCut ? max_rows_ : 0});
    return model_.collate(parts);
  }

  // A failed collate does not say whose fault it was: each is tried alone. Costs a second decode, of bad cases only.
  void keep_good_ones() {
    std::vector<Loaded> good;
    for (Loaded& loaded : loaded_) {
      std::vector<Loaded> alone;
      alone.push_back(std::move(loaded));
      try {
        const Columns tried{collate(alone)};
        good.push_back(std::move(alone.front()));
      } catch (const BadSample& bad) {
        drop(alone.front(), bad);
      }
    }
    loaded_ = std::move(good);
  }

  void drop(const Loaded& loaded, const BadSample& bad) { out_.dropped.push_back({loaded.index, bad.what()}); }

  Assembled finish(std::vector<lf_named_tensor> columns) {
    MicroBatch& out = out_.micro_batch;
    out.columns = std::move(columns);  // from here on released by the micro-batch
    const size_t components = model_.components().size();
    out.atoms.resize(components);
    out.features.resize(components);
    for (const Loaded& loaded : loaded_) {
      const JudgedSample& judged = all_[loaded.index];
      for (size_t c = 0; c < components; ++c) {
        out.atoms[c] += judged.features.atoms[c];
        out.features[c].insert(out.features[c].end(), judged.features.numbers[c].begin(),
                               judged.features.numbers[c].end());
      }
      out.rows += judged.features.rows();
      out.loss_weight += judged.features.loss_weight();
      out.sample_ids.push_back(judged.index);
      ++out.n_samples;
    }
    check_rows(out);
    return std::move(out_);
  }

  // Plans, memory and the loss's divisor rest on the features: what collate made must agree with them.
  void check_rows(const MicroBatch& batch) const {
    for (const lf_named_tensor& column : batch.columns) {
      if (sdk::view(column.name) != "source_row" || column.tensor.ndim < 1) continue;
      if (column.tensor.shape[0] != batch.rows)
        fail(Exit::kBug, "{}: the model's features said {} rows for {} samples, its collate made {}",
             loaded_.front().sample.place, batch.rows, batch.n_samples, column.tensor.shape[0]);
    }
  }

  const ModelCalls& model_;
  const std::vector<JudgedSample>& all_;
  int64_t max_rows_;
  std::vector<Loaded> loaded_;
  Assembled out_;
};

}  // namespace

Assembled assemble(const StepSamples& source, const ModelCalls& model, const std::vector<JudgedSample>& all,
                   const std::vector<uint32_t>& samples, int64_t max_rows) {
  Assembly assembly(model, all, max_rows);
  assembly.load(source, samples);
  return assembly.run();
}

}  // namespace lf
