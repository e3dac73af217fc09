#include <gmock/gmock.h>

#include "runtime/checkpoint/states.h"

namespace lf {
namespace {

using test::refusal;
using test::save;
using test::State;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void break_tensor(const std::filesystem::path& checkpoint) {
  std::string bytes = test::slurp(checkpoint / "parameters.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::spit(checkpoint / "parameters.safetensors", bytes);
}

TEST(Resume, a_run_without_checkpoints_starts_at_the_beginning) {
  test::MemoryScratch scratch;
  EXPECT_FALSE(find_resume_point(scratch / "ckpt", Verify::kHashes).checkpoint);
  std::filesystem::create_directory(scratch / "ckpt");
  EXPECT_FALSE(find_resume_point(scratch / "ckpt", Verify::kHashes).checkpoint);
}

TEST(Resume, takes_the_newest_by_step_whatever_latest_says) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  for (const int64_t step : {9, 10, 100}) save(files, scratch / "ckpt", State(step), 5);
  test::spit(scratch / "ckpt/latest", "step-00000009\n");
  test::spit(scratch / "ckpt/notes.txt", "a user's");
  const ResumePoint point = find_resume_point(scratch / "ckpt", Verify::kHashes);
  ASSERT_TRUE(point.checkpoint);
  EXPECT_TRUE(point.skipped.empty());
  test::expect_equal(*point.checkpoint, State(100));
}

TEST(Resume, a_broken_newest_one_is_named_and_the_one_before_taken) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  for (const int64_t step : {10, 20, 30}) save(files, scratch / "ckpt", State(step), 5);
  break_tensor(scratch / "ckpt/step-00000030");
  std::filesystem::remove(scratch / "ckpt/step-00000020/manifest.json");
  const ResumePoint point = find_resume_point(scratch / "ckpt", Verify::kHashes);
  ASSERT_TRUE(point.checkpoint);
  test::expect_equal(*point.checkpoint, State(10));
  EXPECT_THAT(point.skipped, ElementsAre(AllOf(HasSubstr("step-00000030/parameters.safetensors"), HasSubstr("tensor")),
                                         AllOf(HasSubstr("step-00000020"), HasSubstr("no manifest.json"))));
}

TEST(Resume, with_no_whole_checkpoint_left_it_refuses_to_start_over) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  for (const int64_t step : {10, 20}) save(files, scratch / "ckpt", State(step), 5);
  break_tensor(scratch / "ckpt/step-00000010");
  std::filesystem::remove(scratch / "ckpt/step-00000020/optimizer.safetensors");
  EXPECT_THAT(refusal([&] { find_resume_point(scratch / "ckpt", Verify::kHashes); }),
              AllOf(StartsWith("65 "), HasSubstr("--fresh"), HasSubstr("step-00000010/parameters.safetensors"),
                    HasSubstr("step-00000020/optimizer.safetensors")));
}

TEST(Resume, whoever_cannot_start_over_says_another_next_move) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  EXPECT_FALSE(has_checkpoints(scratch / "ckpt"));
  save(files, scratch / "ckpt", State(10));
  break_tensor(scratch / "ckpt/step-00000010");
  EXPECT_TRUE(has_checkpoints(scratch / "ckpt"));
  EXPECT_THAT(refusal([&] { find_resume_point(scratch / "ckpt", Verify::kHashes, "fetch it again"); }),
              AllOf(HasSubstr("found none; fetch it again:"), Not(HasSubstr("--fresh"))));
}

TEST(Resume, sizes_alone_are_checked_where_asked) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  save(files, scratch / "ckpt", State(10));
  break_tensor(scratch / "ckpt/step-00000010");
  EXPECT_TRUE(find_resume_point(scratch / "ckpt", Verify::kSizes).checkpoint);
  std::filesystem::resize_file(scratch / "ckpt/step-00000010/optimizer.safetensors", 100);
  EXPECT_THAT(refusal([&] { find_resume_point(scratch / "ckpt", Verify::kSizes); }),
              HasSubstr("optimizer.safetensors"));
}

TEST(Resume, after_a_broken_newer_one_saving_goes_on_and_takes_its_place) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  for (const int64_t step : {10, 20}) save(files, scratch / "ckpt", State(step), 5);
  break_tensor(scratch / "ckpt/step-00000020");
  // The run went on from 10 and saves at 15: the broken one is neither counted nor removed.
  save(files, scratch / "ckpt", State(15), 1);
  EXPECT_EQ(test::entries(scratch / "ckpt"), (std::vector<std::string>{"latest", "step-00000015", "step-00000020"}));
  save(files, scratch / "ckpt", State(20), 1);
  EXPECT_EQ(test::entries(scratch / "ckpt"), (std::vector<std::string>{"latest", "step-00000020"}));
  test::expect_equal(*find_resume_point(scratch / "ckpt", Verify::kHashes).checkpoint, State(20));
}

TEST(Resume, reading_checks_names_and_shapes) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  save(files, scratch / "ckpt", State(10));
  const Checkpoint checkpoint = Checkpoint::open(scratch / "ckpt/step-00000010", Verify::kHashes);
  std::vector<float> out(40);
  const std::vector<int64_t> turned = {4, 10}, right = {10, 4};
  EXPECT_THAT(refusal([&] { checkpoint.read("embed.weight", turned, DType::kF32, out.data()); }),
              AllOf(HasSubstr("[4, 10]"), HasSubstr("[10, 4]")));
  EXPECT_THAT(refusal([&] { checkpoint.read("embed", right, DType::kF32, out.data()); }), HasSubstr("no tensor embed"));
  EXPECT_EQ(checkpoint.find("embed"), nullptr);
  // A box, as another layout would ask for it.
  Box column = whole(right);
  column.begin[1] = 2;
  column.end[1] = 3;
  checkpoint.read("embed.weight", right, column, DType::kF32, out.data());
  for (size_t row = 0; row < 10; ++row) EXPECT_EQ(out[row], State(10).values[0][row * 4 + 2]);
}

TEST(Resume, names_of_checkpoints_are_exact) {
  EXPECT_EQ(checkpoint_name(42), "step-00000042");
  EXPECT_EQ(checkpoint_step("/a/step-00000042"), 42);
  EXPECT_EQ(checkpoint_step("step-123456789"), 123456789);
  for (const char* other :
       {"step-42", "step-", "step-0000004x", "step-00000042.old", ".tmp-step-00000042", "step--0000042", "latest"})
    EXPECT_EQ(checkpoint_step(other), std::nullopt) << other;
}

}  // namespace
}  // namespace lf
