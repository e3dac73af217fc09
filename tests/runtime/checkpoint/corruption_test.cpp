// Every change of a checkpoint's bytes or files is found, and named.
#include <gmock/gmock.h>

#include "checkpoint/manifest.h"
#include "runtime/checkpoint/states.h"

namespace lf {
namespace {

using test::refusal;
using test::save;
using test::State;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Saved {
  test::MemoryScratch scratch;
  std::filesystem::path path;

  Saved() {
    PosixFileSystem files;
    path = save(files, scratch / "ckpt", State(42)).directory;
  }
  std::string refusal_of() const {
    return refusal([&] { Checkpoint::open(path, Verify::kHashes); });
  }
};

TEST(CheckpointCorruption, any_flipped_byte_of_any_file_is_found_and_the_file_named) {
  const Saved saved;
  int positions = 0;
  for (const auto& [name, good] : test::contents(saved.path)) {
    for (size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      test::spit(saved.path / name, bad);
      ASSERT_THAT(saved.refusal_of(), AllOf(StartsWith("65 "), HasSubstr(name))) << name << " at " << at;
      ++positions;
    }
    test::spit(saved.path / name, good);
  }
  EXPECT_GT(positions, 2000);
  EXPECT_EQ(saved.refusal_of(), "nothing");
}

TEST(CheckpointCorruption, a_flipped_byte_of_a_tensor_names_the_tensor) {
  const Saved saved;
  for (const char* file : {"parameters.safetensors", "optimizer.safetensors"}) {
    const std::string good = test::slurp(saved.path / file);
    const SafetensorsHeader header = SafetensorsHeader::parse(file, test::as_bytes(good), good.size());
    for (const TensorEntry& tensor : header.tensors()) {
      for (const uint64_t at : {tensor.begin, (tensor.begin + tensor.end) / 2, tensor.end - 1}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        test::spit(saved.path / file, bad);
        EXPECT_THAT(saved.refusal_of(), AllOf(HasSubstr(file), HasSubstr("in tensor " + tensor.name)));
      }
    }
    std::string bad = good;
    bad[20] = static_cast<char>(bad[20] ^ 1);
    test::spit(saved.path / file, bad);
    EXPECT_THAT(saved.refusal_of(), HasSubstr("in its header"));
    test::spit(saved.path / file, good);
  }
}

TEST(CheckpointCorruption, files_cut_short_or_grown_are_found) {
  const Saved saved;
  for (const auto& [name, good] : test::contents(saved.path)) {
    for (size_t i = 0; i < 100; ++i) {
      const size_t size = good.size() * i / 100;
      if (size == good.size()) continue;  // an empty file has nothing to lose
      test::spit(saved.path / name, good.substr(0, size));
      ASSERT_THAT(saved.refusal_of(), AllOf(StartsWith("65 "), HasSubstr(name))) << name << " cut to " << size;
    }
    test::spit(saved.path / name, good + "\n");
    ASSERT_THAT(saved.refusal_of(), AllOf(StartsWith("65 "), HasSubstr(name)));
    test::spit(saved.path / name, good);
  }
}

TEST(CheckpointCorruption, files_missing_added_renamed_and_swapped_are_found) {
  const Saved saved;
  const auto good = test::contents(saved.path);
  for (const auto& [name, bytes] : good) {
    std::filesystem::remove(saved.path / name);
    EXPECT_THAT(saved.refusal_of(), AllOf(StartsWith("65 "), HasSubstr(name)));
    std::filesystem::create_directory(saved.path / name);
    EXPECT_THAT(saved.refusal_of(), HasSubstr(name));
    std::filesystem::remove(saved.path / name);
    test::spit(saved.path / name, bytes);
  }
  test::spit(saved.path / "parameters-00002-of-00002.safetensors", "x");
  EXPECT_THAT(saved.refusal_of(),
              AllOf(HasSubstr("parameters-00002-of-00002.safetensors"), HasSubstr("does not list it")));
  std::filesystem::remove(saved.path / "parameters-00002-of-00002.safetensors");

  std::filesystem::rename(saved.path / "parameters.safetensors", saved.path / "p.safetensors");
  EXPECT_THAT(saved.refusal_of(), HasSubstr("p.safetensors"));
  std::filesystem::rename(saved.path / "p.safetensors", saved.path / "parameters.safetensors");

  test::spit(saved.path / "parameters.safetensors", good.at("optimizer.safetensors"));
  test::spit(saved.path / "optimizer.safetensors", good.at("parameters.safetensors"));
  EXPECT_THAT(saved.refusal_of(), HasSubstr(".safetensors: expected"));
  test::spit(saved.path / "parameters.safetensors", good.at("parameters.safetensors"));
  test::spit(saved.path / "optimizer.safetensors", good.at("optimizer.safetensors"));

  // The same file of another step has the same size.
  PosixFileSystem files;
  const auto other = save(files, saved.scratch / "other", State(43)).directory;
  for (const auto& [name, bytes] : good) {
    if (name == "balance_state.bin" || name == "model_state.bin") continue;  // equal in both
    test::spit(saved.path / name, test::slurp(other / name));
    EXPECT_THAT(saved.refusal_of(), StartsWith("65 ")) << name;
    test::spit(saved.path / name, bytes);
  }
  EXPECT_EQ(saved.refusal_of(), "nothing");
}

TEST(CheckpointCorruption, a_renamed_folder_is_found) {
  const Saved saved;
  std::filesystem::rename(saved.path, saved.scratch / "ckpt/step-00000050");
  EXPECT_THAT(refusal([&] { Checkpoint::open(saved.scratch / "ckpt/step-00000050", Verify::kHashes); }),
              AllOf(HasSubstr("renamed"), HasSubstr("step 42")));
  // Under a name that states no step it is a copy that someone kept.
  std::filesystem::rename(saved.scratch / "ckpt/step-00000050", saved.scratch / "ckpt/best");
  EXPECT_EQ(Checkpoint::open(saved.scratch / "ckpt/best", Verify::kHashes).state().step, 42);
}

TEST(CheckpointCorruption, a_manifest_without_a_checksum_is_refused) {
  const Saved saved;
  const CheckpointManifest manifest = parse_manifest("m", test::slurp(saved.path / "manifest.json"));
  EXPECT_EQ(manifest_text(manifest), test::slurp(saved.path / "manifest.json"));
  test::spit(saved.path / "manifest.json", R"({"files": {}, "format": 1, "step": 42})");
  EXPECT_THAT(saved.refusal_of(), HasSubstr("cut short or altered"));
  for (const std::string& text : {std::string(), std::string("{}"), std::string(1'000'000, '[')})
    EXPECT_THAT(refusal([&] { parse_manifest("m", text); }), StartsWith("65 m: "));
}

}  // namespace
}  // namespace lf
