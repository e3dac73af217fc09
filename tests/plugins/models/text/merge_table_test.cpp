#include "text/merge_table.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace lf::text {
namespace {

// The definition, word for word: look at all pairs, merge the lowest rank, the leftmost of equals, until none is left.
std::vector<TokenId> merge_by_definition(std::vector<TokenId> word,
                                         const std::map<std::pair<TokenId, TokenId>, std::pair<int, TokenId>>& merges) {
  while (true) {
    int best_rank = INT32_MAX;
    size_t best = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const auto found = merges.find({word[i], word[i + 1]});
      if (found != merges.end() && found->second.first < best_rank) {
        best_rank = found->second.first;
        best = i;
      }
    }
    if (best_rank == INT32_MAX) return word;
    word[best] = merges.at({word[best], word[best + 1]}).second;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeTable, short_and_long_words_merge_as_the_definition_says) {
  std::mt19937_64 random(3);
  for (int table = 0; table < 20; ++table) {
    std::map<std::pair<TokenId, TokenId>, std::pair<int, TokenId>> merges;
    MergeTable ours;
    TokenId next = 4;
    for (int i = 0; i < 60; ++i) {
      const auto left = static_cast<TokenId>(random() % static_cast<uint64_t>(next));
      const auto right = static_cast<TokenId>(random() % static_cast<uint64_t>(next));
      const bool fresh =
          merges.emplace(std::pair(left, right), std::pair(static_cast<int>(merges.size()), next)).second;
      EXPECT_EQ(ours.add(left, right, next), fresh);
      next += fresh;
    }
    for (const size_t length : {0u, 1u, 2u, 7u, 47u, 48u, 49u, 50u, 200u, 1000u}) {
      std::vector<TokenId> word(length);
      for (TokenId& token : word) token = static_cast<TokenId>(random() % 4);
      const auto expected = merge_by_definition(word, merges);
      ours.apply(word);
      EXPECT_EQ(word, expected) << length;
    }
  }
}

TEST(MergeTable, many_merges_are_all_found_after_the_table_grew) {
  MergeTable table;
  for (TokenId i = 0; i < 5000; ++i) ASSERT_TRUE(table.add(i, i + 1, 100'000 + i));
  EXPECT_EQ(table.count(), 5000u);
  for (TokenId i = 0; i < 5000; ++i) {
    std::vector<TokenId> word{i, i + 1};
    table.apply(word);
    ASSERT_EQ(word, std::vector<TokenId>{100'000 + i});
  }
}

}  // namespace
}  // namespace lf::text
