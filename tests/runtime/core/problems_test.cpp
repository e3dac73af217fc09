#include "core/problems.h"

#include <gtest/gtest.h>

namespace lf {
namespace {

TEST(Problems, all_are_told_in_one_error_with_the_exit_code_of_the_first) {
  Problems problems;
  EXPECT_NO_THROW(problems.refuse_if_any());
  EXPECT_TRUE(problems.attempt([] {}));
  EXPECT_FALSE(problems.attempt([] { fail(Exit::kInputMissing, "a.jsonl does not exist"); }));
  problems.add(Exit::kConfig, "model.freeze: matches nothing");
  problems.add(Exit::kConfig, "model.freeze: matches nothing");
  try {
    problems.refuse_if_any();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kInputMissing);
    EXPECT_STREQ(error.what(), "a.jsonl does not exist\nmodel.freeze: matches nothing");
  }
}

TEST(Problems, what_is_no_error_of_ours_passes_through) {
  Problems problems;
  EXPECT_THROW(problems.attempt([] { throw std::runtime_error("a bug"); }), std::runtime_error);
  EXPECT_TRUE(problems.empty());
}

TEST(Problems, lines_of_one_text_count_one_by_one_but_for_those_that_go_on) {
  Problems problems;
  problems.add(Exit::kConfig, "a: wrong\nb: wrong, as\n  b.1\n  b.2\nc: wrong");
  problems.add(Exit::kConfig, "c: wrong");
  EXPECT_EQ(problems.size(), 3u);
  try {
    problems.refuse_job_if_any();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a: wrong\nb: wrong, as\n  b.1\n  b.2\nc: wrong\nnot valid: 3 mistakes");
  }
}

}  // namespace
}  // namespace lf
