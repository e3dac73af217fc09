#include "internvl/processor/processor.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/conversation.h"
#include "family/job_request.h"
#include "family/position_bound.h"
#include "family/sample_place.h"
#include "internvl/processor/columns.h"
#include "internvl/processor/cost.h"
#include "internvl/processor/fields.h"
#include "lf/plugin_sdk/guard.hpp"
#include "text/job_tokenizer.h"

namespace lf::internvl {
namespace {

using family::at_place;
using family::ImageItem;
using family::Sequence;
using family::VideoItem;
using family::VisionInput;
using nlohmann::json;

ChatStyle style_of(const std::string& name, const InternVlConfig& config) {
  if (name.empty() || name == "auto")
    return config.layout == Layout::kTransformers ? ChatStyle::kTransformers : ChatStyle::kOriginal;
  if (name == "internvl2_5") return ChatStyle::kOriginal;
  if (name == "internvl_hf") return ChatStyle::kTransformers;
  throw sdk::Failure(LF_E_INVALID,
                     fmt::format("data.chat_template: expected auto, internvl2_5 or internvl_hf, got {:?}", name));
}

}  // namespace

InternVlProcessor::InternVlProcessor(const lf_host* host, const InternVlConfig& config, const Options& options,
                                     const json& request_json)
    : config_(config), weighting_(options.weighting), files_(host) {
  const family::JobRequest request = family::read_request(request_json);
  style_ = style_of(request.chat_template, config);
  tokenizer_folder_ = request.tokenizer;
  family::Findings remarks;
  rules_ = read_tile_rules(config, request.model.empty() ? request.tokenizer : request.model, request.data,
                           {options.min_tiles, options.max_tiles, options.share_tiles}, remarks);
  if (host != nullptr) remarks.tell(host);
  if (request.has_samples) text();  // a broken tokenizer is the job's fault, told before any sample
}

const InternVlProcessor::Text& InternVlProcessor::text() const {
  std::call_once(text_once_, [&] {
    text_ = text::open_job_tokenizer(tokenizer_folder_, [&](const std::filesystem::path& file) {
      return std::make_unique<const Text>(file, config_, style_);
    });
  });
  return *text_;
}

int64_t InternVlProcessor::context() const {
  return config_.image_token_id ? *config_.image_token_id : *text().tokenizer.added_token("<IMG_CONTEXT>");
}

std::vector<Sequence> InternVlProcessor::encode(const lf_sample& sample) const {
  if (sample.n_fields > 0) return read_fields({sample.fields, sample.n_fields}, config_);
  const std::vector<family::Message> messages = family::parse_conversation(sdk::view(sample.json));
  int64_t pictures = 0;
  for (const family::Message& message : messages)
    for (const family::Item& item : message.content) pictures += std::holds_alternative<ImageItem>(item) ? 1 : 0;
  std::vector<VisionInput> vision;
  for (const family::Message& message : messages)
    for (const family::Item& item : message.content) {
      if (const auto* image = std::get_if<ImageItem>(&item)) {
        vision.push_back(files_.plan_image(image->path, pictures, rules_));
      } else if (const auto* video = std::get_if<VideoItem>(&item)) {
        vision.push_back(video->frames.empty() ? files_.plan_video(video->path, video->fps, rules_)
                                               : files_.plan_frames(video->frames, video->fps, rules_));
      }
    }
  std::vector<Sequence> out;
  out.push_back(text().chat.encode(messages, std::move(vision)));
  return out;
}

std::vector<Sequence> InternVlProcessor::sequences(const lf_sample& sample) const {
  std::vector<Sequence> out = encode(sample);
  family::cut_all(out, sample.max_rows);
  family::refuse_beyond_positions(out, config_.text);
  for (const Sequence& sequence : out) visual_rows(sequence, config_, context());  // a mismatch shows now
  return out;
}

family::Features InternVlProcessor::features(const lf_sample& sample) const {
  return at_place(sample, [&] { return features_of(sequences(sample), config_, weighting_); });
}

family::Columns InternVlProcessor::collate(std::span<const lf_sample* const> samples) const {
  std::vector<Sequence> all;
  std::vector<const lf_sample*> owners;  // of each sequence's inputs, for messages
  for (const lf_sample* sample : samples)
    for (Sequence& sequence : at_place(*sample, [&] { return sequences(*sample); })) {
      owners.insert(owners.end(), sequence.vision.size(), sample);
      all.push_back(std::move(sequence));
    }
  auto owner = owners.begin();
  return make_columns(all, config_, context(), weighting_, [&](const VisionInput& input, float* out) {
    at_place(**owner++, [&] {
      files_.write_rows(input, rules_, out);
      return 0;
    });
  });
}

}  // namespace lf::internvl
