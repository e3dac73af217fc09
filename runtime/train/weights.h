// How a run's parameters begin, and how they end up as a model directory.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/job.h"
#include "model/parameter_store.h"
#include "weights/weights.h"

namespace lf {

// The model directory that a job starts from, and its adapters; empty for random initialisation.
class WeightSource {
 public:
  // Opens model.path, if the job has one, and checks that every parameter and every tensor has its other half, but for
  // what model.new_parameters names.
  WeightSource(const JobConfig& config, const Description& description);

  // Fills the store: from the directory, or at random by (seed, parameter name), as also what the directory lacks.
  // Adapters: from lora.path, or as new.
  void fill(const ParameterStore& store, uint64_t seed) const;

  // Writes `target`, a directory that transformers opens, complete or not at all. A directory that the job started from
  // is written over again in its own layout; parameters that were frozen keep their very bytes; adapters are merged.
  // dtype: "source", "fp32" or "bf16"; without a source, "source" is what config.json states, else what the job
  // computes in. `extra`: beside the weights, see saved_files.h.
  void export_model(const ParameterStore& store, const std::string& dtype, const std::string& model_config,
                    const std::filesystem::path& tokenizer, const std::vector<ExtraFile>& extra,
                    const std::filesystem::path& target) const;

  // Writes `target`, a directory of the adapters (and of what is trained beside them) that peft opens over the base,
  // and pipelines of diffusers where config.json is of one of its models.
  void export_adapters(const ParameterStore& store, const JobConfig& config, const std::string& model_config,
                       const std::vector<ExtraFile>& extra, const std::filesystem::path& target) const;

  const LoadPlan* plan() const { return plan_.get(); }
  // What begins at random beside a directory's weights, for a person; empty: nothing.
  const std::string& new_parameters() const { return new_parameters_; }

 private:
  std::vector<float> own_values(const ParameterStore& store, const ParameterSlot& slot) const;

  std::unique_ptr<ModelDirectory> directory_;
  std::unique_ptr<LoadPlan> plan_;
  std::unique_ptr<AdapterDirectory> adapters_;  // of lora.path
  std::string new_parameters_;
  bool replaces_config_ = false;  // model.config stands for the directory's own
};

}  // namespace lf
