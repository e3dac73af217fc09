// Directories of adapters, against the ones that Hugging Face peft wrote (tools/fixtures/make_adapters.py).
#include "weights/adapter_directory.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runtime/weights/scratch.h"

namespace lf {
namespace {

using test::Scratch;
using test::slurp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const char* const kFamilies[] = {"qwen2_5_vl-lora",
                                 "qwen3_vl-lora",
                                 "internvl3-lora",
                                 "deepseek_v3-lora",
                                 "flux-lora",
                                 "wan-lora",
                                 "qwen2_5_vl-lora_vocabulary",
                                 "qwen3_vl_moe-lora_vocabulary",
                                 "internvl35_moe-lora_vocabulary",
                                 "deepseek_v3-lora_vocabulary"};

std::filesystem::path by_peft(const std::string& name) {
  return std::filesystem::path(LF_BUILD_DIR) / "fixtures/references" / name / "adapter";
}

AdapterExport again(const AdapterDirectory& directory) {
  AdapterExport made;
  made.adapters = directory.adapters();
  made.ties = directory.ties();
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
    write_adapter_directory(files, again(read), {}, scratch / "adapter");
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
      EXPECT_EQ(opened.adapters()[i].parameter, read.adapters()[i].parameter);
      EXPECT_EQ(opened.adapters()[i].table, read.adapters()[i].table);
    }
  }
}

TEST(AdapterDirectory, patterns_of_ranks_and_scales_are_read_as_peft_reads_them) {
  const AdapterDirectory directory = AdapterDirectory::open(by_peft("qwen2_5_vl-lora"));
  for (const SavedAdapter& adapter : directory.adapters()) {
    const bool own = adapter.module.ends_with(".down_proj");  // rank 2 and alpha 6 there, else 4 and 8
    EXPECT_EQ(adapter.rank, own ? 2 : 4) << adapter.module;
    EXPECT_EQ(adapter.alpha, own ? 6 : 8) << adapter.module;
  }
}

TEST(AdapterDirectory, experts_and_tables_are_told_apart_from_maps) {
  const AdapterDirectory directory = AdapterDirectory::open(by_peft("internvl35_moe-lora_vocabulary"));
  size_t tables = 0, stacks = 0;
  for (const SavedAdapter& adapter : directory.adapters()) {
    tables += adapter.table ? 1 : 0;
    stacks += adapter.parameter.empty() ? 0 : 1;
    if (!adapter.parameter.empty()) {
      EXPECT_EQ(adapter.rank, adapter.parameter == "down_proj" ? 2 : 4) << "of each expert, by the pattern";
    }
    EXPECT_EQ(adapter.module.find("base_layer"), std::string::npos);
  }
  EXPECT_EQ(tables, 1u);
  EXPECT_EQ(stacks, 4u);
  EXPECT_FALSE(directory.ties());
  EXPECT_TRUE(AdapterDirectory::open(by_peft("qwen2_5_vl-lora_vocabulary")).ties());
}

// diffusers' loaders/lora_base.py: names by the pipeline's part, and the configuration among the file's metadata;
// without it the scale would be 1.
TEST(AdapterDirectory, pipelines_of_diffusers_find_their_file_with_ranks_and_scales_in_it) {
  const Scratch scratch;
  PosixFileSystem files;
  const AdapterDirectory read = AdapterDirectory::open(by_peft("flux-lora"));
  AdapterExport made = again(read);
  made.diffusers = made.exact = true;
  made.whole_modules = {"norm_out.linear"};
  made.tensors.push_back({"base_model.model.norm_out.linear.weight", {1}, {1.0f}});
  write_adapter_directory(files, made, {}, scratch / "adapter");
  const SafetensorsFile file(scratch / "adapter/pytorch_lora_weights.safetensors");
  EXPECT_EQ(file.tensors().size(), 2 * read.adapters().size()) << "adapters alone";
  for (const TensorEntry& tensor : file.tensors()) {
    const std::string name = "base_model.model." + tensor.name.substr(std::string("transformer.").size());
    const std::vector<float> values = read.values(name, tensor.shape);
    ASSERT_EQ(tensor.size(), values.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(file.bytes(tensor).data(), values.data(), tensor.size()), 0) << tensor.name;
  }
  const auto config = nlohmann::json::parse(file.header().metadata().at("lora_adapter_metadata"));
  const auto whole = nlohmann::json::parse(slurp(scratch / "adapter/adapter_config.json"));
  for (const char* key : {"r", "lora_alpha", "rank_pattern", "alpha_pattern", "target_modules"})
    EXPECT_EQ(config[std::string("transformer.") + key], whole[key]) << key;
  EXPECT_TRUE(config["transformer.modules_to_save"].is_null());
  // Whole names: "proj_out" is also how "single_transformer_blocks.0.proj_out" ends.
  EXPECT_THAT(whole["target_modules"].get<std::string>(), HasSubstr("transformer_blocks\\.0\\.attn\\.to_q"));
  for (const auto& [key, rank] : whole["rank_pattern"].items()) EXPECT_THAT(key, StartsWith("^"));
  const AdapterDirectory opened = AdapterDirectory::open(scratch / "adapter");
  for (size_t i = 0; i < opened.adapters().size(); ++i) {
    EXPECT_EQ(opened.adapters()[i].rank, read.adapters()[i].rank);
    EXPECT_EQ(opened.adapters()[i].alpha, read.adapters()[i].alpha);
  }
}

TEST(AdapterDirectory, a_broken_directory_is_refused_with_file_and_reason) {
  const Scratch scratch;
  const auto copy = [&](const std::string& name) {
    std::filesystem::copy(by_peft("flux-lora"), scratch / name, std::filesystem::copy_options::recursive);
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

TEST(AdapterDirectory, of_another_kind_is_refused_with_all_that_makes_it_one_a_line_each) {
  const Scratch scratch;
  const std::filesystem::path folder = scratch / "other";
  std::filesystem::copy(by_peft("flux-lora"), folder, std::filesystem::copy_options::recursive);
  test::spit(folder / "adapter_config.json",
             R"({"peft_type": 7, "use_dora": true, "use_rslora": true, "bias": "all", "r": "four", "lora_alpha": 8})");
  const std::string said = test::refusal([&] { AdapterDirectory::open(folder); });
  EXPECT_THAT(said, StartsWith("65 "));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 4) << said;
  for (const char* one : {"peft_type: expected \"LORA\", got 7", "use_dora is set", "use_rslora is set",
                          "bias: expected \"none\", got \"all\"", "r: expected a whole number, got \"four\""})
    EXPECT_THAT(said, HasSubstr(std::string("adapter_config.json: ") + one + "; only plain LoRA is taken"));
}

}  // namespace
}  // namespace lf
