#include "causal_lm/processor/processor.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/conversation.h"
#include "family/cost.h"
#include "family/fields.h"
#include "family/job_request.h"
#include "family/packing.h"
#include "family/position_bound.h"
#include "family/sample_place.h"
#include "text/job_tokenizer.h"

namespace lf::causal_lm {
namespace {

using family::Sequence;
using nlohmann::json;

std::vector<Sequence> read_tensors(const lf_sample& sample, int64_t vocabulary) {
  family::Fields fields({sample.fields, sample.n_fields}, "a text model");
  fields.ignore({"position_ids"});
  family::TokenRows rows = family::read_tokens(fields, vocabulary);
  fields.refuse_the_rest();
  return std::move(rows.sequences);
}

}  // namespace

Processor::Processor(const CausalLmConfig& config, const json& request_json) : config_(config) {
  const family::JobRequest request = family::read_request(request_json);
  tokenizer_folder_ = request.tokenizer;
  const std::string& style = request.chat_template;
  if (style == "llama3" || ((style.empty() || style == "auto") && config.type == "llama")) {
    style_ = ChatStyle::kLlama3;
  } else if (!style.empty() && style != "auto" && style != "chatml") {
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("data.chat_template: expected auto, chatml or llama3, got {:?}", style));
  }
  if (request.has_samples) text();  // a broken tokenizer is the job's fault, told before any sample
}

const Processor::Text& Processor::text() const {
  std::call_once(text_once_, [&] {
    text_ = text::open_job_tokenizer(tokenizer_folder_, [&](const std::filesystem::path& file) {
      return std::make_unique<const Text>(file, config_.text.vocab_size, style_);
    });
  });
  return *text_;
}

std::vector<Sequence> Processor::sequences(const lf_sample& sample) const {
  std::vector<Sequence> out;
  if (sample.n_fields > 0) {
    out = read_tensors(sample, config_.text.vocab_size);
  } else {
    const std::string_view given = sdk::view(sample.json);
    const std::optional<std::string> words = family::parse_plain_text(given);
    out.push_back(words ? text().chat.encode(*words) : text().chat.encode(family::parse_conversation(given)));
  }
  family::cut_all(out, sample.max_rows);
  family::refuse_beyond_positions(out, config_.text);
  return out;
}

family::Features Processor::features(const lf_sample& sample) const {
  return family::at_place(sample, [&] { return family::Features{family::language_features(sequences(sample))}; });
}

family::Columns Processor::collate(std::span<const lf_sample* const> samples) const {
  std::vector<Sequence> all;
  for (const lf_sample* sample : samples)
    for (Sequence& sequence : family::at_place(*sample, [&] { return sequences(*sample); }))
      all.push_back(std::move(sequence));
  family::Packed packed = family::pack(all);
  const int64_t rows = packed.rows();
  std::vector<int64_t> positions(static_cast<size_t>(rows));
  for (size_t s = 0; s < all.size(); ++s)
    std::iota(positions.begin() + packed.starts[s], positions.begin() + packed.starts[s + 1], 0);
  family::Columns out;
  out.add("position_ids", family::integer_column(std::move(positions), {1, rows}));
  packed.add_to(out);
  return out;
}

}  // namespace lf::causal_lm
