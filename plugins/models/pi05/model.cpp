#include "pi05/model.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/job_request.h"
#include "lf/plugin_sdk/guard.hpp"
#include "pi05/blocks.h"
#include "pi05/columns.h"
#include "pi05/config.h"
#include "pi05/cost.h"
#include "pi05/fields.h"
#include "pi05/recorded_frames.h"

namespace lf::pi05 {
namespace {

using nlohmann::json;

class Pi05Model final : public family::Model {
 public:
  // directory: of the frames whose statistics are the model's; empty: none are. source: where the weights come from.
  Pi05Model(Pi05Config config, const Naming& naming, std::unique_ptr<RecordedFrames> frames, std::string directory,
            std::filesystem::path source)
      : config_(std::move(config)),
        parts_(compose(config_, naming)),
        spec_(model_spec(parts_, config_)),
        frames_(std::move(frames)),
        directory_(std::move(directory)),
        source_(std::move(source)) {}

  const family::ModelSpec& spec() const override { return spec_; }
  family::Features features(const lf_sample& sample) const override {
    if (sample.n_fields == 0) {
      const SampleSize size = frames_->size(sample);
      return features_of({&size, 1}, config_);
    }
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
  std::vector<family::SavedFile> saved_files() const override {
    if (directory_.empty()) return {};
    return frames_->files(directory_, source_);
  }

 private:
  std::vector<PolicySample> samples_of(const lf_sample& sample) const {
    if (sample.n_fields == 0) return {frames_->read(sample)};
    return read_fields({sample.fields, sample.n_fields}, config_);
  }

  const Pi05Config config_;
  const Pi05 parts_;
  const family::ModelSpec spec_;
  const std::unique_ptr<RecordedFrames> frames_;
  const std::string directory_;
  const std::filesystem::path source_;
};

// Whose statistics the policy is trained with: those of data.path's only directory, or of any of several that share a
// file of them. Empty where there is nothing that whoever opens the policy could go by; told, where that is a pity.
std::string directory_of_statistics(const lf_host* host, const json& data, bool shared) {
  const json paths = data.value("path", json::array());
  if (!paths.is_array() || paths.empty() || !paths.front().is_string()) return {};
  if (paths.size() == 1 || shared) return paths.front().get<std::string>();
  host->log(host, LF_LOG_WARNING,
            sdk::str("data.path: several directories, each normalised by statistics of its own, and a policy's "
                     "directory has room for those of one: none are saved, and lerobot's processors beside the source "
                     "are copied as they are; set model.options.statistics to a stats.json for all of them"));
  return {};
}

// Without path and config the table is the model's config, and says nothing of data.
json data_options(const json& request) {
  json options = request.value("options", json::object()).value("options", json::object());
  json named = options;
  named["model_type"] = request.at("config").value("model_type", json());
  return named == request.at("config") ? json::object() : options;
}

// The config as its file has it: the order of cameras counts, which the request does not keep.
std::string config_text(const json& request) {
  const json& config = request.at("config");
  const std::string folder = family::text_at(request, "path");
  const json options = request.value("options", json::object());
  const std::string path = !folder.empty()       ? folder + "/config.json"
                           : options.is_object() ? family::text_at(options, "config")
                                                 : std::string();
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return json::parse(text, nullptr, false) == config ? text : config.dump();
}

}  // namespace

std::unique_ptr<family::Model> create(const lf_host* host, const json& request) {
  family::Findings findings;
  Pi05Config config = parse_config(config_text(request), findings);
  for (const std::string& remark : config.remarks) findings.remark(remark);
  robot::RobotOptions options = read_options(data_options(request), config, findings);
  findings.refuse_if_any();
  findings.tell(host);
  const json path = request.value("path", json());
  const Naming naming = path.is_string() ? naming_of(path.get<std::string>()) : Naming{};
  const family::JobRequest job = family::read_request(request);
  const bool shared = !options.statistics.empty();
  auto frames = std::make_unique<RecordedFrames>(host, config, std::move(options), job.tokenizer.string(),
                                                 request.value("seed", uint64_t{0}));
  std::string directory;
  if (job.has_samples) {
    frames->open_tokenizer();
    directory = directory_of_statistics(host, job.data, shared);
  }
  return std::make_unique<Pi05Model>(std::move(config), naming, std::move(frames), std::move(directory), job.model);
}

}  // namespace lf::pi05
