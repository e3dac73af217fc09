#include "load/batch_source.h"

#include <xxhash.h>

namespace lf {
namespace {

class AddressedSamples final : public StepSamples {
 public:
  AddressedSamples(const Dataset& dataset, const PackedStep& packed) : dataset_(dataset) {
    for (const JudgedSample& sample : packed.samples) places_.push_back({sample.index, sample.position});
  }
  Sample sample(uint32_t index) const override {
    const Place& place = places_.at(index);
    Sample out = dataset_.sample(place.index);
    out.epoch = place.position / dataset_.size();
    return out;
  }

 private:
  struct Place {
    uint64_t index, position;  // in the data set, in the run's order
  };
  const Dataset& dataset_;
  std::vector<Place> places_;
};

class AddressableSource final : public BatchSource {
 public:
  AddressableSource(const LoaderInputs& inputs, const ModelCalls& model, Workers& workers)
      : dataset_(*inputs.dataset),
        samples_({dataset_, model, inputs.config->data,
                  Order(dataset_.size(), inputs.config->job.seed, inputs.config->data.shuffle), *inputs.exchange,
                  workers, inputs.stop_requested},
                 inputs.position.samples_seen, inputs.max_samples),
        whole_packs_(inputs.config->balance.unit == "pack") {}

  SampleStream& samples() override { return samples_; }
  bool whole_packs() const override { return whole_packs_; }
  std::shared_ptr<const StepSamples> fetch(int64_t, const PackedStep& packed, const Shares&) override {
    return std::make_shared<const AddressedSamples>(dataset_, packed);
  }

 private:
  const Dataset& dataset_;
  GatheredStream samples_;
  bool whole_packs_;
};

// Each micro-batch as one sample whose numbers are the sums, or of parts with several atoms all of them, of its
// samples.
PackedStep packs_as_samples(const PackedStep& packed, const ModelCalls& model) {
  PackedStep out;
  const size_t components = model.components().size();
  for (size_t i = 0; i < packed.samples.size(); ++i) {
    const AtomFeatures& features = packed.samples[i].features;
    if (out.micro_batch.empty() || out.micro_batch.back() != packed.micro_batch[i]) {
      out.samples.push_back(packed.samples[i]);
      out.micro_batch.push_back(packed.micro_batch[i]);
      continue;
    }
    AtomFeatures& pack = out.samples.back().features;
    for (size_t c = 0; c + 1 < components; ++c) {
      pack.atoms[c] += features.atoms[c];
      pack.numbers[c].insert(pack.numbers[c].end(), features.numbers[c].begin(), features.numbers[c].end());
    }
    for (size_t n = 0; n < pack.numbers.back().size(); ++n) pack.numbers.back()[n] += features.numbers.back()[n];
  }
  return out;
}

}  // namespace

std::unique_ptr<BatchSource> addressable_source(const LoaderInputs& inputs, const ModelCalls& model, Workers& workers) {
  return std::make_unique<AddressableSource>(inputs, model, workers);
}

Deal deal_step(const BatchSource& source, Dealer& dealer, const ModelCalls& model, const PackedStep& packed,
               int64_t step) {
  if (!source.whole_packs()) return dealer.deal(packed, step);
  const PackedStep packs = packs_as_samples(packed, model);
  Deal deal = dealer.deal(packs, step);
  for (auto& of_rank : deal.samples)
    for (std::vector<uint32_t>& micro_batch : of_rank) {
      std::vector<uint32_t> samples;
      for (const uint32_t pack : micro_batch)
        for (uint32_t i = 0; i < packed.samples.size(); ++i)
          if (packed.micro_batch[i] == packs.micro_batch[pack]) samples.push_back(i);
      micro_batch = std::move(samples);
    }
  return deal;
}

uint64_t hash_of(int64_t step, const PackedStep& packed, const Shares& shares) {
  uint64_t hash = XXH3_64bits(&step, sizeof step);
  for (const JudgedSample& sample : packed.samples)
    hash = XXH3_64bits_withSeed(&sample.position, sizeof sample.position, hash);
  for (const auto& of_rank : shares)
    for (const std::vector<uint32_t>& micro_batch : of_rank)
      hash = XXH3_64bits_withSeed(micro_batch.data(), micro_batch.size() * sizeof(uint32_t), hash + 1);
  return hash;
}

}  // namespace lf
