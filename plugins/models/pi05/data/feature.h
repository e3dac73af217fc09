// What a LeRobot directory's info.json says of one column or camera.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "media/smart_resize.h"

namespace lf::robot {

struct Feature {
  std::string name;   // "observation.state"
  std::string dtype;  // "float32", "video", "image" ...
  std::vector<int64_t> shape;
  std::vector<std::string> names;  // of the last axis of a vector, by place; empty where the directory gives none

  bool is_camera() const { return dtype == "video" || dtype == "image"; }
  bool is_video() const { return dtype == "video"; }
};

// `place`: "DIR/meta/info.json: features". Throws sdk::Failure(LF_E_INVALID).
Feature read_feature(const std::string& name, const nlohmann::json& value, const std::string& place);

// Height and width of a camera of three channels. Throws LF_E_INVALID for another number of channels, or no pixels.
media::Size picture_size(const Feature& camera, const std::string& place);

// Numbers in a row of a vector. Throws LF_E_INVALID where it is none.
int64_t vector_width(const Feature& vector, const std::string& place);

}  // namespace lf::robot
