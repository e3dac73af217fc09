#include "data/line_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "scratch.h"

namespace lf {
namespace {

using testing::HasSubstr;

TEST(LineIndex, blank_lines_are_skipped_and_still_counted) {
  const Scratch scratch;
  const LineIndex lines(scratch.write("a", "one\n\n  \t\r\ntwo\r\nthree\n\n\n\nfour"));
  ASSERT_EQ(lines.size(), 4u);
  const std::pair<const char*, uint64_t> expected[] = {{"one", 1}, {"two", 4}, {"three", 5}, {"four", 9}};
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lines.read(i, 0), expected[i].first);
    EXPECT_EQ(lines.line_number(i), expected[i].second);
  }
}

TEST(LineIndex, a_byte_order_mark_is_no_part_of_the_first_line) {
  const Scratch scratch;
  const LineIndex lines(scratch.write("a", "\xEF\xBB\xBF{}\n{\"a\":1}"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines.read(0, 0), "{}");
  EXPECT_EQ(lines.read(1, 0), "{\"a\":1}");
}

TEST(LineIndex, files_without_any_line_have_none) {
  const Scratch scratch;
  for (const char* text : {"", "\n", " \r\n\t\n  ", "\xEF\xBB\xBF"})
    EXPECT_EQ(LineIndex(scratch.write("a", text)).size(), 0u) << testing::PrintToString(text);
}

TEST(LineIndex, lines_that_span_the_read_buffer_are_whole) {
  const Scratch scratch;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back(std::string(static_cast<size_t>(1 + i * 7919 % 200'003), static_cast<char>('a' + i % 26)));
    text += expected.back() + (i % 3 == 0 ? "\n\n" : "\r\n");
  }
  const LineIndex lines(scratch.write("a", text));
  ASSERT_EQ(lines.size(), expected.size());
  for (uint64_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines.read(i, 64), expected[i]) << i;
  EXPECT_EQ(lines.line_number(39), 39u + 13 + 1);
}

TEST(LineIndex, a_file_that_shrinks_is_an_error_and_no_crash) {
  const Scratch scratch;
  const auto path = scratch.write("a", "first\nsecond\nthird\n");
  const LineIndex lines(path);
  std::filesystem::resize_file(path, 8);
  EXPECT_EQ(lines.read(0, 0), "first");
  try {
    lines.read(2, 0);
    FAIL() << "read beyond the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kIo);
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ":3: expected 6 bytes"));
  }
}

TEST(LineIndex, what_is_no_regular_file_is_refused) {
  const Scratch scratch;
  const auto pipe = scratch.folder() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto exit_of = [](const std::filesystem::path& path) {
    try {
      const LineIndex lines(path);
      return Exit::kDone;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return error.exit();
    }
  };
  EXPECT_EQ(exit_of(pipe), Exit::kBadData);
  EXPECT_EQ(exit_of(scratch.folder()), Exit::kBadData);
  EXPECT_EQ(exit_of(scratch.folder() / "absent"), Exit::kInputMissing);
}

}  // namespace
}  // namespace lf
