#include "text/tokenizer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "small_tokenizer.h"
#include "text/tokenizer.h"

namespace lf::text {
namespace {

using nlohmann::json;
using test::small_tokenizer;

// The code and message with which a file is refused.
sdk::Failure refusal(const std::string& text) {
  try {
    Tokenizer{parse_tokenizer(text, "tokenizer.json")};
  } catch (const sdk::Failure& failure) {
    return failure;
  }
  return sdk::Failure(LF_OK, "accepted");
}
sdk::Failure refusal(const json& file) { return refusal(file.dump()); }

void expect_refused(const json& file, int32_t code, const std::string& names) {
  const sdk::Failure failure = refusal(file);
  EXPECT_EQ(failure.code(), code) << failure.what();
  EXPECT_THAT(failure.what(), testing::HasSubstr(names));
}

TEST(TokenizerFile, the_smallest_file_is_accepted) { EXPECT_EQ(refusal(small_tokenizer()).code(), LF_OK); }

TEST(TokenizerFile, what_is_not_offered_is_refused_by_name) {
  const auto with = [](const char* pointer, json value) {
    json file = small_tokenizer();
    file[json::json_pointer(pointer)] = std::move(value);
    return file;
  };
  expect_refused(with("/model/type", "Unigram"), LF_E_UNSUPPORTED, "model.type: the model \"Unigram\"");
  expect_refused(with("/model/dropout", 0.1), LF_E_UNSUPPORTED, "model.dropout");
  expect_refused(with("/model/byte_fallback", true), LF_E_UNSUPPORTED, "model.byte_fallback");
  expect_refused(with("/model/end_of_word_suffix", "</w>"), LF_E_UNSUPPORTED, "model.end_of_word_suffix");
  expect_refused(with("/model/a_new_thing", 1), LF_E_UNSUPPORTED, "model.a_new_thing");
  expect_refused(with("/normalizer", {{"type", "Lowercase"}}), LF_E_UNSUPPORTED, "the normalizer \"Lowercase\"");
  expect_refused(with("/pre_tokenizer", {{"type", "Metaspace"}}), LF_E_UNSUPPORTED, "the pre-tokenizer \"Metaspace\"");
  expect_refused(with("/pre_tokenizer", {{"type", "Digits"}}), LF_E_UNSUPPORTED, "without ByteLevel");
  expect_refused(with("/decoder", {{"type", "WordPiece"}}), LF_E_UNSUPPORTED, "the decoder \"WordPiece\"");
  expect_refused(with("/a_new_section", 1), LF_E_UNSUPPORTED, "a_new_section");
  json letters = small_tokenizer();
  letters["model"]["byte_fallback"] = true;
  letters["pre_tokenizer"] = nullptr;
  expect_refused(letters, LF_E_UNSUPPORTED, "the decoder \"ByteLevel\"");
  letters["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "Strip"}, {"content", " "}}}}};
  expect_refused(letters, LF_E_UNSUPPORTED, "decoder.decoders[0].type: the decoder \"Strip\"");
  letters["decoder"]["decoders"] = {{{"type", "Fuse"}}};
  expect_refused(letters, LF_E_DATA, "a token \"<0x00>\"");
  expect_refused(with("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "b"}}),
                 LF_E_UNSUPPORTED, "normalizer.pattern.Regex");
  json split = small_tokenizer();
  for (const char* pattern : {R"([a-z&&[^b]])", R"(\h+)", R"((?m).)", R"(a\b)", R"([\S])"}) {
    split["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    expect_refused(split, LF_E_UNSUPPORTED, "Oniguruma");
  }
}

TEST(TokenizerFile, what_is_not_well_formed_is_refused_with_its_place) {
  const auto with = [](const char* pointer, json value) {
    json file = small_tokenizer();
    file[json::json_pointer(pointer)] = std::move(value);
    return file;
  };
  expect_refused(with("/model/vocab/ab", 0), LF_E_DATA, "0 or the spelling occurs twice");
  expect_refused(with("/model/vocab/ab", -1), LF_E_DATA, "model.vocab[\"ab\"]");
  expect_refused(with("/model/vocab/ab", 1'000'000'000'000), LF_E_DATA, "model.vocab[\"ab\"]");
  expect_refused(with("/model/vocab/ab", "x"), LF_E_DATA, "model.vocab[\"ab\"]");
  expect_refused(with("/model/vocab", json::array()), LF_E_DATA, "model.vocab");
  expect_refused(with("/model/merges", {"a b", "b c"}), LF_E_DATA, "model.merges[1]");
  expect_refused(with("/model/merges", {"a b", "a b"}), LF_E_DATA, "each merge once");
  expect_refused(with("/model/merges", {"a b c"}), LF_E_DATA, "model.merges[0]");
  expect_refused(with("/model/merges", {{"a", "b", "c"}}), LF_E_DATA, "model.merges[0]");
  expect_refused(with("/model/merges", {7}), LF_E_DATA, "model.merges[0]");
  json token = {{"id", 5}, {"content", "<s>"}, {"special", true}};
  expect_refused(with("/added_tokens", {token}), LF_E_DATA, "added_tokens[0].id");  // 5 is a byte
  token["id"] = 300;
  token["content"] = "";
  expect_refused(with("/added_tokens", {token}), LF_E_DATA, "added_tokens[0].content");
  json split = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}, {"invert", false}};
  expect_refused(with("/pre_tokenizer", split), LF_E_DATA, "pre_tokenizer.pattern");
  json without_byte = small_tokenizer();
  without_byte["model"]["vocab"].erase("z");
  expect_refused(without_byte, LF_E_DATA, "byte 0x7a");
}

TEST(TokenizerFile, a_file_cut_anywhere_is_an_error_and_not_a_crash) {
  json file = small_tokenizer();
  file["added_tokens"] = {{{"id", 300}, {"content", "<s>"}, {"special", true}}};
  const std::string whole = file.dump();
  ASSERT_EQ(refusal(whole).code(), LF_OK);
  for (size_t size = 0; size < whole.size(); size += 1 + size / 64)
    EXPECT_EQ(refusal(whole.substr(0, size)).code(), LF_E_DATA) << size;
}

TEST(TokenizerFile, deep_nesting_is_refused) {
  json stage = {{"type", "Digits"}, {"individual_digits", true}};
  for (int i = 0; i < 100; ++i) stage = {{"type", "Sequence"}, {"pretokenizers", {stage}}};
  json file = small_tokenizer();
  file["pre_tokenizer"] = stage;
  expect_refused(file, LF_E_UNSUPPORTED, "nesting");
}

TEST(TokenizerFile, a_file_that_is_not_there_is_named_with_the_next_move) {
  try {
    Tokenizer::load("/nowhere/tokenizer.json");
    FAIL() << "accepted";
  } catch (const sdk::Failure& failure) {
    EXPECT_THAT(failure.what(),
                testing::AllOf(testing::HasSubstr("/nowhere/tokenizer.json"), testing::HasSubstr("model.tokenizer")));
  }
}

}  // namespace
}  // namespace lf::text
