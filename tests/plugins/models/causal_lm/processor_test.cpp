// Conversations and tensors to token rows, with a tokenizer of bytes.
#include "causal_lm/processor/processor.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/qwen_vl_processor/tensors.h"
#include "plugins/models/text/small_tokenizer.h"

namespace lf::causal_lm {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// small_tokenizer has ids 0 to 257.
constexpr int64_t kImStart = 258, kImEnd = 259, kBegin = 260, kHeader = 261, kHeaderEnd = 262, kEot = 263,
                  kEndOfText = 264, kLlamaEnd = 265, kVocab = 266;

class ProcessorTest : public testing::Test {
 protected:
  ProcessorTest() {
    json tokenizer = test::small_tokenizer();
    int64_t id = kImStart;
    for (const char* mark : {"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
                             "<|end_header_id|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>"})
      tokenizer["added_tokens"].push_back({{"id", id++},
                                           {"content", mark},
                                           {"single_word", false},
                                           {"lstrip", false},
                                           {"rstrip", false},
                                           {"normalized", false},
                                           {"special", true}});
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("lf_causal_lm_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "tokenizer.json") << tokenizer.dump();
    config_.type = "qwen3";
    config_.text.vocab_size = kVocab;
  }
  ~ProcessorTest() override { std::filesystem::remove_all(folder_); }

  Processor processor(const std::string& style = "") const {
    return {config_, {{"tokenizer", folder_.string()}, {"data", {{"chat_template", style}}}}};
  }
  static lf_sample sample_of(const std::string& text, int64_t max_rows = 0) {
    auto sample = sdk::with_header<lf_sample>();
    sample.json = sdk::str(text);
    sample.place = sdk::str("data.jsonl:7");
    sample.max_rows = max_rows;
    return sample;
  }
  using Rows = std::map<std::string, std::vector<int64_t>>;
  static Rows columns(const Processor& processor, const std::vector<lf_sample>& samples) {
    std::vector<const lf_sample*> given;
    for (const lf_sample& sample : samples) given.push_back(&sample);
    const family::Columns made = processor.collate(given);
    Rows out;
    for (const char* name : {"input_ids", "targets", "position_ids", "segment_starts"})
      out[name] = test::integers(made.view(), name);
    return out;
  }
  static std::string chat(const std::string& question, const std::string& answer) {
    const auto text = [](const std::string& words) { return json::array({{{"type", "text"}, {"text", words}}}); };
    return json{{"messages",
                 {{{"role", "user"}, {"train", false}, {"content", text(question)}},
                  {{"role", "assistant"}, {"train", true}, {"content", text(answer)}}}}}
        .dump();
  }
  std::filesystem::path folder_;
  CausalLmConfig config_;
};

std::vector<int64_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }
void append(std::vector<int64_t>& to, const std::vector<int64_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

TEST_F(ProcessorTest, chatml_learns_the_answer_and_its_end_and_nothing_else) {
  const std::string given = chat("Hi", "Yo");
  const auto made = columns(processor(), {sample_of(given)});
  std::vector<int64_t> ids = {kImStart};
  append(ids, bytes("user\nHi"));
  ids.push_back(kImEnd);
  append(ids, bytes("\n"));
  ids.push_back(kImStart);
  append(ids, bytes("assistant\n"));
  const size_t answer = ids.size();
  append(ids, bytes("Yo"));
  ids.push_back(kImEnd);
  append(ids, bytes("\n"));
  EXPECT_EQ(made.at("input_ids"), ids);
  std::vector<int64_t> targets(ids.size(), -100);  // what the next row is
  targets[answer - 1] = 'Y';
  targets[answer] = 'o';
  targets[answer + 1] = kImEnd;
  EXPECT_EQ(made.at("targets"), targets);
}

TEST_F(ProcessorTest, llama_is_written_with_its_own_headers_and_the_job_may_say_otherwise) {
  config_.type = "llama";
  const std::string given = chat("Hi", "Yo");
  std::vector<int64_t> ids = {kBegin};
  for (const auto& [role, words] : {std::pair{"user", "Hi"}, std::pair{"assistant", "Yo"}}) {
    ids.push_back(kHeader);
    append(ids, bytes(role));
    ids.push_back(kHeaderEnd);
    append(ids, bytes(std::string("\n\n") + words));
    ids.push_back(kEot);
  }
  EXPECT_EQ(columns(processor(), {sample_of(given)}).at("input_ids"), ids);
  EXPECT_EQ(columns(processor("chatml"), {sample_of(given)}).at("input_ids")[0], kImStart);
  try {
    processor("alpaca");
    FAIL() << "accepted";
  } catch (const sdk::Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("data.chat_template: expected auto, chatml or llama3, got \"alpaca\""));
  }
}

TEST_F(ProcessorTest, llamas_conversations_are_written_as_transformers_writes_them_with_the_published_template) {
  const json recorded = json::parse(std::ifstream(LF_SOURCE_DIR "/tests/fixtures/processor/llama3.json"));
  const std::pair<std::string_view, int64_t> marks[] = {{"<|begin_of_text|>", kBegin},
                                                        {"<|start_header_id|>", kHeader},
                                                        {"<|end_header_id|>", kHeaderEnd},
                                                        {"<|eot_id|>", kEot}};
  ASSERT_EQ(recorded["cases"].size(), 4u);
  for (const json& one : recorded["cases"]) {
    json messages = json::array();
    for (const json& message : one["messages"])
      messages.push_back({{"role", message["role"]},
                          {"train", false},
                          {"content", {{{"type", "text"}, {"text", message["content"]}}}}});
    std::vector<int64_t> ids;
    const std::string written = one["written"];
    for (std::string_view left = written; !left.empty();) {
      const auto* mark =
          std::find_if(std::begin(marks), std::end(marks), [&](const auto& m) { return left.starts_with(m.first); });
      ids.push_back(mark == std::end(marks) ? static_cast<uint8_t>(left[0]) : mark->second);
      left.remove_prefix(mark == std::end(marks) ? 1 : mark->first.size());
    }
    const std::string given = json{{"messages", messages}}.dump();
    EXPECT_EQ(columns(processor("llama3"), {sample_of(given)}).at("input_ids"), ids) << one.dump();
  }
  // What a message holds beside its own ends is another item's end.
  const std::string given = R"({"messages": [{"role": "assistant", "train": true, "content": [
      {"type": "text", "text": " a "}, {"type": "text", "text": " b "}]}]})";
  std::vector<int64_t> learnt = columns(processor("llama3"), {sample_of(given)}).at("targets");
  std::erase(learnt, -100);
  EXPECT_THAT(learnt, ElementsAre('a', ' ', ' ', 'b', kEot));
}

TEST_F(ProcessorTest, a_plain_text_is_learnt_whole_with_its_end) {
  const std::string given = R"({"text": "Once <|im_end|>"})";
  const auto chatml = columns(processor(), {sample_of(given)});
  std::vector<int64_t> ids = bytes("Once <|im_end|>");
  ids.push_back(kEndOfText);
  EXPECT_EQ(chatml.at("input_ids"), ids);
  std::vector<int64_t> targets(ids.begin() + 1, ids.end());
  targets.push_back(-100);
  EXPECT_EQ(chatml.at("targets"), targets);
  const auto llama = columns(processor("llama3"), {sample_of(given)});
  EXPECT_EQ(llama.at("input_ids").front(), kBegin);
  EXPECT_EQ(llama.at("input_ids").back(), kLlamaEnd);
  EXPECT_EQ(llama.at("targets").front(), 'O');
}

TEST_F(ProcessorTest, marks_that_a_text_spells_stay_text) {
  const std::string given = chat("a<|im_end|>b", "<|im_start|>");
  const auto ids = columns(processor(), {sample_of(given)}).at("input_ids");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kImEnd), 2);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kImStart), 2);
}

TEST_F(ProcessorTest, packed_samples_begin_anew_at_position_0_and_features_promise_their_rows) {
  const Processor made = processor();
  const std::string first = chat("Hi", "Yo"), second = chat("Who are you?", "Nobody");
  const auto one = columns(made, {sample_of(first)}), two = columns(made, {sample_of(second)});
  const auto both = columns(made, {sample_of(first), sample_of(second)});
  const auto n = static_cast<int64_t>(one.at("input_ids").size()), m = static_cast<int64_t>(two.at("input_ids").size());
  for (const char* name : {"input_ids", "targets", "position_ids"}) {
    std::vector<int64_t> expected = one.at(name);
    append(expected, two.at(name));
    EXPECT_EQ(both.at(name), expected) << name;
  }
  EXPECT_THAT(both.at("segment_starts"), ElementsAre(0, n, n + m));
  EXPECT_EQ(both.at("position_ids")[static_cast<size_t>(n)], 0);
  const lf_sample sample = sample_of(second);
  const family::Features features = made.features(sample);
  ASSERT_EQ(features.size(), 1u);
  EXPECT_EQ(features[0][0], static_cast<double>(m));
}

TEST_F(ProcessorTest, a_long_sample_is_cut_and_learns_nothing_beyond_the_cut) {
  const std::string given = chat("Hi", std::string(200, 'x'));
  const auto made = columns(processor(), {sample_of(given, 50)});
  EXPECT_EQ(made.at("input_ids").size(), 50u);
  EXPECT_EQ(made.at("targets").back(), -100);
  EXPECT_EQ(made.at("targets")[48], 'x');
}

TEST_F(ProcessorTest, a_sample_beyond_the_positions_of_a_dynamic_rotation_is_refused_by_features_and_collate) {
  config_.text.bounded_positions = true;
  config_.text.max_position_embeddings = 50;
  const Processor made = processor();
  const std::string given = chat("Hi", std::string(200, 'x'));
  const auto reason = [&](int64_t max_rows, auto&& use) {
    const lf_sample sample = sample_of(given, max_rows);
    try {
      use(sample);
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      return std::string(failure.what());
    }
    return std::string("accepted");
  };
  const auto features = [&](const lf_sample& sample) { made.features(sample); };
  const auto collate = [&](const lf_sample& sample) {
    const lf_sample* samples[] = {&sample};
    made.collate(samples);
  };
  const std::string wanted = "data.jsonl:7: a sample of 51 tokens: beyond max_position_embeddings 50";
  EXPECT_THAT(reason(51, features), HasSubstr(wanted));
  EXPECT_THAT(reason(51, collate), HasSubstr(wanted));
  EXPECT_EQ(reason(50, features), "accepted");
  EXPECT_EQ(reason(50, collate), "accepted");
  config_.text.bounded_positions = false;
  EXPECT_EQ(columns(processor(), {sample_of(given, 51)}).at("input_ids").size(), 51u);
}

TEST_F(ProcessorTest, bad_samples_are_refused_by_their_place) {
  const Processor made = processor();
  const auto reason = [&](const std::string& text) {
    try {
      made.features(sample_of(text));
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      return std::string(failure.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(reason(R"({"messages": [{"role": "user", "content": [{"type": "image", "path": "/a.png"}]}]})"),
              HasSubstr("data.jsonl:7: a picture or a video: this model reads text only"));
  EXPECT_THAT(reason(R"({"messages": []})"), HasSubstr("data.jsonl:7: messages"));
  EXPECT_THAT(reason("{"), HasSubstr("data.jsonl:7: sample: expected JSON"));
  EXPECT_THAT(reason(R"({"text": ""})"), HasSubstr("data.jsonl:7: text: expected a string that is not empty"));
  EXPECT_THAT(reason(R"({"text": ["a"]})"), HasSubstr("data.jsonl:7: text"));
}

TEST_F(ProcessorTest, tensors_out_of_the_vocabulary_of_wrong_shapes_or_unknown_names_are_refused) {
  const Processor made = processor();
  const auto reason = [&](const std::string& name, std::vector<int64_t> ids, std::vector<int64_t> more) {
    test::NamedTensors tensors;
    const auto add = [&](const std::string& of, std::vector<int64_t>& values) {
      tensors.add_integers(of, values, {1, static_cast<int64_t>(values.size())});
    };
    add("input_ids", ids);
    add(name, more);
    auto sample = sdk::with_header<lf_sample>();
    sample.fields = tensors.view().data();
    sample.n_fields = 2;
    sample.place = sdk::str("case");
    try {
      made.features(sample);
    } catch (const sdk::Failure& failure) {
      return std::string(failure.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(reason("labels", {1, 2, 3}, {-100, 2, 3}), "accepted");
  EXPECT_THAT(reason("labels", {1, kVocab, 3}, {-100, 2, 3}), HasSubstr("input_ids"));
  EXPECT_THAT(reason("labels", {1, 2, 3}, {-100, 2, kVocab}), HasSubstr("labels"));
  EXPECT_THAT(reason("labels", {1, 2, 3}, {-100, 2}), HasSubstr("labels"));
  EXPECT_THAT(reason("pixel_values", {1, 2, 3}, {1, 2, 3}), HasSubstr("pixel_values"));
}

}  // namespace
}  // namespace lf::causal_lm
