// Samples to numbers and tensors: what lf_model_api's features and collate do for this family.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lf/plugin_api/model.h"
#include "qwen_vl/config.h"
#include "qwen_vl/processor/chat.h"
#include "qwen_vl/processor/columns.h"
#include "qwen_vl/processor/cost.h"
#include "qwen_vl/processor/vision_files.h"
#include "qwen_vl/processor/vision_rules.h"

namespace lf::qwen_vl {

// Every function may run on many threads at once. `host` outlives it.
class QwenVlProcessor {
 public:
  // create_json: as lf_model_api.create gets it; "path", "tokenizer" and "data" are read. Small files of the model's
  // folder are read now, and so is the tokenizer where data.path names any data; else at the first sample that has
  // text. Throws sdk::Failure LF_E_INVALID.
  QwenVlProcessor(const lf_host* host, const QwenVlConfig& config, std::string_view create_json);

  // From text and headers. Throws LF_E_DATA with the sample's place. The same rows as collate will produce.
  Features features(const lf_sample& sample) const;

  // Decodes and packs, in the order given. Throws LF_E_DATA with the sample's place.
  Columns collate(std::span<const lf_sample* const> samples) const;

 private:
  struct Text {
    text::Tokenizer tokenizer;
    Chat chat;
    Text(const std::filesystem::path& file, const QwenVlConfig& config, ChatStyle style)
        : tokenizer(text::read_tokenizer_file(file)), chat(tokenizer, config, style) {}
  };
  const Text& text() const;
  std::vector<Sequence> sequences(const lf_sample& sample) const;
  std::vector<Sequence> encode(const lf_sample& sample) const;
  void judge_templates(const lf_host* host) const;

  const QwenVlConfig config_;
  std::filesystem::path folder_, tokenizer_folder_;
  ChatStyle style_;
  VisionRules rules_;
  VisionFiles files_;
  mutable std::once_flag text_once_;
  mutable std::unique_ptr<const Text> text_;
};

}  // namespace lf::qwen_vl
