#include "text/tokenizer.h"

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "small_tokenizer.h"

namespace lf::text {
namespace {

using nlohmann::json;
using test::small_tokenizer;

json read_json(const std::filesystem::path& path) { return json::parse(std::ifstream(path)); }
const std::filesystem::path kFixtures = std::filesystem::path(LF_SOURCE_DIR) / "tests/fixtures/tokenizer";
const std::filesystem::path kDeps = std::filesystem::path(LF_SOURCE_DIR) / ".deps";

Tokenizer make(const json& file) { return Tokenizer(parse_tokenizer(file.dump(), "test")); }

json added(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content}, {"special", special},  {"normalized", false},
          {"lstrip", false}, {"rstrip", false},    {"single_word", false}};
}

// Random text with a taste for what tokenizers trip over.
std::string random_text(std::mt19937_64& random) {
  static constexpr std::pair<uint32_t, uint32_t> kRanges[] = {{1, 0x7F},        {0x80, 0x250},    {0x300, 0x370},
                                                              {0x600, 0x700},   {0x900, 0xE80},   {0x2000, 0x2070},
                                                              {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0x1F300, 0x1FA00}};
  std::string out;
  const size_t letters = random() % 40;
  for (size_t i = 0; i < letters; ++i) {
    const auto [low, high] = kRanges[random() % std::size(kRanges)];
    const auto letter = static_cast<uint32_t>(low + random() % (high - low));
    if (letter < 0x80) {
      out += static_cast<char>(letter);
    } else if (letter < 0x800) {
      out += {static_cast<char>(0xC0 | letter >> 6), static_cast<char>(0x80 | (letter & 63))};
    } else if (letter < 0x10000) {
      out += {static_cast<char>(0xE0 | letter >> 12), static_cast<char>(0x80 | (letter >> 6 & 63)),
              static_cast<char>(0x80 | (letter & 63))};
    } else {
      out += {static_cast<char>(0xF0 | letter >> 18), static_cast<char>(0x80 | (letter >> 12 & 63)),
              static_cast<char>(0x80 | (letter >> 6 & 63)), static_cast<char>(0x80 | (letter & 63))};
    }
  }
  return out;
}

class RealTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(RealTokenizer, gives_the_recorded_ids_for_all_36_texts) {
  const auto file = kDeps / (std::string(GetParam()) + "_tokenizer/tokenizer.json");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there: tools/setup.sh makes it";
  const Tokenizer tokenizer = Tokenizer::load(file);
  const json cases = read_json(kFixtures / "tokenizer_cases.json");
  const auto& ids = cases["tokenizers"][GetParam()]["ids"];
  ASSERT_EQ(ids.size(), 36u);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string text = cases["texts"][i];
    EXPECT_EQ(tokenizer.encode(text), ids[i].get<std::vector<TokenId>>()) << cases["texts"][i].dump();
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, RealTokenizer, testing::Values("qwen2", "deepseek"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Tokenizer, does_with_each_feature_what_the_tokenizers_library_recorded) {
  const json fixture = read_json(kFixtures / "small_tokenizers.json");
  ASSERT_GE(fixture["cases"].size(), 20u);
  for (const json& one : fixture["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const Tokenizer tokenizer = make(one["tokenizer"]);
    for (size_t i = 0; i < fixture["texts"].size(); ++i) {
      const std::string text = fixture["texts"][i];
      EXPECT_EQ(tokenizer.encode(text), one["ids"][i].get<std::vector<TokenId>>()) << fixture["texts"][i].dump();
      EXPECT_EQ(tokenizer.encode_plain(text), one["plain_ids"][i].get<std::vector<TokenId>>())
          << fixture["texts"][i].dump();
    }
  }
}

// tests/fixtures/tokenizer/record_gemma_tokenizer.py
TEST(Tokenizer, of_gemmas_kind_gives_what_sentencepiece_and_its_conversion_give) {
  const json fixture = read_json(kFixtures / "gemma_tokenizer.json");
  const Tokenizer tokenizer = make(fixture["tokenizer"]);
  size_t of_both = 0;
  for (const json& one : fixture["cases"]) {
    const std::string text = one["text"];
    EXPECT_EQ(tokenizer.encode(text), one["ids"].get<std::vector<TokenId>>()) << one["text"].dump();
    if (!one.contains("sentencepiece")) continue;
    ++of_both;
    EXPECT_EQ(tokenizer.encode(text), one["sentencepiece"].get<std::vector<TokenId>>()) << one["text"].dump();
  }
  EXPECT_GE(of_both, 190u);
  // No blank before a text, and bytes for letters that the vocabulary lacks.
  EXPECT_NE(tokenizer.encode("push"), tokenizer.encode(" push"));
  EXPECT_EQ(tokenizer.encode("\u200b").size(), 3u);
}

TEST(Tokenizer, decoding_gives_back_the_bytes_of_any_text_that_is_not_normalised) {
  json file = small_tokenizer();
  file["pre_tokenizer"]["use_regex"] = true;
  const Tokenizer tokenizer = make(file);
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(random);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, decoding_gives_back_texts_over_letters_with_their_blanks_and_bytes) {
  const json fixture = read_json(kFixtures / "small_tokenizers.json");
  std::mt19937_64 random(11);
  int read = 0;
  for (const json& one : fixture["cases"]) {
    if (!one["name"].get<std::string>().starts_with("letters")) continue;
    const Tokenizer tokenizer = make(one["tokenizer"]);
    for (int i = 0; i < 500; ++i) {
      const std::string text = random_text(random) + "  hello\n\nworld ";
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
    ++read;
  }
  EXPECT_EQ(read, 4);
}

TEST(Tokenizer, a_text_that_spells_special_tokens_cannot_forge_structure) {
  json file = small_tokenizer();
  file["added_tokens"] = {added(300, "<|im_end|>", true), added(301, "<|box|>", true), added(302, "<think>", false)};
  const Tokenizer tokenizer = make(file);
  const std::string text = "a<|im_end|><|box|><think>";
  EXPECT_THAT(tokenizer.encode(text), testing::ElementsAre('a', 300, 301, 302));
  const auto plain = tokenizer.encode_plain(text);
  EXPECT_THAT(plain, testing::Not(testing::Contains(300)));
  EXPECT_THAT(plain, testing::Not(testing::Contains(301)));
  EXPECT_EQ(plain.back(), 302);
  EXPECT_EQ(tokenizer.decode(plain), text);
  const std::vector<TokenId> boxes{301};
  const auto with_boxes = tokenizer.encode_plain(text, boxes);
  EXPECT_THAT(with_boxes, testing::Contains(301));
  EXPECT_THAT(with_boxes, testing::Not(testing::Contains(300)));
}

TEST(Tokenizer, the_same_text_gives_the_same_ids_at_first_and_later_uses_and_on_many_threads) {
  json file = small_tokenizer();
  file["pre_tokenizer"]["use_regex"] = true;
  file["model"]["vocab"]["unreached"] = 400;
  const Tokenizer tokenizer = make(file), fresh = make(file);
  const std::string text = "abc abc unreached unreached ab";
  const auto first = tokenizer.encode(text);
  std::vector<std::vector<TokenId>> seen(8);
  std::vector<std::thread> threads;
  for (auto& ids : seen)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) ids = fresh.encode(text);
    });
  for (auto& thread : threads) thread.join();
  for (const auto& ids : seen) EXPECT_EQ(ids, first);
  EXPECT_THAT(first, testing::Not(testing::Contains(400)));
}

TEST(Tokenizer, invalid_utf8_is_refused_with_its_place) {
  const Tokenizer tokenizer = make(small_tokenizer());
  for (const std::string bad : {"ab\xff", "ab\xc3", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xc0\x80"}) {
    try {
      tokenizer.encode(bad);
      FAIL() << "accepted";
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      EXPECT_THAT(failure.what(), testing::HasSubstr("at byte 2"));
    }
  }
}

TEST(Tokenizer, a_pattern_that_explodes_on_a_text_is_an_error_and_soon) {
  json file = small_tokenizer();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(a|aa)+[!?]"}}}, {"behavior", "Isolated"}, {"invert", false}},
        file["pre_tokenizer"]}}};
  const Tokenizer tokenizer = make(file);
  const auto before = std::chrono::steady_clock::now();
  try {
    tokenizer.encode(std::string(4000, 'a'));
    FAIL() << "accepted";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_DATA);
    EXPECT_THAT(failure.what(), testing::HasSubstr("limit"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before,
            std::chrono::seconds(20));  // 0.1 s here; it must not be for ever
}

TEST(Tokenizer, a_million_equal_letters_take_no_quadratic_time) {
  const Tokenizer tokenizer = make(small_tokenizer());
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "abc";
  const auto ids = tokenizer.encode(text);
  EXPECT_EQ(ids.size(), 300'000u);
  EXPECT_EQ(ids.front(), 257);
}

TEST(Tokenizer, decoding_an_id_that_is_no_token_is_an_error) {
  const Tokenizer tokenizer = make(small_tokenizer());
  const std::vector<TokenId> ids{258}, negative{-1};
  EXPECT_THROW(tokenizer.decode(ids), sdk::Failure);
  EXPECT_THROW(tokenizer.decode(negative), sdk::Failure);
}

}  // namespace
}  // namespace lf::text
