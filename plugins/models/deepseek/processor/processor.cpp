#include "deepseek/processor/processor.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "deepseek/processor/features.h"
#include "family/fields.h"
#include "family/job_request.h"
#include "family/packing.h"
#include "family/sample_place.h"
#include "lf/plugin_sdk/guard.hpp"
#include "text/job_tokenizer.h"

namespace lf::deepseek {
namespace {

using nlohmann::json;

ChatStyle style_of(const std::string& name, const DeepseekConfig& config) {
  if (name.empty() || name == "auto") return config.indexer ? ChatStyle::kV31 : ChatStyle::kV3;
  if (name == "deepseek_v3") return ChatStyle::kV3;
  if (name == "deepseek_v31") return ChatStyle::kV31;
  throw sdk::Failure(LF_E_INVALID,
                     fmt::format("data.chat_template: expected auto, deepseek_v3 or deepseek_v31, got {:?}", name));
}

}  // namespace

Processor::Processor(const DeepseekConfig& config, const json& request_json)
    : vocabulary_(config.vocab_size), top_k_(config.indexer ? config.indexer->top_k : 0) {
  const family::JobRequest request = family::read_request(request_json);
  style_ = style_of(request.chat_template, config);
  tokenizer_folder_ = request.tokenizer;
  if (request.has_samples) text();  // a broken tokenizer is the job's fault, told before any sample
}

const Processor::Text& Processor::text() const {
  std::call_once(text_once_, [&] {
    text_ = text::open_job_tokenizer(tokenizer_folder_, [&](const std::filesystem::path& file) {
      return std::make_unique<const Text>(file, vocabulary_, style_);
    });
  });
  return *text_;
}

std::vector<family::Sequence> Processor::encode(const lf_sample& sample) const {
  if (sample.n_fields > 0) {
    family::Fields fields({sample.fields, sample.n_fields}, "deepseek");
    fields.ignore({"position_ids"});  // computed
    std::vector<family::Sequence> sequences = family::read_tokens(fields, vocabulary_).sequences;
    fields.refuse_the_rest();
    return sequences;
  }
  const std::string_view given = sdk::view(sample.json);
  const std::optional<std::string> words = family::parse_plain_text(given);
  return {words ? text().chat.encode(*words) : text().chat.encode(family::parse_conversation(given))};
}

std::vector<family::Sequence> Processor::sequences(const lf_sample& sample) const {
  return family::at_place(sample, [&] {
    std::vector<family::Sequence> out = encode(sample);
    family::cut_all(out, sample.max_rows);
    return out;
  });
}

std::vector<double> Processor::features(const lf_sample& sample) const {
  return features_of(sequences(sample), top_k_);
}

family::Columns Processor::collate(std::span<const lf_sample* const> samples) const {
  std::vector<family::Sequence> all;
  for (const lf_sample* sample : samples)
    for (family::Sequence& sequence : sequences(*sample)) all.push_back(std::move(sequence));
  family::Columns out;
  family::pack(all).add_to(out);
  return out;
}

}  // namespace lf::deepseek
