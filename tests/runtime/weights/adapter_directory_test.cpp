// Directories of adapters, against the ones that Hugging Face peft wrote (tools/fixtures/make_adapters.py).
#include "weights/adapter_directory.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runtime/weights/scratch.h"

namespace lf {
namespace {

using test::Scratch;
using test::slurp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const char* const kFamilies[] = {"qwen2_5_vl", "qwen3_vl", "internvl3", "deepseek_v3", "flux", "wan"};

std::filesystem::path by_peft(const std::string& family) {
  return std::filesystem::path(LF_BUILD_DIR) / "fixtures/references" / (family + "-lora") / "adapter";
}

AdapterExport again(const AdapterDirectory& directory) {
  AdapterExport made;
  made.adapters = directory.adapters();
  for (const std::string& name : directory.tensors()) {
    const std::vector<int64_t> shape = directory.find(name)->shape;
    made.tensors.push_back({name, shape, directory.values(name, shape)});
  }
  return made;
}

TEST(AdapterDirectory, what_peft_saved_is_written_again_as_the_same_bytes) {
  for (const char* family : kFamilies) {
    SCOPED_TRACE(family);
    const Scratch scratch;
    PosixFileSystem files;
    const AdapterDirectory read = AdapterDirectory::open(by_peft(family));
    write_adapter_directory(files, again(read), scratch / "adapter");
    EXPECT_EQ(slurp(scratch / "adapter/adapter_model.safetensors"),
              slurp(by_peft(family) / "adapter_model.safetensors"));
    const auto theirs = nlohmann::json::parse(slurp(by_peft(family) / "adapter_config.json"));
    const auto ours = nlohmann::json::parse(slurp(scratch / "adapter/adapter_config.json"));
    for (const auto& [key, value] : ours.items()) EXPECT_TRUE(theirs.contains(key)) << "peft has no " << key;
    for (const char* key : {"peft_type", "bias", "use_dora", "use_rslora", "fan_in_fan_out", "lora_dropout"})
      EXPECT_EQ(ours[key], theirs[key]) << key;
    // Ranks and scales of every module survive, however they are shared out to r and the patterns.
    const AdapterDirectory opened = AdapterDirectory::open(scratch / "adapter");
    ASSERT_EQ(opened.adapters().size(), read.adapters().size());
    for (size_t i = 0; i < opened.adapters().size(); ++i) {
      EXPECT_EQ(opened.adapters()[i].module, read.adapters()[i].module);
      EXPECT_EQ(opened.adapters()[i].rank, read.adapters()[i].rank);
      EXPECT_EQ(opened.adapters()[i].alpha, read.adapters()[i].alpha);
    }
  }
}

TEST(AdapterDirectory, patterns_of_ranks_and_scales_are_read_as_peft_reads_them) {
  const AdapterDirectory directory = AdapterDirectory::open(by_peft("qwen2_5_vl"));
  for (const SavedAdapter& adapter : directory.adapters()) {
    const bool own = adapter.module.ends_with(".down_proj");  // rank 2 and alpha 6 there, else 4 and 8
    EXPECT_EQ(adapter.rank, own ? 2 : 4) << adapter.module;
    EXPECT_EQ(adapter.alpha, own ? 6 : 8) << adapter.module;
  }
}

TEST(AdapterDirectory, a_broken_directory_is_refused_with_file_and_reason) {
  const Scratch scratch;
  const auto copy = [&](const std::string& name) {
    std::filesystem::copy(by_peft("flux"), scratch / name, std::filesystem::copy_options::recursive);
    return scratch / name;
  };
  const auto open = [](const std::filesystem::path& path) {
    return test::refusal([&] { AdapterDirectory::open(path); });
  };
  EXPECT_THAT(open(scratch / "none"), StartsWith("66 lora.path: "));
  const auto text = copy("text");
  test::spit(text / "adapter_config.json", "no json");
  EXPECT_THAT(open(text), HasSubstr("adapter_config.json: expected a JSON object"));
  const auto cut = copy("cut");
  const std::string whole = slurp(cut / "adapter_model.safetensors");
  test::spit(cut / "adapter_model.safetensors", whole.substr(0, whole.size() - 4));
  EXPECT_THAT(open(cut), AllOf(StartsWith("65 "), HasSubstr("adapter_model.safetensors")));
  const auto scaled = copy("scaled");
  auto config = nlohmann::json::parse(slurp(scaled / "adapter_config.json"));
  config["use_rslora"] = true;
  test::spit(scaled / "adapter_config.json", config.dump());
  EXPECT_THAT(open(scaled), HasSubstr("use_rslora is set"));
}

}  // namespace
}  // namespace lf
