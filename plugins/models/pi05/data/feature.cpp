#include "pi05/data/feature.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::robot {
namespace {

using nlohmann::json;

constexpr int64_t kMostSide = 1 << 16, kMostNumbers = 1 << 16;

[[noreturn]] void refuse_feature(const std::string& place, const std::string& feature, const std::string& reason) {
  throw sdk::Failure(LF_E_INVALID, fmt::format("{}.{}: {}", place, feature, reason));
}

// A list of names; an object that holds one such list ({"motors": [...]}); or an object of places by name.
std::vector<std::string> read_names(const json& names) {
  const auto all_texts = [](const json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), [](const json& one) { return one.is_string(); });
  };
  if (all_texts(names)) return names.get<std::vector<std::string>>();
  if (!names.is_object()) return {};
  if (names.size() == 1 && all_texts(names.front())) return names.front().get<std::vector<std::string>>();
  std::vector<std::string> out(names.size());
  for (const auto& [name, place] : names.items()) {
    if (!place.is_number_unsigned() || place.get<uint64_t>() >= out.size() || !out[place.get<size_t>()].empty())
      return {};
    out[place.get<size_t>()] = name;
  }
  return out;
}

}  // namespace

Feature read_feature(const std::string& name, const json& value, const std::string& place) {
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string())
    refuse_feature(place, name, "expected an object with dtype and shape");
  Feature out{name, value["dtype"].get<std::string>(), {}, {}};
  const json shape = value.value("shape", json());
  if (!shape.is_array() ||
      !std::all_of(shape.begin(), shape.end(), [](const json& side) { return side.is_number_integer(); }))
    refuse_feature(place, name, fmt::format("expected a shape of integers, got {}", shape.dump()));
  out.shape = shape.get<std::vector<int64_t>>();
  out.names = read_names(value.value("names", json()));
  return out;
}

media::Size picture_size(const Feature& camera, const std::string& place) {
  const std::vector<int64_t>& shape = camera.shape;
  if (shape.size() != 3)
    refuse_feature(place, camera.name, fmt::format("expected a shape of height, width, channels, got {}", shape));
  const bool channels_first =
      camera.names.size() == 3 ? camera.names[0].starts_with("channel") : shape[2] != 3 && shape[0] == 3;
  const int64_t channels = shape[channels_first ? 0 : 2];
  const media::Size size{shape[channels_first ? 1 : 0], shape[channels_first ? 2 : 1]};
  if (channels != 3)
    refuse_feature(
        place, camera.name,
        fmt::format("expected a camera of 3 channels, got {}; leave it out of model.options.cameras", channels));
  if (size.height < 1 || size.width < 1 || size.height > kMostSide || size.width > kMostSide)
    refuse_feature(place, camera.name,
                   fmt::format("expected sides from 1 to {}, got {} x {} pixels", kMostSide, size.width, size.height));
  return size;
}

int64_t vector_width(const Feature& vector, const std::string& place) {
  if (vector.is_camera() || vector.shape.size() != 1 || vector.shape[0] < 1 || vector.shape[0] > kMostNumbers)
    refuse_feature(place, vector.name,
                   fmt::format("expected a vector of numbers, got {} {}", vector.dtype, vector.shape));
  return vector.shape[0];
}

}  // namespace lf::robot
