#include "diffusion/model.h"

#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "diffusion/blocks.h"
#include "diffusion/columns.h"
#include "diffusion/config.h"
#include "diffusion/cost.h"
#include "diffusion/fields.h"
#include "diffusion/latent_samples.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::diffusion {
namespace {

using nlohmann::json;

constexpr int64_t kCostValueBytes = 2;  // activations in bf16, the usual compute type

class DiffusionModel final : public family::Model {
 public:
  DiffusionModel(DiffusionConfig config, const Options& options, uint64_t seed)
      : config_(std::move(config)), spec_(model_spec(config_)), latents_(config_, options, seed) {}

  const family::ModelSpec& spec() const override { return spec_; }
  family::Features features(const lf_sample& sample) const override {
    if (sample.n_fields > 0) return {features_of(fields_of(sample), config_)};
    const PackedSample described = latents_.describe(sample);
    return {features_of({&described, 1}, config_)};
  }
  family::Columns collate(std::span<const lf_sample* const> samples) const override {
    std::vector<PackedSample> all;
    for (const lf_sample* sample : samples) {
      if (sample->n_fields == 0) {
        all.push_back(latents_.read(*sample));
      } else {
        for (PackedSample& one : fields_of(*sample)) all.push_back(std::move(one));
      }
    }
    return make_columns(all, config_);
  }
  lf_cost cost(uint32_t, uint32_t unit, std::span<const double> atoms) const override {
    return cost_of(config_, unit, atoms, kCostValueBytes);
  }
  std::unique_ptr<family::Blocks> blocks(const family::BlocksRequest& request) const override {
    return make_blocks(config_, request);
  }

 private:
  std::vector<PackedSample> fields_of(const lf_sample& sample) const {
    return read_fields({sample.fields, sample.n_fields}, config_);
  }

  const DiffusionConfig config_;
  const family::ModelSpec spec_;
  const LatentSamples latents_;
};

// A relative path is one beside the (first) data set.
std::string beside_data(const std::string& path, const json& data) {
  const json paths = data.value("path", json::array());
  if (path.empty() || !paths.is_array() || paths.empty()) return path;
  const std::filesystem::path first = paths.front().get<std::string>();
  return ((std::filesystem::is_directory(first) ? first : first.parent_path()) / path).string();
}

}  // namespace

std::unique_ptr<family::Model> create(const lf_host* host, const nlohmann::json& request) {
  family::Findings findings;
  DiffusionConfig config = parse_config(request.at("config").dump(), findings);
  for (const std::string& key : config.unknown_keys)
    findings.remark(key + " is not known to diffusion and has no effect");
  const json table = request.value("options", json::object());
  Options options = parse_options(table.value("options", json::object()).dump(), config, findings);
  findings.refuse_if_any();
  findings.tell(host);
  options.null_text = beside_data(options.null_text, request.value("data", json::object()));
  return std::make_unique<DiffusionModel>(std::move(config), options, request.value("seed", uint64_t{0}));
}

}  // namespace lf::diffusion
