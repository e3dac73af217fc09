// Samples to columns: tiles, conversations, weights, ready tensors.
#include "internvl/processor/processor.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "internvl/processor/tile_files.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/config_refusal.h"
#include "plugins/models/media/recorded.h"
#include "plugins/models/qwen_vl_processor/fake_host.h"
#include "plugins/models/qwen_vl_processor/models.h"
#include "plugins/models/qwen_vl_processor/tensors.h"

namespace lf::internvl {
namespace {

using nlohmann::json;

constexpr int64_t kTile = 28, kPatch = 7, kTokens = 4;  // 4 x 4 patches, 2 x 2 tokens

json small_config(bool original) {
  const json text = {{"model_type", "qwen2"},   {"vocab_size", 152000},   {"hidden_size", 32},
                     {"intermediate_size", 48}, {"num_hidden_layers", 1}, {"num_attention_heads", 4},
                     {"num_key_value_heads", 4}};
  const json vision = {{"image_size", kTile},     {"patch_size", kPatch},   {"hidden_size", 8},
                       {"intermediate_size", 16}, {"num_hidden_layers", 1}, {"num_attention_heads", 2}};
  if (original)
    return {{"model_type", "internvl_chat"},
            {"downsample_ratio", 0.5},
            {"min_dynamic_patch", 1},
            {"max_dynamic_patch", 6},
            {"use_thumbnail", true},
            {"dynamic_image_size", true},
            {"llm_config", text},
            {"vision_config", vision}};
  return {{"model_type", "internvl"},
          {"downsample_ratio", 0.5},
          {"image_token_id", 151659},
          {"text_config", text},
          {"vision_config", vision}};
}

class Processor : public testing::Test {
 protected:
  Processor() {
    json tokenizer = test::byte_tokenizer();
    int id = 151657;
    for (const char* mark : {"<img>", "</img>", "<IMG_CONTEXT>"})
      tokenizer["added_tokens"].push_back({{"id", id++}, {"content", mark}, {"special", true}, {"normalized", false}});
    folder_.write("tokenizer.json", tokenizer);
    host_.files["one.png"] = {28, 28};
    host_.files["wide.png"] = {90, 28};
    host_.files["clip.mp4"] = {40, 30, 6, 2.0};
    host_.files["broken.png"] = {28, 28, 1, 0, 0, true};
  }

  InternVlProcessor make(const InternVlProcessor::Options& options = {}, bool original = false,
                         json data = json::object()) {
    return {host_.host(),
            parse_config(small_config(original).dump()),
            options,
            {{"tokenizer", folder_.path().string()}, {"data", std::move(data)}}};
  }
  static lf_sample sample(const std::string& text) {
    auto one = sdk::with_header<lf_sample>();
    one.json = sdk::str(text);
    one.place = sdk::str("train.jsonl:3");
    return one;
  }
  static std::string conversation(const json& content, const std::string& answer) {
    return json{{"messages",
                 {{{"role", "user"}, {"content", content}},
                  {{"role", "assistant"}, {"train", true}, {"content", {{{"type", "text"}, {"text", answer}}}}}}}}
        .dump();
  }
  // What the ids spell, with <IMG_CONTEXT>s as their number.
  std::string written(const std::vector<int64_t>& ids) const {
    const text::Tokenizer tokenizer = text::Tokenizer::load(folder_.path() / "tokenizer.json");
    std::string out;
    int64_t run = 0;
    for (size_t i = 0; i <= ids.size(); ++i) {
      if (i < ids.size() && ids[i] == 151659) {
        ++run;
        continue;
      }
      if (run > 0) out += "(" + std::to_string(run) + ")";
      run = 0;
      if (i < ids.size()) out += tokenizer.decode(std::vector<text::TokenId>{static_cast<text::TokenId>(ids[i])});
    }
    return out;
  }

  test::TemporaryFolder folder_;
  test::FakeHost host_;
};

const json kText = {{"type", "text"}, {"text", "\nwhat?"}};
json image(const char* path) { return {{"type", "image"}, {"path", path}}; }
json video(const char* path) { return {{"type", "video"}, {"path", path}}; }

TEST_F(Processor, a_picture_is_its_tiles_and_a_thumbnail_between_markers) {
  const std::string text = conversation({image("wide.png"), kText}, "ok");
  const lf_sample one = sample(text);
  const lf_sample* samples[] = {&one};
  const family::Columns columns = make().collate(samples);
  const auto ids = test::integers(columns.view(), "input_ids");
  EXPECT_EQ(written(ids), "<|im_start|>user\n<img>(16)</img>\nwhat?<|im_end|>\n<|im_start|>assistant\nok<|im_end|>\n");
  const auto targets = test::integers(columns.view(), "targets");
  std::string learnt;
  for (const int64_t target : targets)
    if (target >= 0) learnt += written({target});
  EXPECT_EQ(learnt, "ok<|im_end|>");
  const auto rows = test::integers(columns.view(), "visual_rows");
  EXPECT_EQ(rows.size(), 16u);
  for (const int64_t row : rows) EXPECT_EQ(ids[static_cast<size_t>(row)], 151659);
  EXPECT_EQ(test::find(columns.view(), "pixel_values")->shape[0], 4 * 16);  // three tiles and the thumbnail
  EXPECT_EQ(test::find(columns.view(), "loss_weights"), nullptr);
}

TEST_F(Processor, conversations_are_written_as_transformers_writes_them_with_the_template_of_its_checkpoints) {
  const json chat = json::parse(std::ifstream(test::processor_fixture("internvl.json")))["chat"];
  ASSERT_EQ(chat["tile"], 28);
  ASSERT_GE(chat["cases"].size(), 8u);
  for (const json& one : chat["cases"]) {
    const std::string text = conversation(one["items"], "ok");
    const lf_sample given = sample(text);
    const lf_sample* samples[] = {&given};
    EXPECT_EQ(written(test::integers(make().collate(samples).view(), "input_ids")), one["written"]) << one["items"];
  }
}

TEST_F(Processor, the_authors_template_begins_with_their_system_message) {
  const std::string text = conversation(json::array({kText}), "ok");
  const lf_sample one = sample(text);
  const lf_sample* samples[] = {&one};
  const auto ids = test::integers(make({}, true).collate(samples).view(), "input_ids");
  EXPECT_THAT(written(ids), testing::StartsWith("<|im_start|>system\n你是书生·万象，英文名是InternVL，"));
  EXPECT_THAT(written(ids),
              testing::EndsWith("。<|im_end|>\n<|im_start|>user\n\nwhat?<|im_end|>\n<|im_start|>assistant\nok"
                                "<|im_end|>\n"));
}

TEST_F(Processor, a_video_is_one_tile_a_frame_each_with_its_number) {
  const std::string text = conversation({{{"type", "video"}, {"path", "clip.mp4"}, {"fps", 1.0}}, kText}, "ok");
  const lf_sample one = sample(text);
  const lf_sample* samples[] = {&one};
  const family::Columns columns = make().collate(samples);
  EXPECT_THAT(
      written(test::integers(columns.view(), "input_ids")),
      testing::HasSubstr("user\nFrame1: <img>(4)</img>\nFrame2: <img>(4)</img>\nFrame3: <img>(4)</img>\nwhat?"));
  EXPECT_EQ(host_.video_calls, 1);
}

TEST_F(Processor, features_are_what_collate_makes) {
  for (const json& content :
       {json{image("wide.png"), kText}, json::array({kText}), json{image("one.png"), image("wide.png"), kText}}) {
    const std::string text = conversation(content, "an answer");
    const lf_sample one = sample(text);
    const lf_sample* samples[] = {&one};
    const InternVlProcessor processor = make();
    const family::Features features = processor.features(one);
    const family::Columns columns = processor.collate(samples);
    const auto ids = test::integers(columns.view(), "input_ids");
    EXPECT_EQ(features[1][0], static_cast<double>(ids.size()));
    const auto targets = test::integers(columns.view(), "targets");
    EXPECT_EQ(features[1][1],
              static_cast<double>(std::count_if(targets.begin(), targets.end(), [](int64_t t) { return t >= 0; })));
    const lf_tensor* pixels = test::find(columns.view(), "pixel_values");
    double patches = 0;
    for (size_t i = 0; i < features[0].size(); i += 3) patches += features[0][i];
    EXPECT_EQ(patches, pixels == nullptr ? 0 : static_cast<double>(pixels->shape[0]));
  }
}

TEST_F(Processor, weights_make_a_samples_loss_count_as_a_token_a_sample_or_a_root) {
  const std::string answer = "eight by";  // 8 bytes and the end mark
  const std::string text = conversation(json::array({kText}), answer);
  const lf_sample one = sample(text);
  const lf_sample* samples[] = {&one, &one};
  const std::vector<std::pair<LossWeighting, double>> expected = {
      {LossWeighting::kToken, 9}, {LossWeighting::kSample, 1}, {LossWeighting::kSquare, 3}};
  for (const auto& [weighting, sum] : expected) {
    const InternVlProcessor processor = make({.weighting = weighting});
    EXPECT_NEAR(processor.features(one)[1][1], sum, 1e-12);
    EXPECT_EQ(processor.features(one)[1][3], 9);
    if (weighting == LossWeighting::kToken) continue;
    const family::Columns columns = processor.collate(samples);
    const auto weights = test::floats(columns.view(), "loss_weights");
    const auto targets = test::integers(columns.view(), "targets");
    double total = 0;
    for (size_t i = 0; i < targets.size(); ++i)
      if (targets[i] >= 0) total += double{weights[i]};
    EXPECT_NEAR(total, 2 * sum, 1e-6);
  }
}

TEST_F(Processor, tiles_shared_among_pictures_and_bounded_by_pixels) {
  const std::string text = conversation({image("wide.png"), image("wide.png"), kText}, "ok");
  const lf_sample one = sample(text);
  const auto tiles = [&](const InternVlProcessor& processor) { return processor.features(one)[0].size() / 3; };
  EXPECT_EQ(tiles(make()), 8u);
  EXPECT_EQ(tiles(make({.max_tiles = 3, .share_tiles = true})), 2u);
  EXPECT_EQ(tiles(make({}, false, {{"image_max_pixels", 2 * kTile * kTile}})), 6u);
  EXPECT_EQ(tiles(make({}, false, {{"image_max_pixels", 1}})), 2u);
}

TEST_F(Processor, cutting_never_leaves_part_of_a_picture) {
  const std::string text = conversation({image("wide.png"), kText}, "ok");
  lf_sample one = sample(text);
  const lf_sample* samples[] = {&one};
  one.max_rows = 12;  // inside the picture
  const family::Columns columns = make().collate(samples);
  EXPECT_EQ(written(test::integers(columns.view(), "input_ids")), "<|im_start|>user\n");
  EXPECT_EQ(test::find(columns.view(), "pixel_values"), nullptr);
}

TEST_F(Processor, a_bad_picture_is_told_with_the_samples_place) {
  for (const char* path : {"absent.png", "broken.png"}) {
    const std::string text = conversation({image(path), kText}, "ok");
    const lf_sample one = sample(text);
    const lf_sample* samples[] = {&one};
    try {
      make().collate(samples);
      FAIL() << path;
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      EXPECT_THAT(failure.what(), testing::AllOf(testing::HasSubstr("train.jsonl:3"), testing::HasSubstr(path)));
    }
  }
}

TEST_F(Processor, pictures_without_pixels_and_videos_without_frames_are_told_by_file_and_size) {
  host_.files["flat.png"] = {28, 0};
  host_.files["thin.png"] = {0, 28};
  host_.files["flat.mp4"] = {40, 0, 6, 2.0};
  host_.files["empty.mp4"] = {40, 30, 0, 2.0};
  const std::pair<json, const char*> cases[] = {{image("flat.png"), "flat.png: a picture of 28 x 0 pixels"},
                                                {image("thin.png"), "thin.png: a picture of 0 x 28 pixels"},
                                                {video("flat.mp4"), "flat.mp4: a picture of 40 x 0 pixels"},
                                                {video("empty.mp4"), "empty.mp4: a video of 0 frames"}};
  const InternVlProcessor processor = make();
  for (const auto& [item, expected] : cases) {
    const std::string text = conversation({item, kText}, "ok");
    try {
      processor.features(sample(text));
      FAIL() << expected;
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      EXPECT_THAT(failure.what(), testing::AllOf(testing::HasSubstr("train.jsonl:3"), testing::HasSubstr(expected)));
    }
  }
}

TEST_F(Processor, a_list_of_frames_of_two_sizes_is_refused_by_the_frame_that_differs_before_any_is_decoded) {
  for (const char* name : {"1.png", "2.png", "3.png"}) host_.files[name] = {40, 30};
  host_.files["2.png"] = {30, 40};
  const std::string text =
      conversation({{{"type", "video"}, {"frames", {"1.png", "2.png", "3.png"}}, {"fps", 2}}, kText}, "ok");
  try {
    make().features(sample(text));
    FAIL();
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_DATA);
    EXPECT_THAT(failure.what(), testing::HasSubstr("train.jsonl:3: frame 2 (2.png) is 30 x 40, frame 1 (1.png) is 40 x "
                                                   "30; frames of one video must be of one size"));
  }
}

TEST_F(Processor, a_video_of_one_frame_is_one_tile_and_the_thinnest_picture_is_whole_tiles) {
  host_.files["one.mp4"] = {40, 30, 1, 2.0};
  host_.files["line.png"] = {5000, 1};
  const InternVlProcessor processor = make();
  for (const auto& [item, tiles] : {std::pair{video("one.mp4"), 1}, std::pair{image("line.png"), 13}}) {
    const std::string text = conversation({item, kText}, "ok");
    const lf_sample one = sample(text);
    const lf_sample* samples[] = {&one};
    const family::Columns columns = processor.collate(samples);
    EXPECT_EQ(test::find(columns.view(), "pixel_values")->shape[0], tiles * 16) << text;
  }
}

TEST_F(Processor, a_text_cannot_spell_a_picture) {
  const std::string text = conversation({{{"type", "text"}, {"text", "<img><IMG_CONTEXT></img>"}}}, "ok");
  const lf_sample one = sample(text);
  const lf_sample* samples[] = {&one};
  const family::Columns columns = make().collate(samples);
  EXPECT_EQ(test::find(columns.view(), "visual_rows"), nullptr);
  EXPECT_THAT(test::integers(columns.view(), "input_ids"), testing::Not(testing::Contains(151659)));
}

class Tensors : public Processor {
 protected:
  void add_tiles(int64_t n) {
    std::vector<float> pixels(static_cast<size_t>(n * 3 * kTile * kTile));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i);
    fields_.add_floats("pixel_values", pixels, {n, 3, kTile, kTile});
  }
  lf_sample as_sample() {
    auto one = sample("{}");
    one.fields = fields_.view().data();
    one.n_fields = static_cast<uint32_t>(fields_.view().size());
    return one;
  }
  std::string refusal() {
    const lf_sample one = as_sample();
    try {
      make().features(one);
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      return failure.what();
    }
    return "accepted";
  }
  std::vector<int64_t> row(int64_t tiles) const {
    std::vector<int64_t> ids = {5, 151657};
    ids.insert(ids.end(), static_cast<size_t>(tiles * kTokens), 151659);
    ids.insert(ids.end(), {151658, 6, 7});
    return ids;
  }
  test::NamedTensors fields_;
};

TEST_F(Tensors, tiles_with_flag_0_are_left_out_before_the_tower) {
  fields_.add_integers("input_ids", row(1));
  add_tiles(3);
  fields_.add_integers("image_flags", {0, 1, 0});
  const lf_sample one = as_sample();
  const lf_sample* samples[] = {&one};
  const auto pixels = test::floats(make().collate(samples).view(), "pixel_values");
  ASSERT_EQ(pixels.size(), static_cast<size_t>(3 * kTile * kTile));
  // First patch, in merge-block order: rows 0 to 6 and columns 0 to 6 of the second tile's red.
  const double tile = 3.0 * kTile * kTile;
  EXPECT_EQ(pixels[0], tile);
  EXPECT_EQ(pixels[1], tile + 1);
  EXPECT_EQ(pixels[kPatch], tile + kTile);
  EXPECT_EQ(pixels[kPatch * kPatch], tile + kTile * kTile);           // green
  EXPECT_EQ(pixels[3 * kPatch * kPatch], tile + kPatch);              // the patch to the right
  EXPECT_EQ(pixels[2 * 3 * kPatch * kPatch], tile + kPatch * kTile);  // the one below
  EXPECT_EQ(pixels[4 * 3 * kPatch * kPatch], tile + 2 * kPatch);      // the next block
}

// InternVL issue 578: the authors' code truncates features where tokens and tiles do not match.
TEST_F(Tensors, more_or_fewer_tiles_than_the_tokens_have_place_for_are_refused) {
  fields_.add_integers("input_ids", row(2));
  add_tiles(1);
  EXPECT_THAT(refusal(), testing::HasSubstr("place for more tiles"));
  fields_.drop("pixel_values");
  add_tiles(3);
  EXPECT_THAT(refusal(), testing::HasSubstr("place for 2 tiles, 3 are given"));
}

TEST_F(Tensors, wrong_shapes_flags_and_names_are_refused_by_name) {
  fields_.add_integers("input_ids", row(1));
  fields_.add_floats("pixel_values", std::vector<float>(3 * 14 * 14), {1, 3, 14, 14});
  EXPECT_THAT(refusal(), testing::HasSubstr("pixel_values"));
  fields_.drop("pixel_values");
  add_tiles(1);
  fields_.add_integers("image_flags", {2});
  EXPECT_THAT(refusal(), testing::HasSubstr("image_flags"));
  fields_.drop("image_flags");
  fields_.add_integers("tiles_per_sample", {2});
  EXPECT_THAT(refusal(), testing::HasSubstr("tiles_per_sample"));
  fields_.drop("tiles_per_sample");
  fields_.add_integers("pixel_mask", {2});
  EXPECT_THAT(refusal(), testing::HasSubstr("pixel_mask"));
  fields_.drop("pixel_mask");
  fields_.drop("tiles_per_sample");
  fields_.drop("pixel_values");
  std::vector<float> pixels(3 * kTile * kTile);
  pixels[7] = INFINITY;
  fields_.add_floats("pixel_values", pixels, {1, 3, kTile, kTile});
  EXPECT_THAT(refusal(), testing::EndsWith("field pixel_values: expected finite values, got inf at 7"));
}

uint64_t fnv(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001B3u;
  return hash;
}

// A host whose pictures are those of the recording.
struct RecordedHost {
  RecordedHost(int64_t wide, int64_t high, int64_t of_seed) : width(wide), height(high), seed(of_seed) {
    host = sdk::with_header<lf_host>();
    host.context = this;
    host.get_extension = [](const lf_host* h, lf_str) -> const void* {
      return &static_cast<RecordedHost*>(h->context)->media;
    };
    media = sdk::with_header<lf_media_host>();
    media.probe = [](const lf_host* h, lf_str, int32_t, lf_media_info* out, lf_err*) -> int32_t {
      const auto* self = static_cast<RecordedHost*>(h->context);
      out->width = static_cast<int32_t>(self->width);
      out->height = static_cast<int32_t>(self->height);
      return LF_OK;
    };
    media.decode_image = [](const lf_host* h, lf_str, lf_tensor* out, lf_err*) -> int32_t {
      const auto* self = static_cast<RecordedHost*>(h->context);
      const int64_t shape[] = {self->height, self->width, 3};
      *out = sdk::give(test::picture(self->width, self->height, self->seed), LF_DTYPE_U8, shape);
      return LF_OK;
    };
  }
  int64_t width, height, seed;
  lf_host host;
  lf_media_host media;
};

TileRules tile_rules(const InternVlConfig& config, const std::filesystem::path& folder, const json& data,
                     const TileOptions& options) {
  family::Findings remarks;
  return read_tile_rules(config, folder, data, options, remarks);
}

TEST(Tiles, pictures_give_the_references_tiles_level_for_level) {
  const json recorded = json::parse(std::ifstream(test::processor_fixture("internvl.json")));
  for (const json& one : recorded["pictures"]) {
    SCOPED_TRACE(one.dump());
    const RecordedHost host(one["width"], one["height"], one["seed"]);
    json config = small_config(false);
    config["vision_config"]["image_size"] = one["tile"];
    const InternVlConfig parsed = parse_config(config.dump());
    const TileRules rules = tile_rules(parsed, {}, json::object(), {one["least"], one["most"], false});
    const TileFiles files(&host.host);
    const family::VisionInput input = files.plan_image("picture", 1, rules);
    ASSERT_EQ(input.groups, static_cast<int64_t>(one["tiles"].size()));
    std::vector<float> rows(static_cast<size_t>(input.patches() * rules.shape.values()), NAN);
    files.write_rows(input, rules, rows.data());

    const int64_t tile = one["tile"], side = tile / kPatch, area = kPatch * kPatch;
    for (int64_t t = 0; t < input.groups; ++t) {
      std::vector<uint8_t> levels(static_cast<size_t>(3 * tile * tile));
      for (int64_t patch = 0; patch < side * side; ++patch) {
        // Blocks of 2 x 2 patches in reading order.
        const int64_t block = patch / 4, y0 = block / (side / 2) * 2 + patch % 4 / 2,
                      x0 = block % (side / 2) * 2 + patch % 2;
        for (int64_t c = 0; c < 3; ++c)
          for (int64_t i = 0; i < area; ++i) {
            const auto& values = rules.levels.value[static_cast<size_t>(c)];
            const float value = rows[static_cast<size_t>(((t * side * side + patch) * 3 + c) * area + i)];
            const auto found = std::find(values.begin(), values.end(), value);
            ASSERT_NE(found, values.end());
            levels[static_cast<size_t>((c * tile + y0 * kPatch + i / kPatch) * tile + x0 * kPatch + i % kPatch)] =
                static_cast<uint8_t>(found - values.begin());
          }
      }
      EXPECT_EQ(std::to_string(fnv(levels)), one["tiles"][static_cast<size_t>(t)].get<std::string>()) << "tile " << t;
    }
  }
}

// The files say crop_to_patches false, and the processor that saved them tiles all the same.
TEST(Tiles, the_files_that_the_reference_saves_give_as_many_tiles_as_the_reference_takes) {
  const json saved = json::parse(std::ifstream(test::processor_fixture("internvl.json")))["saved"];
  json config = small_config(false);
  config["vision_config"]["image_size"] = saved["tile"];
  const InternVlConfig parsed = parse_config(config.dump());
  ASSERT_EQ(saved["files"].size(), 2u);
  for (const auto& [name, file] : saved["files"].items()) {
    const test::TemporaryFolder folder;
    folder.write(name.c_str(), file);
    const auto tiles = [&](const json& picture, const TileOptions& options) {
      const RecordedHost host(picture[0], picture[1], 1);
      const TileRules rules = tile_rules(parsed, folder.path(), json::object(), options);
      return TileFiles(&host.host).plan_image("picture", 1, rules).groups;
    };
    for (const json& picture : saved["pictures"]) {
      EXPECT_EQ(tiles(picture, {}), picture[2].get<int64_t>()) << name << picture;
      EXPECT_EQ(tiles(picture, {.most = 1}), 1) << name << picture;
    }
  }
}

TEST(Tiles, the_processors_file_is_read_and_what_contradicts_the_model_is_refused) {
  const test::TemporaryFolder folder;
  const InternVlConfig config = parse_config(small_config(false).dump());
  folder.write("preprocessor_config.json",
               {{"size", {{"height", kTile}, {"width", kTile}}}, {"min_patches", 2}, {"max_patches", 5}});
  const TileRules rules = tile_rules(config, folder.path(), json::object(), {});
  EXPECT_EQ(rules.least, 2);
  EXPECT_EQ(rules.most, 5);
  folder.write("preprocessor_config.json", {{"size", {{"height", 99}, {"width", 99}}}});
  EXPECT_THROW(tile_rules(config, folder.path(), json::object(), {}), sdk::Failure);
  for (const json& wrong :
       {json{{"resample", 2}}, {{"max_patches", 4097}}, {{"min_patches", 1 << 20}}, {{"rescale_factor", 1e300}}}) {
    folder.write("preprocessor_config.json", wrong);
    EXPECT_THROW(tile_rules(config, folder.path(), json::object(), {}), sdk::Failure) << wrong;
  }
  folder.write("preprocessor_config.json", {{"image_std", {0.5, 0, 0.5}}});
  EXPECT_THROW(tile_rules(config, folder.path(), json::object(), {}), sdk::Failure);
}

TEST(Tiles, all_mistakes_of_the_processors_file_are_told_at_once_and_one_that_is_no_object_is_refused) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::string& content) -> std::string {
    folder.write_text("preprocessor_config.json", content);
    try {
      tile_rules(parse_config(small_config(false).dump()), folder.path(), json::object(), {});
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_INVALID);
      return failure.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(R"({"image_std": [0, 0, 0], "rescale_factor": -1, "do_resize": false})"),
              testing::AllOf(testing::HasSubstr("image_std: expected three numbers from 1e-06"),
                             testing::HasSubstr("\n"), testing::HasSubstr("rescale_factor: expected a number above 0"),
                             testing::HasSubstr("do_resize: expected nothing or true")));
  EXPECT_THAT(refusal("[]"), testing::HasSubstr("preprocessor_config.json: expected a JSON object, got []; correct"));
  EXPECT_THAT(refusal("{\n,"), testing::AllOf(testing::HasSubstr("got: parse error at line 2"),
                                              testing::Not(testing::HasSubstr("json.exception"))));
}

TEST(Tiles, what_a_video_processors_file_says_without_effect_is_told) {
  const test::TemporaryFolder folder;
  const auto said = [&](const json& content) {
    folder.write("video_preprocessor_config.json", content);
    family::Findings remarks;
    read_tile_rules(parse_config(small_config(false).dump()), folder.path(), json::object(), {}, remarks);
    return told(remarks);
  };
  const json as_pictures = {{"size", {{"height", kTile}, {"width", kTile}}},
                            {"image_mean", {0.485, 0.456, 0.406}},
                            {"image_std", {0.229, 0.224, 0.225}},
                            {"num_frames", 16},
                            {"do_sample_frames", false}};
  EXPECT_EQ(said(as_pictures), "");
  for (const auto& [name, value] : {std::pair<const char*, json>{"size", {{"height", 384}, {"width", 384}}},
                                    {"image_mean", {0.5, 0.5, 0.5}},
                                    {"image_std", {0.5, 0.5, 0.5}}}) {
    json content = as_pictures;
    content[name] = value;
    EXPECT_THAT(said(content), testing::HasSubstr(std::string("video_preprocessor_config.json.") + name + " = " +
                                                  value.dump() + " has no effect: "));
  }
  json sampled = as_pictures;
  sampled["do_sample_frames"] = true;
  EXPECT_THAT(said(sampled), testing::HasSubstr("num_frames = 16 has no effect: 8 frames of a video are looked at"));
}

TEST(Tiles, frames_of_an_absurd_rate_are_as_many_as_are_looked_at_of_any_video) {
  EXPECT_EQ(TileRules().frames(1000, 25, 1e300).size(), 32u);
  EXPECT_EQ(TileRules().frames(1000, 1e-300, 1).size(), 32u);
  EXPECT_EQ(TileRules().frames(1000, 25, 1e-300).size(), 1u);
}

}  // namespace
}  // namespace lf::internvl
