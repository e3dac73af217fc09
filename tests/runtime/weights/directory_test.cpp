#include "weights/directory.h"

#include <gmock/gmock.h>

#include "runtime/weights/scratch.h"

namespace lf {
namespace {

using test::fixture;
using test::refusal;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void copy_sharded(const test::Scratch& scratch) {
  std::filesystem::copy(fixture("sharded"), scratch.path(), std::filesystem::copy_options::recursive);
}

std::string open_refusal(const test::Scratch& scratch) {
  return refusal([&] { ModelDirectory::open(scratch.path()); });
}

void write_index(const test::Scratch& scratch, const std::string& from, const std::string& to) {
  std::string index = test::slurp(fixture("sharded/model.safetensors.index.json"));
  const size_t at = index.find(from);
  ASSERT_NE(at, index.npos);
  test::spit(scratch / "model.safetensors.index.json", index.replace(at, from.size(), to));
}

TEST(ModelDirectory, opens_shards_by_their_index) {
  const ModelDirectory directory = ModelDirectory::open(fixture("sharded"));
  EXPECT_EQ(directory.files().size(), 3u);
  EXPECT_EQ(directory.names().size(), 10u);
  EXPECT_EQ(directory.index_file(), "model.safetensors.index.json");
  const StoredTensor found = directory.find("layers.2.mlp.weight");
  ASSERT_NE(found.file, nullptr);
  EXPECT_EQ(found.file->path().filename(), "model-00002-of-00003.safetensors");
  EXPECT_EQ(found.entry->shape, (std::vector<int64_t>{16, 6}));
  EXPECT_EQ(directory.find("layers.3.mlp.weight").file, nullptr);
}

TEST(ModelDirectory, opens_a_single_file_and_gives_the_config_text) {
  test::Scratch scratch;
  std::filesystem::copy(fixture("plain.safetensors"), scratch / "model.safetensors");
  test::spit(scratch / "config.json", "{\"a\": 1}");
  const ModelDirectory directory = ModelDirectory::open(scratch.path());
  EXPECT_EQ(directory.config(), "{\"a\": 1}");
  EXPECT_TRUE(directory.index_file().empty());
  EXPECT_EQ(directory.names(), std::vector<std::string>{"w"});
}

TEST(ModelDirectory, an_index_may_not_name_files_elsewhere) {
  for (const char* evil : {"../model-00001-of-00003.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ""}) {
    test::Scratch scratch;
    copy_sharded(scratch);
    write_index(scratch, "model-00001-of-00003.safetensors", evil);
    EXPECT_THAT(open_refusal(scratch),
                AllOf(StartsWith("65 "), HasSubstr("same folder"), HasSubstr("layers.0.attn.q.weight")))
        << evil;
  }
}

TEST(ModelDirectory, an_index_and_files_that_disagree_are_refused_by_the_tensors_name) {
  {
    test::Scratch scratch;
    copy_sharded(scratch);
    std::filesystem::remove(scratch / "model-00002-of-00003.safetensors");
    EXPECT_THAT(open_refusal(scratch),
                AllOf(StartsWith("66 "), HasSubstr("model-00002-of-00003.safetensors"), HasSubstr("missing")));
  }
  {
    test::Scratch scratch;
    copy_sharded(scratch);
    write_index(scratch, "\"layers.1.mlp.weight\": \"model-00001", "\"layers.1.mlp.weight\": \"model-00002");
    EXPECT_THAT(open_refusal(scratch), AllOf(StartsWith("65 "), HasSubstr("layers.1.mlp.weight")));
  }
  {
    test::Scratch scratch;
    copy_sharded(scratch);
    write_index(scratch, "\"embed.weight\"",
                "\"another.weight\": \"model-00003-of-00003.safetensors\", \"embed.weight\"");
    EXPECT_THAT(open_refusal(scratch), AllOf(StartsWith("65 "), HasSubstr("another.weight"), HasSubstr("is not")));
  }
  {
    test::Scratch scratch;
    copy_sharded(scratch);
    write_index(scratch, "    \"layers.1.mlp.weight\": \"model-00001-of-00003.safetensors\",\n", "");
    EXPECT_THAT(open_refusal(scratch),
                AllOf(StartsWith("65 "), HasSubstr("layers.1.mlp.weight"), HasSubstr("is not in")));
  }
  {
    test::Scratch scratch;
    copy_sharded(scratch);
    std::filesystem::copy(scratch / "model-00003-of-00003.safetensors", scratch / "model-00004-of-00003.safetensors");
    write_index(scratch, "\"embed.weight\": ", "\"x\": \"model-00004-of-00003.safetensors\", \"embed.weight\": ");
    EXPECT_THAT(open_refusal(scratch), AllOf(StartsWith("65 "), HasSubstr("embed.weight"), HasSubstr("alone")));
  }
}

TEST(ModelDirectory, bad_indices_are_refused) {
  const std::string deep(100'000, '[');
  for (const std::string& index :
       {std::string("{}"), std::string("[1"), std::string("{\"weight_map\": {\"a\": 1}}"),
        std::string("{\"weight_map\": {\"a\": {}}}"), "{\"weight_map\": " + deep, "{\"x\": " + deep,
        std::string("{\"weight_map\": {\"a\": \"x\", \"a\": \"x\"}}"), std::string("\xff\xfe"),
        std::string("{\"weight_map\": {\"a\": \"model.safetensors\"}}\0", 43)}) {
    test::Scratch scratch;
    test::spit(scratch / "model.safetensors.index.json", index);
    EXPECT_THAT(open_refusal(scratch), StartsWith("65 " + (scratch / "model.safetensors.index.json").string()))
        << index.substr(0, 50);
  }
}

TEST(ModelDirectory, what_is_no_model_folder_is_refused_with_what_was_looked_for) {
  test::Scratch scratch;
  EXPECT_THAT(open_refusal(scratch), AllOf(StartsWith("66 "), HasSubstr("model.safetensors")));
  test::spit(scratch / "pytorch_model.bin", "x");
  EXPECT_THAT(open_refusal(scratch), AllOf(StartsWith("65 "), HasSubstr("convert")));
  EXPECT_THAT(refusal([&] { ModelDirectory::open(scratch / "nowhere"); }), StartsWith("66 "));
  std::filesystem::copy(fixture("sharded"), scratch.path(), std::filesystem::copy_options::recursive);
  test::spit(scratch / "model.safetensors", test::slurp(fixture("plain.safetensors")));
  EXPECT_THAT(open_refusal(scratch), AllOf(StartsWith("65 "), HasSubstr("has both")));
}

}  // namespace
}  // namespace lf
