#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "diffusion/columns.h"
#include "diffusion/cost.h"
#include "diffusion/latent_samples.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/config_refusal.h"

namespace lf::diffusion {
namespace {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

Tensor counting(std::vector<int64_t> shape, float first = 0) {
  Tensor tensor{std::move(shape), {}};
  const int64_t n = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < n; ++i) tensor.values.push_back(first + static_cast<float>(i) / 16);
  return tensor;
}

class Samples : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::map<std::string, Tensor>& tensors) {
    std::string header = "{", data;
    for (const auto& [key, tensor] : tensors) {
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
      header += fmt::format("{}\"{}\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                            header.size() > 1 ? "," : "", key, fmt::join(tensor.shape, ","), begin, data.size());
    }
    header += "}";
    const std::string path = (folder_ / name).string();
    std::ofstream out(path, std::ios::binary);
    const uint64_t size = header.size();
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out << header << data;
    return path;
  }

  // A sample whose answer is that file. Strings live as long as the fixture.
  lf_sample sample(const std::string& path, uint64_t id = 0, uint64_t epoch = 0) {
    texts_.push_back(fmt::format(R"({{"messages":[{{"role":"user","content":[{{"type":"text","text":"a"}}]}},)"
                                 R"({{"role":"assistant","content":[{{"type":"image","path":"{}"}}]}}]}})",
                                 path));
    auto made = sdk::with_header<lf_sample>();
    made.json = sdk::str(texts_.back());
    made.place = sdk::str("train.jsonl:3");
    made.id = id;
    made.epoch = epoch;
    return made;
  }

  std::filesystem::path folder_;
  std::deque<std::string> texts_;
};

Options options_of(std::string_view options, const DiffusionConfig& config) {
  return family::read_whole([&](family::Findings& findings) { return parse_options(options, config, findings); });
}

DiffusionConfig small_qwen_image() {
  return parse_config(R"({"_class_name":"QwenImageTransformer2DModel","in_channels":8,"out_channels":2,"num_layers":2,
    "attention_head_dim":10,"num_attention_heads":3,"joint_attention_dim":3,"patch_size":2,"axes_dims_rope":[2,4,4],"zero_cond_t":true})");
}
DiffusionConfig small_wan(int64_t in = 2) {
  return parse_config(
      fmt::format(R"({{"_class_name":"WanTransformer3DModel","in_channels":{},"out_channels":2,"num_layers":2,
    "attention_head_dim":12,"num_attention_heads":2,"text_dim":3,"freq_dim":16,"ffn_dim":40}})",
                  in));
}

DiffusionConfig small_flux() {
  return parse_config(R"({"_class_name":"FluxTransformer2DModel","in_channels":8,"num_layers":1,"num_single_layers":1,
    "attention_head_dim":10,"num_attention_heads":3,"joint_attention_dim":3,"pooled_projection_dim":5,
    "axes_dims_rope":[2,4,4]})");
}

TEST_F(Samples, noise_and_level_mix_as_flow_matching_says_and_change_with_the_epoch) {
  const std::string path = write("a", {{"latents", counting({2, 4, 6})}, {"context", counting({5, 3}, 1)}});
  const Options options = options_of(R"({"levels":[300,301]})", small_qwen_image());
  const LatentSamples samples(small_qwen_image(), options, 9);
  const PackedSample made = samples.read(sample(path, 4));
  const NoiseLevel level = make_schedule(options.schedule)[300];
  ASSERT_EQ(made.image_rows, 6);
  EXPECT_EQ(made.times, std::vector<float>{level.time / 1000});
  EXPECT_FLOAT_EQ(static_cast<float>(made.weight), level.weight);
  // The first row is the first 2 x 2 patch, channel by channel; target = noise - latent, noisy = latent + sigma target.
  const std::vector<float> latents = {0, 1, 6, 7, 24, 25, 30, 31};
  for (size_t i = 0; i < latents.size(); ++i)
    EXPECT_NEAR(made.latents[i], latents[i] / 16 + level.sigma * made.target[i], 1e-5);
  EXPECT_EQ(samples.read(sample(path, 4)).target, made.target);
  EXPECT_NE(samples.read(sample(path, 4, 1)).target, made.target);
  EXPECT_NE(samples.read(sample(path, 5)).target, made.target);
}

TEST_F(Samples, of_an_edit_have_centred_positions_of_their_own_and_conditions_at_time_0) {
  const std::string path = write("a", {{"latents", counting({2, 6, 10})},
                                       {"condition.0", counting({2, 4, 2})},
                                       {"condition.1", counting({2, 2, 14})},
                                       {"context", counting({2, 3}, 1)}});
  const LatentSamples samples(small_qwen_image(), options_of("{}", small_qwen_image()), 0);
  const PackedSample made = samples.read(sample(path));
  EXPECT_EQ(made.image_rows, 15 + 2 + 7);
  EXPECT_EQ(made.wanted_rows, 15);
  ASSERT_EQ(made.runs.size(), 2u);
  EXPECT_EQ(made.runs[1].rows, 9);
  EXPECT_EQ(made.times[static_cast<size_t>(made.runs[1].time)], 0);
  const auto all = static_cast<size_t>(made.text_rows + made.image_rows);
  // Text begins at max(h / 2, w / 2) over all pictures: 7 / 2 = 3. Rows of the first, 3 high: -2, -1, 0.
  EXPECT_EQ(made.positions[0], 3);
  EXPECT_EQ(made.positions[1], 4);
  EXPECT_EQ(made.positions[all + 2], -2);
  EXPECT_EQ(made.positions[2 * all + 2], -3);
  EXPECT_EQ(made.positions[2 + 15], 1);  // the first condition is picture 1
  EXPECT_EQ(made.positions[2 + 17], 2);
}

TEST_F(Samples, of_a_video_whose_first_frame_is_given_keep_it_clean_at_time_0_and_unpredicted) {
  const std::string path = write("a", {{"latents", counting({2, 3, 2, 4})}, {"context", counting({2, 3}, 1)}});
  const LatentSamples samples(small_wan(), options_of(R"({"first_frame":1.0,"levels":[500,501]})", small_wan()), 0);
  const PackedSample made = samples.read(sample(path));
  EXPECT_EQ(made.image_rows, 6);
  EXPECT_EQ(made.wanted_begin, 2);
  EXPECT_EQ(made.wanted_rows, 4);
  EXPECT_EQ(made.target.size(), 4u * 8);
  EXPECT_EQ(made.times[static_cast<size_t>(made.runs[0].time)], 0);
  EXPECT_GT(made.times[static_cast<size_t>(made.runs[1].time)], 0);
  // Row 0 is clean: channel 0 rows (0, 1), (4, 5), then channel 1.
  const std::vector<float> clean = {0, 1, 4, 5, 24, 25, 28, 29};
  for (size_t i = 0; i < clean.size(); ++i) EXPECT_EQ(made.latents[i], clean[i] / 16);
}

TEST_F(Samples, zeros_behind_a_text_become_one_row_that_stands_for_all) {
  Tensor context = counting({6, 3}, 1);
  std::fill(context.values.begin() + 9, context.values.end(), 0.0f);  // three rows of text
  const std::string path = write("a", {{"latents", counting({2, 1, 2, 2})}, {"context", context}});
  const LatentSamples samples(small_wan(), options_of(R"({"text_length":10})", small_wan()), 0);
  const PackedSample made = samples.read(sample(path));
  EXPECT_EQ(made.text_rows, 4);
  EXPECT_EQ(made.repeats_of_last, 7);
  EXPECT_EQ(samples.describe(sample(path)).text_rows, 4);
  const LatentSamples plain(small_wan(), options_of(R"({"text_length":0})", small_wan()), 0);
  EXPECT_EQ(plain.read(sample(path)).text_rows, 6);
}

TEST_F(Samples, features_say_before_loading_what_collate_makes) {
  const std::string path = write(
      "a", {{"latents", counting({2, 4, 6})}, {"condition.0", counting({2, 4, 2})}, {"context", counting({5, 3}, 1)}});
  const std::string null_text = write("null", {{"context", counting({1, 3}, 2)}});
  const LatentSamples samples(
      small_qwen_image(),
      options_of(fmt::format(R"({{"text_dropout":0.5,"null_text":"{}"}})", null_text), small_qwen_image()), 0);
  int dropped = 0;
  for (uint64_t id = 0; id < 40; ++id) {
    const PackedSample before = samples.describe(sample(path, id)), made = samples.read(sample(path, id));
    EXPECT_EQ(features_of({&before, 1}, small_qwen_image()), features_of({&made, 1}, small_qwen_image()));
    EXPECT_EQ(made.text.size(), static_cast<size_t>(made.text_rows) * 3);
    dropped += made.text_rows == 1;
  }
  EXPECT_GT(dropped, 8);
  EXPECT_LT(dropped, 32);
}

TEST_F(Samples, that_do_not_fit_the_model_are_refused_with_their_place) {
  const auto refusal = [&](const std::map<std::string, Tensor>& tensors, const DiffusionConfig& config) -> std::string {
    const LatentSamples samples(config, options_of("{}", config), 0);
    const std::string path = write("bad", tensors);
    try {
      samples.read(sample(path));
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      const std::string told = failure.what();
      EXPECT_TRUE(told.starts_with(fmt::format("train.jsonl:3: {}: ", path))) << told;
      for (const char* part : {"expected ", ", got ", "; make the file anew, with the model's own VAE"})
        EXPECT_NE(told.find(part), std::string::npos) << part << " in: " << told;
      return told;
    }
    return "";
  };
  const Tensor context = counting({2, 3}, 1), latents = counting({2, 4, 4});
  const auto expect = [&](const std::map<std::string, Tensor>& tensors, const DiffusionConfig& config,
                          const char* part) {
    const std::string told = refusal(tensors, config);
    EXPECT_NE(told.find(part), std::string::npos) << "expected \"" << part << "\" in: " << told;
  };
  expect({{"latents", counting({3, 4, 4})}, {"context", context}}, small_qwen_image(),
         "latents: expected the 2 channels of the model's, got 3");
  expect({{"latents", counting({2, 3, 4})}, {"context", context}}, small_qwen_image(), "multiples of 1, 2, 2");
  expect({{"latents", latents}, {"context", counting({2, 4})}}, small_qwen_image(), "context: expected [rows, 3]");
  expect({{"latents", latents}}, small_qwen_image(), "expected a tensor \"context\", got latents;");
  expect({{"latents", latents}, {"context", context}, {"lantents", latents}}, small_qwen_image(), "lantents");
  expect({{"latents", counting({2, 2, 4, 4})}, {"context", context}}, small_qwen_image(), "makes pictures");
  expect({{"latents", latents}, {"context", context}}, small_wan(5), "expected a tensor \"y\"");
  expect({{"latents", counting({2, 0, 4})}, {"context", context}}, small_qwen_image(), "sides above 0, got [2, 0, 4]");
  expect({{"latents", counting({16})}, {"context", context}}, small_qwen_image(), "[channels, height, width]");
  expect({{"latents", latents}, {"context", counting({})}}, small_qwen_image(), "context: expected [rows, 3], got []");
  expect({{"latents", latents}, {"context", counting({0, 3})}}, small_qwen_image(), "sides above 0");
  expect({{"latents", latents}, {"context", context}, {"y", latents}}, small_qwen_image(),
         "y: expected no such tensor");
  const Tensor video = counting({2, 3, 4, 4});
  expect({{"latents", video}, {"context", context}, {"y", counting({3, 2, 4, 4})}}, small_wan(5), "3 x 4 x 4");
  expect({{"latents", video}, {"context", context}, {"y", counting({2, 3, 4, 4})}}, small_wan(5),
         "y: expected the 3 channels of the model's, got 2");
  expect({{"latents", video}, {"context", context}, {"condition.0", latents}}, small_wan(), "takes no pictures");
  expect({{"latents", latents}, {"context", context}, {"condition.1", latents}}, small_qwen_image(),
         "without a gap, got no condition.0");
  const Tensor pooled = counting({5});
  expect({{"latents", latents}, {"context", context}}, small_flux(), "expected a tensor \"pooled\"");
  expect({{"latents", latents}, {"context", context}, {"pooled", counting({4})}}, small_flux(),
         "pooled: expected [5], got [4]");
  expect({{"latents", latents}, {"context", context}, {"pooled", counting({1, 5})}}, small_flux(), "got [1, 5]");
  expect({{"latents", latents}, {"context", context}, {"pooled", pooled}, {"condition.0", latents}}, small_flux(),
         "takes no pictures");
  expect({{"latents", video}, {"context", context}, {"pooled", pooled}}, small_flux(), "makes pictures");
  expect({{"latents", latents}, {"context", context}, {"condition.0", counting({3, 4, 4})}}, small_qwen_image(),
         "condition.0: expected the 2 channels of the model's, got 3");
  expect({{"latents", latents}, {"context", context}, {"condition.0", counting({2, 3, 4})}}, small_qwen_image(),
         "condition.0: expected frames, height and width in multiples of 1, 2, 2");
  expect({{"latents", latents}, {"context", context}, {"condition.0", counting({2, 2, 4, 4})}}, small_qwen_image(),
         "condition.0: expected a picture, got 2 frames");
  for (const char* name : {"latents", "context", "condition.0"})
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::map<std::string, Tensor> broken{{"latents", latents}, {"context", context}, {"condition.0", latents}};
      broken[name].values[3] = value;
      expect(broken, small_qwen_image(),
             fmt::format("tensor \"{}\": expected finite values, got {} as value 3", name, value).c_str());
    }
}

TEST_F(Samples, of_files_that_are_cut_or_lie_about_their_sizes_are_refused) {
  const LatentSamples samples(small_qwen_image(), options_of("{}", small_qwen_image()), 0);
  const std::string path = write("a", {{"latents", counting({2, 4, 4})}, {"context", counting({2, 3})}});
  for (const uintmax_t keep : {uintmax_t{0}, uintmax_t{5}, uintmax_t{20}, std::filesystem::file_size(path) - 4}) {
    const std::string cut = (folder_ / "cut").string();
    std::filesystem::copy_file(path, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, keep);
    try {
      samples.describe(sample(cut));
      ADD_FAILURE() << keep << " bytes were enough";
    } catch (const sdk::Failure& failure) {
      const std::string told = failure.what();
      for (const char* part : {"train.jsonl:3: ", "expected ", ", got ", "; make the file anew"})
        EXPECT_NE(told.find(part), std::string::npos) << part << " in: " << told;
    }
  }
}

TEST_F(Samples, whose_file_is_absent_or_no_file_of_floats_are_refused_with_their_path) {
  const LatentSamples samples(small_qwen_image(), options_of("{}", small_qwen_image()), 0);
  const auto refusal = [&](const std::string& path) -> std::string {
    try {
      samples.read(sample(path));
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      return failure.what();
    }
    return "";
  };
  const std::string absent = (folder_ / "absent").string(), folder = folder_.string();
  EXPECT_TRUE(refusal(absent).starts_with("train.jsonl:3: " + absent +
                                          ": expected a safetensors file, got none that can be read; check the path"))
      << refusal(absent);
  EXPECT_TRUE(refusal(folder).starts_with("train.jsonl:3: " + folder + ": expected a safetensors file, got a folder"))
      << refusal(folder);
  std::string integers = write("a", {{"latents", counting({2, 4, 4})}, {"context", counting({2, 3})}});
  std::fstream file(integers, std::ios::binary | std::ios::in | std::ios::out);
  std::string header(64, '\0');
  file.seekg(8).read(header.data(), static_cast<std::streamsize>(header.size()));
  const size_t at = header.find("F32");
  ASSERT_NE(at, std::string::npos);
  file.seekp(8 + static_cast<std::streamoff>(at)).write("I32", 3);
  file.close();
  EXPECT_NE(refusal(integers).find("expected F32, F16 or BF16, got I32"), std::string::npos) << refusal(integers);
}

TEST_F(Samples, of_a_file_whose_header_leaves_out_what_a_tensor_is_are_refused_by_its_name) {
  const LatentSamples samples(small_qwen_image(), options_of("{}", small_qwen_image()), 0);
  const std::string header = R"({"latents":{"dtype":"F32","shape":[1]}})", path = (folder_ / "bare").string();
  const auto length = static_cast<uint64_t>(header.size());
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&length), 8) << header;
  try {
    samples.describe(sample(path));
    FAIL();
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_DATA);
    const std::string told = failure.what();
    EXPECT_NE(told.find(path + ": tensor \"latents\": expected dtype, shape and data_offsets, got "
                               R"({"dtype":"F32","shape":[1]})"),
              std::string::npos)
        << told;
    EXPECT_EQ(told.find("json.exception"), std::string::npos) << told;
  }
}

TEST_F(Samples, of_a_conversation_without_one_answer_in_a_file_are_refused) {
  const LatentSamples samples(small_qwen_image(), options_of("{}", small_qwen_image()), 0);
  const auto refusal = [&](const std::string& user, const std::string& assistant) -> std::string {
    const std::string json = fmt::format(R"({{"messages":[{{"role":"user","content":[{}]}},)"
                                         R"({{"role":"assistant","content":[{}]}}]}})",
                                         user, assistant);
    auto given = sdk::with_header<lf_sample>();
    given.json = sdk::str(json);
    given.place = sdk::str("train.jsonl:3");
    try {
      samples.read(given);
    } catch (const sdk::Failure& failure) {
      return failure.what();
    }
    return "";
  };
  const char* text = R"({"type":"text","text":"a"})";
  const char* image = R"({"type":"image","path":"/x"})";
  const auto expect = [&](const std::string& user, const std::string& assistant, const char* what) {
    for (const char* part : {"train.jsonl:3: messages: expected ", ", got ", "README.md shows a line", what})
      EXPECT_NE(refusal(user, assistant).find(part), std::string::npos) << part << " in: " << refusal(user, assistant);
  };
  expect(text, text, "expected a picture or video in the last message");
  expect(text, fmt::format("{},{}", image, image), "got two");
  expect(image, image, "stands in the answer's file, as condition.0");
  expect(text, R"({"type":"video","frames":["/x","/y"],"fps":2.0})", "expected a file of latents, got frames");
}

TEST_F(Samples, with_an_empty_prompt_that_does_not_fit_the_model_are_refused_before_any_sample) {
  const auto refusal = [&](const std::map<std::string, Tensor>& tensors, const DiffusionConfig& config) -> std::string {
    const std::string path = write("null", tensors);
    try {
      LatentSamples(config, options_of(fmt::format(R"({{"text_dropout":0.5,"null_text":"{}"}})", path), config), 0);
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_INVALID);
      EXPECT_TRUE(std::string(failure.what()).starts_with("model.options.null_text: " + path)) << failure.what();
      return failure.what();
    }
    return "";
  };
  const Tensor fits = counting({1, 3}, 1);
  EXPECT_NE(refusal({{"context", counting({513, 3}, 1)}}, small_wan()).find("at most the 512 rows of text"),
            std::string::npos);
  EXPECT_EQ(refusal({{"context", fits}, {"pooled", counting({5})}}, small_flux()), "");
  EXPECT_NE(refusal({{"context", counting({1, 4})}}, small_wan()).find("context: expected [rows, 3], got [1, 4]"),
            std::string::npos);
  EXPECT_NE(refusal({{"context", fits}, {"pooled", counting({4})}}, small_flux()).find("pooled: expected [5]"),
            std::string::npos);
  EXPECT_NE(refusal({{"context", fits}}, small_flux()).find("expected a tensor \"pooled\""), std::string::npos);
  EXPECT_NE(refusal({{"pooled", counting({5})}}, small_flux()).find("expected a tensor \"context\""),
            std::string::npos);
}

void parse_text(const std::string& config) { parse_config(config); }

std::string refusal_of(const nlohmann::json& config) { return config_refusal(&parse_text, config); }

// All that a file of the class must state, and `more`.
nlohmann::json sized(const std::string& class_name, const nlohmann::json& more = nlohmann::json::object()) {
  static const nlohmann::json kSizes = {{"FluxTransformer2DModel",
                                         {{"in_channels", 8},
                                          {"num_layers", 1},
                                          {"num_single_layers", 1},
                                          {"attention_head_dim", 10},
                                          {"num_attention_heads", 3},
                                          {"joint_attention_dim", 3},
                                          {"pooled_projection_dim", 5},
                                          {"axes_dims_rope", {2, 4, 4}}}},
                                        {"QwenImageTransformer2DModel",
                                         {{"patch_size", 2},
                                          {"in_channels", 8},
                                          {"out_channels", 2},
                                          {"num_layers", 2},
                                          {"attention_head_dim", 10},
                                          {"num_attention_heads", 3},
                                          {"joint_attention_dim", 3},
                                          {"axes_dims_rope", {2, 4, 4}}}},
                                        {"WanTransformer3DModel",
                                         {{"in_channels", 4},
                                          {"num_layers", 2},
                                          {"attention_head_dim", 12},
                                          {"num_attention_heads", 2},
                                          {"text_dim", 3},
                                          {"freq_dim", 16},
                                          {"ffn_dim", 40}}},
                                        {"WanModel",
                                         {{"dim", 24},
                                          {"num_heads", 2},
                                          {"in_dim", 4},
                                          {"out_dim", 4},
                                          {"num_layers", 2},
                                          {"freq_dim", 16},
                                          {"ffn_dim", 40}}}};
  nlohmann::json config = kSizes.value(class_name, nlohmann::json::object());
  config["_class_name"] = class_name;
  config.update(more);
  return config;
}

TEST(Config, that_would_change_the_maths_is_refused_by_name) {
  using nlohmann::json;
  EXPECT_NE(refusal_of(sized("WanTransformer3DModel", {{"image_dim", 1280}})).find("image_dim"), std::string::npos);
  EXPECT_NE(refusal_of(sized("QwenImageTransformer2DModel", {{"use_layer3d_rope", true}})).find("use_layer3d_rope"),
            std::string::npos);
  EXPECT_NE(refusal_of(sized("FluxTransformer2DModel", {{"axes_dims_rope", {16, 56, 54}}})).find("axes_dims_rope"),
            std::string::npos);
  EXPECT_NE(refusal_of(sized("SD3Transformer2DModel")).find("FluxTransformer2DModel"), std::string::npos);
  EXPECT_NE(refusal_of(sized("WanModel", {{"model_type", "s2v"}})).find("model_type"), std::string::npos);
  for (const char* model :
       {"FluxTransformer2DModel", "QwenImageTransformer2DModel", "WanTransformer3DModel", "WanModel"}) {
    const auto with = [&](const char* name, const char* value) { return sized(model, {{name, json::parse(value)}}); };
    for (const char* value : {"1", "true", "\"rms\"", "[2]", "{\"a\": null}", "-0.5"})
      EXPECT_EQ(refusal_of(with("novel", value)),
                fmt::format("config.json.novel = {}: diffusion does not know this field, which may change the maths; "
                            "remove it if it changes nothing",
                            json::parse(value).dump()));
    for (const char* off : {"false", "0", "\"\"", "[]", "{}"})
      EXPECT_EQ(parse_config(with("novel", off).dump()).unknown_keys, std::vector<std::string>{"config.json.novel"});
    for (const auto& [name, value] : {std::pair("novel", "null"), std::pair("_diffusers_version", "\"9.1\""),
                                      std::pair("_name_or_path", "\"a/b\""), std::pair("torch_dtype", "\"bfloat16\"")})
      EXPECT_TRUE(parse_config(with(name, value).dump()).unknown_keys.empty()) << name;
  }
}

TEST(Config, must_state_every_size) {
  for (const char* model :
       {"FluxTransformer2DModel", "QwenImageTransformer2DModel", "WanTransformer3DModel", "WanModel"}) {
    std::vector<std::string> sizes;
    const nlohmann::json config = sized(model);
    for (const auto& [name, value] : config.items())
      if (name != "_class_name" && name != "axes_dims_rope") sizes.push_back("/" + name);
    expect_stated(&parse_text, config, sizes);
  }
}

// As published: Wan's authors leave out what text is made of, Flux's how its rotation is cut.
TEST(Config, tells_what_it_takes_for_what_published_files_leave_out) {
  family::Findings wan, flux;
  EXPECT_EQ(parse_config(sized("WanModel", {{"eps", 1e-6}}).dump(), wan).text_columns, 4096);
  EXPECT_EQ(told(wan),
            "config.json: left out and taken as the reference's class has them: patch_size [1,2,2], text_dim "
            "4096, cross_attn_norm true\n");
  nlohmann::json published =
      sized("FluxTransformer2DModel", {{"patch_size", 1}, {"guidance_embeds", true}, {"attention_head_dim", 128}});
  published.erase("axes_dims_rope");
  parse_config(published.dump(), flux);
  EXPECT_EQ(told(flux),
            "config.json: left out and taken as the reference's class has them: axes_dims_rope [16,56,56]\n");
}

TEST(Config, and_its_options_tell_all_mistakes_at_once_and_nothing_that_follows_from_another) {
  using testing::HasSubstr;
  const auto parse = [](const std::string& text) {
    family::Findings findings;
    const DiffusionConfig config = parse_config(text, findings);
    parse_options(R"({"schedule":"linear","levels":[5],"guidance":-1,"text_dropout":2,"first_frames":0.5})", config,
                  findings);
    findings.refuse_if_any();
  };
  const nlohmann::json flux =
      sized("FluxTransformer2DModel", {{"in_channels", "many"},    // what goes out would be compared with it
                                       {"attention_head_dim", 0},  // the rotation, too
                                       {"num_layers", -1},
                                       {"guidance_embeds", "yes"},
                                       {"novel", 2}});
  EXPECT_THAT(config_mistakes(parse, flux),
              testing::UnorderedElementsAre(
                  HasSubstr("config.json.in_channels"), HasSubstr("config.json.attention_head_dim"),
                  HasSubstr("config.json.num_layers"), HasSubstr("config.json.guidance_embeds"),
                  HasSubstr("config.json.novel = 2"), HasSubstr("model.options.schedule"),
                  HasSubstr("model.options.levels"), HasSubstr("model.options.guidance"),
                  HasSubstr("model.options.text_dropout"), HasSubstr("model.options.first_frames: diffusion has no")));
}

}  // namespace
}  // namespace lf::diffusion
