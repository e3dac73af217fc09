#include "weights/export.h"

#include <thread>

#include <gmock/gmock.h>

#include "runtime/weights/scratch.h"
#include "runtime/weights/tables.h"

namespace lf {
namespace {

using test::contents;
using test::fixture;
using test::parameter;
using test::part;
using test::refusal;
using test::slurp;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A published directory: shards, index, configuration, tokenizer, pictures, a link into a cache, and stale weights.
struct Source {
  test::Scratch scratch;
  std::filesystem::path path = scratch / "source";

  Source() {
    std::filesystem::copy(fixture("sharded"), path, std::filesystem::copy_options::recursive);
    test::spit(path / "config.json", "{\n  \"torch_dtype\": \"bfloat16\",\n  \"rms_norm_eps\": 1e-06\n}\n");
    test::spit(path / "tokenizer.json", "{}");
    test::spit(path / "assets/figure.png", std::string("\x89PNG\0x", 6));
    test::spit(path / ".gitattributes", "*.safetensors filter=lfs\n");
    test::spit(path / ".cache/huggingface/download.lock", "");
    test::spit(path / "empty.txt", "");
    test::spit(scratch / "blobs/LICENSE", "Apache");
    std::filesystem::create_symlink("../blobs/LICENSE", path / "LICENSE");
    test::spit(path / "pytorch_model-00001-of-00001.bin", "stale");
    test::spit(path / "consolidated.safetensors", "stale");
  }
};

std::vector<float> load(const LoadPlan& plan, size_t i) {
  std::vector<float> values(static_cast<size_t>(whole(plan.table()[i].shape).elements()));
  plan.load(i, DType::kF32, values.data());
  return values;
}

void write_all(ModelExport& out, const LoadPlan& plan) {
  for (size_t i = 0; i < plan.table().size(); ++i)
    out.write(i, kAlone, whole(plan.table()[i].shape), DType::kF32, load(plan, i).data());
}

TEST(Export, an_extra_file_takes_the_place_of_the_sources_and_counts_as_part_of_the_directory) {
  Source source;
  PosixFileSystem files;
  const ModelDirectory directory = ModelDirectory::open(source.path);
  const LoadPlan plan(directory, test::sharded_table(), {});
  test::spit(source.path / "stats.json", "the source's");
  ModelExport out = ModelExport::over_source(files, plan, source.scratch / "model", std::nullopt);
  const uint64_t before = out.total_bytes();
  out.add({{"stats.json", "ours"}, {"new.json", "{}"}});
  EXPECT_EQ(out.total_bytes(), before - 12 + 4 + 2);
  EXPECT_THROW(out.add({{"model-00001-of-00003.safetensors", ""}}), Error);
  EXPECT_THROW(out.add({{"new.json", "again"}}), Error);
  out.create();
  write_all(out, plan);
  out.publish(out.written_bytes());
  EXPECT_EQ(test::slurp(source.scratch / "model/stats.json"), "ours");
  EXPECT_EQ(test::slurp(source.scratch / "model/new.json"), "{}");
  EXPECT_EQ(test::slurp(source.scratch / "model/tokenizer.json"), "{}");
}

TEST(Export, what_the_source_lacks_goes_to_its_last_file_and_to_the_index_under_the_given_configuration) {
  Source source;
  PosixFileSystem files;
  const ModelDirectory directory = ModelDirectory::open(source.path);
  std::vector<ParameterInfo> table = test::sharded_table();
  table.push_back(parameter("new.weight", {part("new.a", {2, 6}), part("new.b", {3, 6})}));
  std::vector<bool> may(table.size());
  may.back() = true;
  const LoadPlan plan(directory, table, {}, may);
  ModelExport out = ModelExport::over_source(files, plan, source.scratch / "model", std::nullopt, "{\"layers\": 4}");
  out.create();
  for (size_t i = 0; i + 1 < table.size(); ++i)
    out.write(i, kAlone, whole(table[i].shape), DType::kF32, load(plan, i).data());
  std::vector<float> values(30);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  out.write(table.size() - 1, kAlone, whole(table.back().shape), DType::kF32, values.data());
  out.publish(out.written_bytes());

  EXPECT_EQ(slurp(source.scratch / "model/config.json"), "{\"layers\": 4}");
  const ModelDirectory again = ModelDirectory::open(source.scratch / "model");  // checks the index against the files
  EXPECT_EQ(again.files().size(), directory.files().size());
  EXPECT_EQ(again.find("new.a").file, again.files().back().get());
  const LoadPlan replan(again, table, {});
  EXPECT_EQ(load(replan, table.size() - 1), values);
  for (size_t i = 0; i + 1 < table.size(); ++i) EXPECT_EQ(load(replan, i), load(plan, i)) << table[i].name;
}

TEST(Export, an_unchanged_model_is_byte_for_byte_the_same_directory) {
  Source source;
  PosixFileSystem files;
  const ModelDirectory directory = ModelDirectory::open(source.path);
  const LoadPlan plan(directory, test::sharded_table(), {});
  ModelExport out = ModelExport::over_source(files, plan, source.scratch / "run/model", std::nullopt);
  EXPECT_THAT(out.left_out(), ElementsAre("consolidated.safetensors", "pytorch_model-00001-of-00001.bin"));
  out.create();
  write_all(out, plan);
  EXPECT_FALSE(std::filesystem::exists(source.scratch / "run/model"));
  out.publish(out.written_bytes());

  auto expected = contents(source.path);
  expected["LICENSE"] = "Apache";
  for (const char* stale :
       {"consolidated.safetensors", "pytorch_model-00001-of-00001.bin", ".cache/huggingface/download.lock"})
    expected.erase(stale);
  const auto actual = contents(source.scratch / "run/model");
  for (const auto& [name, text] : expected) EXPECT_TRUE(actual.contains(name) && actual.at(name) == text) << name;
  EXPECT_EQ(actual.size(), expected.size());
  uint64_t bytes = 0;
  for (const auto& [name, text] : actual) bytes += text.size();
  EXPECT_EQ(out.total_bytes(), bytes);
  EXPECT_EQ(contents(source.scratch / "run").size(), actual.size()) << "nothing temporary is left";
}

TEST(Export, ranks_with_cut_parameters_write_the_same_bytes_together) {
  Source source;
  PosixFileSystem files;
  const ModelDirectory directory = ModelDirectory::open(source.path);
  const LoadPlan plan(directory, test::sharded_table(), {});
  constexpr int64_t kRanks = 5;  // more than the pieces of k: copies
  std::vector<Place> places;
  for (int64_t r = 0; r < kRanks; ++r) places.push_back({r, kRanks, 0, 1});
  std::vector<std::unique_ptr<ModelExport>> exports;
  for (int64_t r = 0; r < kRanks; ++r)
    exports.push_back(
        std::make_unique<ModelExport>(ModelExport::over_source(files, plan, source.scratch / "model", std::nullopt)));
  exports[0]->create();
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (size_t i = 0; i < plan.table().size(); ++i) {
        for (const HeldBox& box : written_boxes(plan.table()[i], places, rank)) {
          std::vector<float> values(static_cast<size_t>(box.local.elements()));
          plan.load(i, places[rank], box.local, DType::kF32, values.data());
          exports[rank]->write(i, places[rank], box.local, DType::kF32, values.data());
        }
      }
      exports[rank]->sync();
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t written = 0;
  for (const auto& out : exports) written += out->written_bytes();
  exports[0]->publish(written);
  for (const auto& entry : std::filesystem::directory_iterator(fixture("sharded")))
    EXPECT_EQ(slurp(source.scratch / "model" / entry.path().filename()), slurp(entry.path()));
}

TEST(Export, changed_values_change_only_their_bytes) {
  Source source;
  PosixFileSystem files;
  const ModelDirectory directory = ModelDirectory::open(source.path);
  const LoadPlan plan(directory, test::sharded_table(), {});
  ModelExport out = ModelExport::over_source(files, plan, source.scratch / "model", std::nullopt);
  out.create();
  for (size_t i = 0; i < plan.table().size(); ++i) {
    std::vector<float> values = load(plan, i);
    if (i == 0) values[7] = -0.375f;
    out.write(i, kAlone, whole(plan.table()[i].shape), DType::kF32, values.data());
  }
  out.publish(out.written_bytes());
  const ModelDirectory again = ModelDirectory::open(source.scratch / "model");
  const LoadPlan replan(again, test::sharded_table(), {});
  std::vector<float> expected = load(plan, 0);
  expected[7] = -0.375f;
  EXPECT_EQ(load(replan, 0), expected);
  EXPECT_EQ(load(replan, 5), load(plan, 5));
}

TEST(Export, a_forgotten_or_repeated_parameter_is_not_published) {
  Source source;
  PosixFileSystem files;
  const ModelDirectory directory = ModelDirectory::open(source.path);
  const LoadPlan plan(directory, test::sharded_table(), {});
  {
    ModelExport out = ModelExport::over_source(files, plan, source.scratch / "model", std::nullopt);
    out.create();
    out.write(0, kAlone, whole(plan.table()[0].shape), DType::kF32, load(plan, 0).data());
    EXPECT_THAT(refusal([&] { out.publish(out.written_bytes()); }), StartsWith("70 "));
  }
  EXPECT_FALSE(std::filesystem::exists(source.scratch / "model"));
  EXPECT_FALSE(std::filesystem::exists(source.scratch / "model.tmp")) << "what was not published is removed";
}

TEST(Export, another_type_is_written_with_a_config_that_says_so) {
  Source source;
  PosixFileSystem files;
  const ModelDirectory directory = ModelDirectory::open(source.path);
  const LoadPlan plan(directory, test::sharded_table(), {});
  ModelExport out = ModelExport::over_source(files, plan, source.scratch / "model", DType::kF32);
  out.create();
  write_all(out, plan);
  out.publish(out.written_bytes());
  EXPECT_EQ(slurp(source.scratch / "model/config.json"),
            "{\n  \"torch_dtype\": \"float32\",\n  \"rms_norm_eps\": 1e-06\n}\n");
  EXPECT_THAT(slurp(source.scratch / "model/model.safetensors.index.json"), HasSubstr("\"total_size\": 2976"));
  const ModelDirectory again = ModelDirectory::open(source.scratch / "model");
  const LoadPlan replan(again, test::sharded_table(), {});
  EXPECT_EQ(replan.stored_dtype(2), DType::kF32);
  for (size_t i = 0; i < plan.table().size(); ++i) EXPECT_EQ(load(replan, i), load(plan, i));
}

TEST(Export, ignored_tensors_and_both_names_of_a_tie_are_kept) {
  test::Scratch scratch;
  PosixFileSystem files;
  {
    // The tie is stored under both names, with equal bytes.
    const std::vector<float> values = {1, 2, 3, 4};
    const SafetensorsHeader header = SafetensorsHeader::plan(
        {{"embed", DType::kF32, {4}}, {"head", DType::kF32, {4}}, {"rotary.inv_freq", DType::kF32, {2}}}, {});
    const auto file =
        files.create((std::filesystem::create_directory(scratch / "source"), scratch / "source/model.safetensors"),
                     header.file_size());
    file->write(0, header.text().data(), header.text().size());
    file->write(header.find("embed")->begin, values.data(), 16);
    file->write(header.find("head")->begin, values.data(), 16);
    file->write(header.find("rotary.inv_freq")->begin, "12345678", 8);
  }
  const ModelDirectory directory = ModelDirectory::open(scratch / "source");
  std::vector<ParameterInfo> table = {parameter("embed", {part("embed", {4})}), parameter("head", {part("head", {4})})};
  table[1].tied_to = 0;
  const LoadPlan plan(directory, table, {"*.inv_freq"});
  ModelExport out = ModelExport::over_source(files, plan, scratch / "model", std::nullopt);
  out.create();
  const std::vector<float> trained = {5, 6, 7, 8};
  for (const size_t i : {0, 1}) out.write(i, kAlone, whole(table[i].shape), DType::kF32, trained.data());
  out.publish(out.written_bytes());
  const SafetensorsFile read(scratch / "model/model.safetensors");
  for (const char* name : {"embed", "head"})
    EXPECT_EQ(std::memcmp(read.bytes(read.at(name)).data(), trained.data(), 16), 0) << name;
  EXPECT_EQ(std::memcmp(read.bytes(read.at("rotary.inv_freq")).data(), "12345678", 8), 0);
}

TEST(Export, an_fp8_model_needs_another_type_and_loses_its_scales) {
  test::Scratch scratch;
  PosixFileSystem files;
  test::spit(scratch / "source/model.safetensors", slurp(fixture("fp8.safetensors")));
  test::spit(scratch / "source/config.json",
             R"({"a": 1, "quantization_config": {"fmt": "e4m3"}, "text_config": {"dtype": "bfloat16"}})");
  const ModelDirectory directory = ModelDirectory::open(scratch / "source");
  const LoadPlan plan(directory, {parameter("w", {part("w.weight", {200, 300})})}, {});
  EXPECT_THAT(refusal([&] { ModelExport::over_source(files, plan, scratch / "model", std::nullopt); }),
              AllOf(StartsWith("65 "), HasSubstr("export_dtype")));
  ModelExport out = ModelExport::over_source(files, plan, scratch / "model", DType::kF32);
  out.create();
  write_all(out, plan);
  out.publish(out.written_bytes());
  EXPECT_EQ(slurp(scratch / "model/config.json"),
            "{\n  \"a\": 1,\n  \"text_config\": {\n    \"dtype\": \"float32\"\n  }\n}\n");
  const ModelDirectory again = ModelDirectory::open(scratch / "model");
  EXPECT_EQ(again.names(), std::vector<std::string>{"w.weight"});
  const LoadPlan replan(again, {parameter("w", {part("w.weight", {200, 300})})}, {});
  EXPECT_EQ(load(replan, 0), load(plan, 0));
}

TEST(Export, from_scratch_gives_the_files_that_the_reference_library_gives) {
  const ModelDirectory reference = ModelDirectory::open(fixture("sharded"));
  // The state's order, which decides what goes into which file.
  std::vector<ParameterInfo> table = test::sharded_table();
  std::rotate(table.begin(), table.begin() + 1, table.end());
  const LoadPlan plan(reference, table, {});
  test::Scratch scratch;
  test::spit(scratch / "tok/tokenizer.json", "{1}");
  test::spit(scratch / "tok/chat_template.jinja", "{{ x }}");
  test::spit(scratch / "tok/config.json", "of another model");
  PosixFileSystem files;
  ModelExport out =
      ModelExport::from_scratch(files, {table, DType::kBf16, "{\"c\": 1}", scratch / "tok", 700}, scratch / "model/");
  out.create();
  write_all(out, plan);
  out.publish(out.written_bytes());
  for (const char* name :
       {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"})
    EXPECT_EQ(slurp(scratch / "model" / name), slurp(fixture("sharded") / name)) << name;
  EXPECT_EQ(slurp(scratch / "model/config.json"), "{\"c\": 1}");
  EXPECT_EQ(slurp(scratch / "model/tokenizer.json"), "{1}");
  EXPECT_EQ(slurp(scratch / "model/chat_template.jinja"), "{{ x }}");
  EXPECT_EQ(ModelDirectory::open(scratch / "model").names().size(), 10u);
}

TEST(Export, a_model_of_one_file_has_no_index) {
  test::Scratch scratch;
  PosixFileSystem files;
  ModelExport out =
      ModelExport::from_scratch(files, {{parameter("w", {part("w", {2})})}, DType::kF32, "{}", {}}, scratch / "model");
  out.create();
  const float values[2] = {0, 1};
  out.write(0, kAlone, whole(std::vector<int64_t>{2}), DType::kF32, values);
  out.publish(out.written_bytes());
  const auto all = contents(scratch / "model");
  EXPECT_EQ(all.size(), 2u);
  EXPECT_EQ(all.at("model.safetensors").size(),
            slurp(fixture("plain.safetensors")).size() + 32);  // "__metadata__":{"format":"pt"}, and padding
}

TEST(Export, a_second_export_takes_the_place_of_the_first) {
  test::Scratch scratch;
  PosixFileSystem files;
  test::spit(scratch / "model/stale.txt", "old");
  test::spit(scratch / "model.tmp/half.safetensors", "of a killed run");
  ModelExport out =
      ModelExport::from_scratch(files, {{parameter("w", {part("w", {2})})}, DType::kF32, "{}", {}}, scratch / "model");
  out.create();
  EXPECT_EQ(slurp(scratch / "model/stale.txt"), "old");
  const float values[2] = {0, 1};
  out.write(0, kAlone, whole(std::vector<int64_t>{2}), DType::kF32, values);
  out.publish(out.written_bytes());
  EXPECT_FALSE(std::filesystem::exists(scratch / "model/stale.txt"));
  EXPECT_EQ(contents(scratch.path()).size(), 2u);
}

TEST(Export, a_folder_inside_the_source_is_not_copied_into_itself) {
  Source source;
  PosixFileSystem files;
  const ModelDirectory directory = ModelDirectory::open(source.path);
  const LoadPlan plan(directory, test::sharded_table(), {});
  test::spit(source.path / "runs/a/metrics.jsonl", "{}");
  ModelExport out = ModelExport::over_source(files, plan, source.path / "runs/a/model", std::nullopt);
  out.create();
  write_all(out, plan);
  out.publish(out.written_bytes());
  EXPECT_FALSE(std::filesystem::exists(source.path / "runs/a/model/runs"));
  EXPECT_TRUE(std::filesystem::exists(source.path / "runs/a/model/assets/figure.png"));
}

TEST(Export, too_little_room_is_told_before_anything_is_written) {
  class FullDisk final : public FileSystem {
   public:
    std::unique_ptr<OutputFile> create(const std::filesystem::path& path, uint64_t size) override {
      return real_.create(path, size);
    }
    std::unique_ptr<OutputFile> open(const std::filesystem::path& path) override { return real_.open(path); }
    void make_directory(const std::filesystem::path& path) override { real_.make_directory(path); }
    void rename(const std::filesystem::path& from, const std::filesystem::path& to) override { real_.rename(from, to); }
    bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) override {
      return real_.exchange(a, b);
    }
    void remove(const std::filesystem::path& path) override { real_.remove(path); }
    void sync_directory(const std::filesystem::path& path) override { real_.sync_directory(path); }
    uint64_t available_bytes(const std::filesystem::path&) override { return 1000; }

   private:
    PosixFileSystem real_;
  } files;
  test::Scratch scratch;
  ModelExport out = ModelExport::from_scratch(files, {{parameter("w", {part("w", {200})})}, DType::kF32, "{}", {}},
                                              scratch / "model");
  EXPECT_THAT(refusal([&] { out.create(); }), AllOf(StartsWith("73 "), HasSubstr("1,000 are free")));
  EXPECT_TRUE(contents(scratch.path()).empty());
}

}  // namespace
}  // namespace lf
