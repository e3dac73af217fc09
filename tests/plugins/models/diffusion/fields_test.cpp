// Samples given as tensors: what is refused, by the field's name.
#include "diffusion/fields.h"

#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/qwen_vl/safetensors_file.h"
#include "plugins/models/qwen_vl_processor/tensors.h"

namespace lf::diffusion {
namespace {

using test::FileTensor;
using testing::HasSubstr;
using testing::StartsWith;

// A recorded case, to be changed and read.
class RecordedFields {
 public:
  explicit RecordedFields(const std::string& name, const std::string& part = "main")
      : config_(parse_config(test::read_file(directory(name) + "/config.json"))),
        tensors_(test::read_safetensors(directory(name) + "/" + part + "/inputs.safetensors")) {
    for (const auto& [field, tensor] : tensors_)
      if (!tensor.integers.empty()) integers_.push_back(field);
  }

  FileTensor& operator[](const std::string& name) { return tensors_.at(name); }
  void drop(const std::string& name) { tensors_.erase(name); }
  void add(const std::string& name, FileTensor tensor) { tensors_[name] = std::move(tensor); }
  // The first `length` along an axis of every field that has `from` there.
  void cut(size_t axis, int64_t from, int64_t length) {
    for (auto& [name, tensor] : tensors_) {
      if (tensor.shape.size() <= axis || tensor.shape[axis] != from) continue;
      tensor.shape[axis] = length;
      tensor.floats.resize(tensor.floats.size() / static_cast<size_t>(from) * static_cast<size_t>(length));
      tensor.integers.resize(tensor.integers.size() / static_cast<size_t>(from) * static_cast<size_t>(length));
    }
  }

  std::string refusal() const {
    test::NamedTensors named;
    for (const auto& [name, tensor] : tensors_)
      if (std::find(integers_.begin(), integers_.end(), name) != integers_.end())
        named.add(name, tensor.integers, tensor.shape, LF_DTYPE_I64);
      else
        named.add(name, tensor.floats, tensor.shape, LF_DTYPE_F32);
    try {
      return read_fields(named.view(), config_).empty() ? "no samples" : "accepted";
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      return failure.what();
    }
  }

 private:
  static std::string directory(const std::string& name) { return std::string(LF_REFERENCES) + "/" + name; }

  DiffusionConfig config_;
  std::map<std::string, FileTensor> tensors_;
  std::vector<std::string> integers_;
};

constexpr const char* kAll[] = {"flux-tiny", "flux-odd", "qwen_image-tiny", "qwen_image-odd", "wan-tiny", "wan-odd"};

TEST(DiffusionFields, as_recorded_are_accepted) {
  for (const char* name : kAll) EXPECT_EQ(RecordedFields(name).refusal(), "accepted") << name;
  EXPECT_EQ(RecordedFields("wan-odd", "ragged").refusal(), "accepted");
}

// Each field by itself, and all of them together, as a loader that found nothing would give them.
TEST(DiffusionFields, without_samples_or_rows_are_refused) {
  for (const char* name : kAll) {
    RecordedFields none(name);
    none.cut(0, 2, 0);
    EXPECT_THAT(none.refusal(), HasSubstr("field noisy_latents: expected one or more along each axis, got [0, "))
        << name;
  }
  RecordedFields rows("flux-tiny");
  rows.cut(1, 24, 0);
  rows.cut(0, 24, 0);
  EXPECT_THAT(rows.refusal(), StartsWith("field noisy_latents: expected one or more along each axis, got [2, 0, 12]"));
  RecordedFields frames("wan-tiny");
  frames.cut(2, 3, 0);
  EXPECT_THAT(frames.refusal(), StartsWith("field noisy_latents: expected one or more along each axis"));
  RecordedFields text("flux-tiny");
  text.cut(1, 5, 0);
  EXPECT_THAT(text.refusal(), StartsWith("field context: expected one or more along each axis, got [2, 0, 18]"));
  RecordedFields pictures("qwen_image-tiny");
  pictures["img_shapes"] = {{0, 3}, {}, {}};
  EXPECT_THAT(pictures.refusal(), StartsWith("field img_shapes: expected one or more along each axis"));
  RecordedFields ragged("wan-odd", "ragged");
  ragged["1.context"] = {{1, 0, 14}, {}, {}};
  EXPECT_THAT(ragged.refusal(), StartsWith("field 1.context: expected one or more along each axis"));
}

TEST(DiffusionFields, with_a_value_that_is_not_finite_are_refused_by_name_and_place) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> floats = {
      {"flux-tiny", {"noisy_latents", "target", "context", "pooled", "guidance", "timestep", "weight", "img_ids"}},
      {"qwen_image-odd", {"noisy_latents", "target", "context", "edit_latents", "timestep", "weight"}},
      {"wan-tiny", {"noisy_latents", "target", "context", "y", "timestep", "weight"}},
      {"wan-odd", {"token_timestep", "loss_mask"}}};
  for (const auto& [name, fields] : floats)
    for (const char* field : fields)
      for (const float value : {NAN, INFINITY}) {
        RecordedFields given(name);
        given[field].floats.back() = value;
        const size_t place = given[field].floats.size() - 1;
        EXPECT_EQ(given.refusal(), fmt::format("field {}: expected finite values, got {} at {}", field, value, place));
      }
}

struct Wrong {
  const char* name;
  std::function<void(RecordedFields&)> spoil;
  const char* message;
};

TEST(DiffusionFields, that_do_not_fit_get_one_error_that_names_them) {
  const std::vector<Wrong> all = {
      {"flux-tiny", [](auto& f) { f.drop("noisy_latents"); }, "field noisy_latents: expected it to be there"},
      {"flux-tiny", [](auto& f) { f.drop("timestep"); }, "field timestep: expected it to be there"},
      {"flux-tiny", [](auto& f) { f.drop("guidance"); }, "field guidance: expected it to be there"},
      {"flux-tiny", [](auto& f) { f.cut(2, 12, 6); }, "field noisy_latents: expected f32 [-1, -1, 12]"},
      {"flux-tiny",
       [](auto& f) {
         f["target"].shape = {2, 12, 24};
       },
       "field target"},
      {"flux-tiny",
       [](auto& f) {
         f["context"].shape = {1, 10, 18};
       },
       "field context"},
      {"flux-tiny", [](auto& f) { f["img_ids"].floats[1] = 0.5f; }, "field img_ids: expected whole numbers, got 0.5"},
      {"flux-tiny", [](auto& f) { f["timestep"].floats[1] = 1001; },
       "field timestep: expected values from 0 to 1000, got 1001"},
      {"flux-tiny", [](auto& f) { f["weight"].floats[0] = -1; }, "field weight: expected values from 0 to"},
      {"flux-tiny",
       [](auto& f) {
         f.add("y", {{1}, {1}, {}});
       },
       "field y: the model has no such input"},
      {"flux-tiny",
       [](auto& f) {
         f.add("0.weight", {{2}, {1, 1}, {}});
       },
       "expected all of them numbered, or none"},
      {"qwen_image-tiny", [](auto& f) { f["img_shapes"].integers[1] = 0; },
       "field img_shapes: expected sides from 1 to 1048576, got 0"},
      {"qwen_image-tiny", [](auto& f) { f["img_shapes"].integers[1] += 1; },
       "field img_shapes: expected a first picture of 24 rows"},
      {"qwen_image-tiny", [](auto& f) { f["context_mask"].integers.assign(14, 0); },
       "field context_mask: expected a row that counts in sample 0"},
      {"qwen_image-odd", [](auto& f) { f.drop("edit_latents"); }, "field edit_latents: expected it to be there"},
      {"wan-tiny", [](auto& f) { f.drop("y"); }, "field y: expected it to be there"},
      {"wan-tiny", [](auto& f) { f.cut(1, 4, 3); }, "field noisy_latents: expected f32 [-1, 4, -1, -1, -1]"},
      {"wan-tiny", [](auto& f) { f.cut(3, 4, 3); }, "field noisy_latents: expected frames, height and width"},
      {"wan-odd", [](auto& f) { f["token_timestep"].floats[0] = -1; },
       "field token_timestep: expected values from 0 to 1000, got -1"},
      {"wan-odd", [](auto& f) { f["loss_mask"].floats.assign(3, 0.0f); },
       "field loss_mask: expected something that counts"},
      {"wan-odd", [](auto& f) { f["loss_mask"].floats[1] = 0.5f; }, "field loss_mask: expected 0 or 1"},
      {"wan-odd",
       [](auto& f) {
         f["loss_mask"].shape = {3, 1, 1, 1, 1};
       },
       "field loss_mask: expected a shape that"},
  };
  for (const Wrong& wrong : all) {
    RecordedFields given(wrong.name);
    wrong.spoil(given);
    EXPECT_THAT(given.refusal(), HasSubstr(wrong.message)) << wrong.name;
  }
}

}  // namespace
}  // namespace lf::diffusion
