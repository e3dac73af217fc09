// Samples to numbers and columns: what lf_model_api's features and collate do for this family.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "deepseek/config.h"
#include "deepseek/processor/chat.h"
#include "family/columns.h"
#include "lf/plugin_api/model.h"

namespace lf::deepseek {

// Every function may run on many threads at once.
class Processor {
 public:
  // request: as lf_model_api.create gets it; "path", "tokenizer" and "data" are read. The tokenizer is read at the
  // first sample that has text. Throws sdk::Failure LF_E_INVALID.
  Processor(const DeepseekConfig& config, const nlohmann::json& request);

  // Throw LF_E_DATA with the sample's place. The same rows in both.
  std::vector<double> features(const lf_sample& sample) const;
  // input_ids, targets, segment_starts (blocks.h); for samples made of tensors source_row, -1 for rows of others.
  family::Columns collate(std::span<const lf_sample* const> samples) const;

 private:
  struct Text {
    text::Tokenizer tokenizer;
    Chat chat;
    Text(const std::filesystem::path& file, int64_t vocabulary, ChatStyle style)
        : tokenizer(text::read_tokenizer_file(file)), chat(tokenizer, vocabulary, style) {}
  };
  const Text& text() const;
  std::vector<family::Sequence> encode(const lf_sample& sample) const;
  std::vector<family::Sequence> sequences(const lf_sample& sample) const;

  int64_t vocabulary_, top_k_;
  ChatStyle style_;
  std::filesystem::path tokenizer_folder_;
  mutable std::once_flag text_once_;
  mutable std::unique_ptr<const Text> text_;
};

}  // namespace lf::deepseek
