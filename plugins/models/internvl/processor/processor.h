// Samples to numbers and tensors: what lf_model_api's features and collate do for this family.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "family/columns.h"
#include "family/features.h"
#include "internvl/config.h"
#include "internvl/processor/chat.h"
#include "internvl/processor/loss_weighting.h"
#include "internvl/processor/tile_files.h"
#include "internvl/processor/tile_rules.h"
#include "lf/plugin_api/model.h"

namespace lf::internvl {

// Every function may run on many threads at once. `host` outlives it.
class InternVlProcessor {
 public:
  struct Options {
    int64_t min_tiles = 0, max_tiles = 0;
    bool share_tiles = false;
    LossWeighting weighting = LossWeighting::kToken;
  };
  // request: as lf_model_api.create gets it; "path", "tokenizer" and "data" are read. Small files of the model's folder
  // are read now, the tokenizer at the first sample that has text. Throws sdk::Failure LF_E_INVALID.
  InternVlProcessor(const lf_host* host, const InternVlConfig& config, const Options& options,
                    const nlohmann::json& request);

  // From text and headers. Throws LF_E_DATA with the sample's place. The same rows as collate will produce.
  family::Features features(const lf_sample& sample) const;
  // Decodes and packs, in the order given. Throws LF_E_DATA with the sample's place.
  family::Columns collate(std::span<const lf_sample* const> samples) const;

 private:
  struct Text {
    text::Tokenizer tokenizer;
    Chat chat;
    Text(const std::filesystem::path& file, const InternVlConfig& config, ChatStyle style)
        : tokenizer(text::read_tokenizer_file(file)), chat(tokenizer, config, style) {}
  };
  const Text& text() const;
  std::vector<family::Sequence> sequences(const lf_sample& sample) const;
  std::vector<family::Sequence> encode(const lf_sample& sample) const;
  // The number of <IMG_CONTEXT>: the model's, or the tokenizer's.
  int64_t context() const;

  const InternVlConfig config_;
  std::filesystem::path tokenizer_folder_;
  ChatStyle style_;
  LossWeighting weighting_;
  TileRules rules_;
  TileFiles files_;
  mutable std::once_flag text_once_;
  mutable std::unique_ptr<const Text> text_;
};

}  // namespace lf::internvl
