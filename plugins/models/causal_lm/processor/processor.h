// Samples to numbers and tensors: what lf_model_api's features and collate do for this family.
//
// Columns: those of family/packing.h, and position_ids i64 [1, N], from 0 in every sequence.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "causal_lm/config.h"
#include "causal_lm/processor/chat.h"
#include "family/columns.h"
#include "family/features.h"
#include "lf/plugin_api/model.h"

namespace lf::causal_lm {

// Every function may run on many threads at once.
class Processor {
 public:
  // request: as lf_model_api.create gets it; "path", "tokenizer" and "data" are read. The tokenizer is read at the
  // first conversation. Throws sdk::Failure LF_E_INVALID.
  Processor(const CausalLmConfig& config, const nlohmann::json& request);

  // Throw LF_E_DATA with the sample's place. Ready tensors: input_ids, attention_mask, labels, cu_seqlens
  // (family/fields.h); position_ids are passed over.
  family::Features features(const lf_sample& sample) const;
  family::Columns collate(std::span<const lf_sample* const> samples) const;

 private:
  struct Text {
    text::Tokenizer tokenizer;
    Chat chat;
    Text(const std::filesystem::path& file, int64_t vocabulary, ChatStyle style)
        : tokenizer(text::read_tokenizer_file(file)), chat(tokenizer, vocabulary, style) {}
  };
  const Text& text() const;
  std::vector<family::Sequence> sequences(const lf_sample& sample) const;

  const CausalLmConfig config_;
  std::filesystem::path tokenizer_folder_;
  ChatStyle style_ = ChatStyle::kChatMl;
  mutable std::once_flag text_once_;
  mutable std::unique_ptr<const Text> text_;
};

}  // namespace lf::causal_lm
