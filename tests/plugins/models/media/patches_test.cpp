#include "media/patches.h"

#include <cmath>

#include <gtest/gtest.h>

#include "media/resample.h"
#include "recorded.h"

namespace lf::media {
namespace {

using nlohmann::json;

Levels levels_of_patch(int64_t patch) {
  constexpr double kHalf[3] = {0.5, 0.5, 0.5};
  constexpr double kMean[3] = {0.48145466, 0.4578275, 0.40821073}, kDeviation[3] = {0.26862954, 0.26130258, 0.27577711};
  return patch == 16 ? make_levels(1 / 255.0, kHalf, kHalf) : make_levels(1 / 255.0, kMean, kDeviation);
}

// The byte whose value this is, or the nearest one.
int level_of(float value, const std::array<float, 256>& levels) {
  const auto above = std::lower_bound(levels.begin(), levels.end(), value);
  if (above == levels.begin()) return 0;
  if (above == levels.end()) return 255;
  return static_cast<int>(above - levels.begin()) - (value - *(above - 1) < *above - value ? 1 : 0);
}

TEST(Patches, a_bytes_normalised_value_is_the_references_to_the_bit) {
  const json recorded = test::recorded_processor();
  for (const int64_t patch : {14, 16}) {
    const Levels levels = levels_of_patch(patch);
    for (size_t channel = 0; channel < 3; ++channel)
      for (size_t byte = 0; byte < 256; ++byte)
        EXPECT_EQ(levels.value[channel][byte], recorded["tables"][std::to_string(patch)][channel][byte].get<float>());
  }
}

TEST(Patches, pictures_give_the_references_patches_value_for_value) {
  const json recorded = test::recorded_processor();
  const std::vector<uint8_t> bytes = test::recorded_levels();
  for (const json& one : recorded["images"]) {
    SCOPED_TRACE(one.dump());
    PatchShape shape;
    shape.patch = one["patch"];
    const Size size{one["height"], one["width"]};
    const Size target = smart_resize(size, shape.factor(), {one["least"], one["most"]});
    ASSERT_EQ(target.height / shape.patch, one["grid"][1].get<int64_t>());
    ASSERT_EQ(target.width / shape.patch, one["grid"][2].get<int64_t>());
    std::vector<uint8_t> pixels(static_cast<size_t>(target.height * target.width * 3));
    const auto source = test::picture(size.width, size.height, one["seed"], one["gray"]);
    resize_bicubic(source.data(), size, pixels.data(), target, PassOrder::kPillow);
    const auto rows = one["rows"].get<int64_t>();
    ASSERT_EQ(rows, target.height / shape.patch * (target.width / shape.patch));
    std::vector<float> out(static_cast<size_t>(rows * shape.values()), NAN);
    const uint8_t* frames[2] = {pixels.data(), pixels.data()};
    const Levels levels = levels_of_patch(shape.patch);
    write_patches(frames, target, shape, levels, out.data());

    const uint8_t* expected = &bytes[one["offset"].get<size_t>()];
    const int64_t area = shape.patch * shape.patch;
    int64_t wrong = 0;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t channel = 0; channel < 3; ++channel)
        for (int64_t t = 0; t < 2; ++t)
          for (int64_t i = 0; i < area; ++i)
            wrong += out[static_cast<size_t>(row * shape.values() + (channel * 2 + t) * area + i)] !=
                     levels.value[static_cast<size_t>(channel)][expected[(row * 3 + channel) * area + i]];
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Patches,
     videos_give_the_references_patches_within_one_grey_level) {  // the reference resizes videos by other means
  const json recorded = test::recorded_processor();
  const std::vector<uint8_t> bytes = test::recorded_levels();
  for (const json& one : recorded["videos"]) {
    SCOPED_TRACE(one.dump());
    PatchShape shape;
    shape.patch = one["patch"];
    const Size size{one["height"], one["width"]};
    const auto frames = one["frames"].get<int64_t>();
    const PixelLimits limits{one["least"], one["most"]};
    const Size target = one["generation"] == 3 ? smart_resize_video(frames, size, 2, shape.factor(), limits)
                                               : smart_resize(size, shape.factor(), limits);
    ASSERT_EQ(target.height / shape.patch, one["grid"][1].get<int64_t>());
    ASSERT_EQ(target.width / shape.patch, one["grid"][2].get<int64_t>());
    ASSERT_EQ((frames + 1) / 2, one["grid"][0].get<int64_t>());
    std::vector<std::vector<uint8_t>> pixels;
    for (int64_t i = 0; i < frames; ++i) {
      pixels.emplace_back(static_cast<size_t>(target.height * target.width * 3));
      const auto source = test::picture(size.width, size.height, one["seed"].get<int64_t>() + i);
      resize_bicubic(source.data(), size, pixels.back().data(), target, PassOrder::kRowsFirst);
    }
    const int64_t group_rows = target.height / shape.patch * (target.width / shape.patch);
    const Levels levels = levels_of_patch(shape.patch);
    int worst = 0;
    for (int64_t group = 0; group < (frames + 1) / 2; ++group) {
      std::vector<float> out(static_cast<size_t>(group_rows * shape.values()), NAN);
      const uint8_t* pair[2] = {pixels[static_cast<size_t>(2 * group)].data(),
                                pixels[static_cast<size_t>(std::min(2 * group + 1, frames - 1))].data()};
      write_patches(pair, target, shape, levels, out.data());
      const uint8_t* expected =
          &bytes[one["offset"].get<size_t>() + static_cast<size_t>(group * group_rows * shape.values())];
      for (size_t i = 0; i < out.size(); ++i) {
        const size_t channel =
            i % static_cast<size_t>(shape.values()) / static_cast<size_t>(2 * shape.patch * shape.patch);
        ASSERT_FALSE(std::isnan(out[i]));
        worst = std::max(worst, std::abs(level_of(out[i], levels.value[channel]) - expected[i]));
      }
    }
    EXPECT_LE(worst, 1);
  }
}

}  // namespace
}  // namespace lf::media
