#include "qwen_vl/processor/processor.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/conversation.h"
#include "family/job_request.h"
#include "family/json_file.h"
#include "family/position_bound.h"
#include "family/sample_place.h"
#include "lf/plugin_sdk/guard.hpp"
#include "qwen_vl/processor/fields.h"
#include "qwen_vl/processor/positions.h"
#include "text/job_tokenizer.h"

namespace lf::qwen_vl {
namespace {

using family::at_place;
using family::ImageItem;
using family::parse_conversation;
using family::VideoItem;
using nlohmann::json;

json parse_object(std::string_view text) {
  const json root = json::parse(text, nullptr, false);
  if (!root.is_object()) throw sdk::Failure(LF_E_INVALID, "create: expected a JSON object");
  return root;
}

ChatStyle style_of(const std::string& name, const QwenVlConfig& config) {
  if (name.empty() || name == "auto") return is_qwen3(config.family) ? ChatStyle::kQwen3 : ChatStyle::kQwen2;
  if (name == "qwen2_vl" || name == "qwen2_5_vl") return ChatStyle::kQwen2;
  if (name == "qwen3_vl") return ChatStyle::kQwen3;
  throw sdk::Failure(
      LF_E_INVALID, fmt::format("data.chat_template: expected auto, qwen2_vl, qwen2_5_vl or qwen3_vl, got {:?}", name));
}

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

QwenVlProcessor::QwenVlProcessor(const lf_host* host, const QwenVlConfig& config, std::string_view create_json)
    : config_(config), files_(host) {
  const family::JobRequest request = family::read_request(parse_object(create_json));
  tokenizer_folder_ = request.tokenizer;
  folder_ = request.model.empty() ? request.tokenizer : request.model;
  style_ = style_of(request.chat_template, config);
  family::Findings remarks;
  rules_ = read_vision_rules(config, folder_, request.data, remarks);
  if (host != nullptr) remarks.tell(host);
  judge_templates(host);
  if (request.has_samples) text();  // a broken tokenizer is the job's fault, told before any sample
}

void QwenVlProcessor::judge_templates(const lf_host* host) const {
  if (host == nullptr || tokenizer_folder_.empty()) return;
  // In the order in which transformers prefers them.
  std::string chosen = whole_file(tokenizer_folder_ / "chat_template.jinja");
  std::string file = "chat_template.jinja";
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    if (!chosen.empty()) break;
    if (const auto object = family::read_json_object(tokenizer_folder_ / name))
      chosen = family::text_at(*object, "chat_template");
    file = name;
  }
  if (judge_template(chosen) != TemplateKind::kUnknown) return;
  const std::string text = fmt::format(
      "{}: a chat template that qwen_vl does not know; conversations are written as the published {} template does, "
      "without reading this one",
      (tokenizer_folder_ / file).string(), style_ == ChatStyle::kQwen3 ? "Qwen3-VL" : "Qwen2-VL");
  host->log(host, LF_LOG_WARNING, sdk::str(text));
}

const QwenVlProcessor::Text& QwenVlProcessor::text() const {
  std::call_once(text_once_, [&] {
    text_ = text::open_job_tokenizer(tokenizer_folder_, [&](const std::filesystem::path& file) {
      return std::make_unique<const Text>(file, config_, style_);
    });
  });
  return *text_;
}

std::vector<Sequence> QwenVlProcessor::encode(const lf_sample& sample) const {
  if (sample.n_fields > 0) return read_fields({sample.fields, sample.n_fields}, config_);
  const std::vector<Message> messages = parse_conversation(sdk::view(sample.json));
  std::vector<VisionInput> vision;
  for (const Message& message : messages)
    for (const Item& item : message.content) {
      if (const auto* image = std::get_if<ImageItem>(&item)) {
        vision.push_back(files_.plan_image(image->path, rules_));
      } else if (const auto* video = std::get_if<VideoItem>(&item)) {
        vision.push_back(video->frames.empty() ? files_.plan_video(video->path, video->fps, rules_)
                                               : files_.plan_frames(video->frames, video->fps, rules_));
      }
    }
  std::vector<Sequence> out;
  out.push_back(text().chat.encode(messages, std::move(vision)));
  return out;
}

std::vector<Sequence> QwenVlProcessor::sequences(const lf_sample& sample) const {
  std::vector<Sequence> out = encode(sample);
  family::cut_all(out, sample.max_rows);
  family::refuse_beyond_positions(out, config_.text);  // of compose's decoders
  return out;
}

Features QwenVlProcessor::features(const lf_sample& sample) const {
  return at_place(sample, [&] {
    const auto encoded = sequences(sample);
    for (const Sequence& sequence : encoded)
      visual_runs(sequence.ids, sequence.vision, config_);  // a mismatch shows now
    return features_of(encoded, config_);
  });
}

Columns QwenVlProcessor::collate(std::span<const lf_sample* const> samples) const {
  std::vector<Sequence> all;
  std::vector<const lf_sample*> owners;  // of each sequence's inputs, for messages
  for (const lf_sample* sample : samples) {
    auto own = at_place(*sample, [&] { return sequences(*sample); });
    for (Sequence& sequence : own) {
      at_place(*sample, [&] { return visual_runs(sequence.ids, sequence.vision, config_); });
      owners.insert(owners.end(), sequence.vision.size(), sample);
      all.push_back(std::move(sequence));
    }
  }
  auto owner = owners.begin();
  return make_columns(all, config_, [&](const VisionInput& input, float* out) {
    const lf_sample& sample = **owner++;
    at_place(sample, [&] {
      if (const auto* ready = std::get_if<ReadyRows>(&input.source)) {
        std::memcpy(out, ready->rows,
                    static_cast<size_t>(input.patches() * config_.vision.patch_columns()) * sizeof(float));
      } else {
        files_.write_rows(input, rules_, out);
      }
      return 0;
    });
  });
}

}  // namespace lf::qwen_vl
