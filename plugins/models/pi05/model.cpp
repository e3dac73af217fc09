#include "pi05/model.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "pi05/blocks.h"
#include "pi05/columns.h"
#include "pi05/config.h"
#include "pi05/cost.h"
#include "pi05/fields.h"

namespace lf::pi05 {
namespace {

using nlohmann::json;

class Pi05Model final : public family::Model {
 public:
  Pi05Model(Pi05Config config, const Naming& naming)
      : config_(std::move(config)), parts_(compose(config_, naming)), spec_(model_spec(parts_)) {}

  const family::ModelSpec& spec() const override { return spec_; }
  family::Features features(const lf_sample& sample) const override {
    std::vector<SampleSize> sizes;
    for (const PolicySample& one : samples_of(sample))
      sizes.push_back({one.images, static_cast<int64_t>(one.tokens.size()), one.valid_actions()});
    return features_of(sizes, config_);
  }
  family::Columns collate(std::span<const lf_sample* const> samples) const override {
    std::vector<PolicySample> all;
    for (const lf_sample* sample : samples)
      for (PolicySample& one : samples_of(*sample)) all.push_back(std::move(one));
    return make_columns(all, config_);
  }
  lf_cost cost(uint32_t component, uint32_t unit, std::span<const double> atoms) const override {
    return cost_of(config_, component, unit, atoms);
  }
  std::unique_ptr<family::Blocks> blocks(const family::BlocksRequest& request) const override {
    return make_blocks(parts_, request);
  }

 private:
  std::vector<PolicySample> samples_of(const lf_sample& sample) const {
    if (sample.n_fields == 0) throw sdk::Failure(LF_E_DATA, "pi05: expected a sample of tensors, got JSON");
    return read_fields({sample.fields, sample.n_fields}, config_);
  }

  const Pi05Config config_;
  const Pi05 parts_;
  const family::ModelSpec spec_;
};

}  // namespace

std::unique_ptr<family::Model> create(const lf_host* host, const json& request) {
  Pi05Config config = parse_config(request.at("config").dump());
  for (const std::string& remark : config.remarks) host->log(host, LF_LOG_WARNING, sdk::str(remark));
  const json path = request.value("path", json());
  const Naming naming = path.is_string() ? naming_of(path.get<std::string>()) : Naming{};
  return std::make_unique<Pi05Model>(std::move(config), naming);
}

}  // namespace lf::pi05
