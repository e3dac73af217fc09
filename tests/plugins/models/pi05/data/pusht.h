// The directories that lerobot wrote, copies of them to be spoilt, and a host that decodes.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "core/host.h"
#include "data/media/media_reader.h"
#include "pi05/data/episode_reader.h"
#include "support/scratch_folder.h"

namespace lf::test {

inline std::filesystem::path robot_fixture(const std::string& name) {
  return std::filesystem::path(LF_SOURCE_DIR) / "tests/fixtures/robot" / name;
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(std::ifstream(path));
}

struct DecodingHost {
  Host host;
  MediaReader media{std::filesystem::current_path(), 1 << 20};
  DecodingHost() { media.offer_to(host); }
};

// As the reader wants it: two views of 32 pixels, chunks of 8 actions of 4 numbers.
inline robot::RobotShape small_shape() { return {.horizon = 8, .action_dim = 4, .image_size = 32, .views = 2}; }

inline robot::RobotOptions plain_options() {
  robot::RobotOptions options;
  options.state_normalization = options.action_normalization = robot::Normalization::kNone;
  return options;
}

// A copy that a test may change.
class SpoiltDirectory {
 public:
  explicit SpoiltDirectory(const std::string& fixture) {
    std::filesystem::copy(robot_fixture(fixture), path(), std::filesystem::copy_options::recursive);
  }
  std::filesystem::path path() const { return scratch_.path() / "robot"; }
  std::filesystem::path data() const { return path() / "data/chunk-000/file-000.parquet"; }
  std::filesystem::path episodes() const { return path() / "meta/episodes/chunk-000/file-000.parquet"; }
  std::filesystem::path video() const { return path() / "videos/observation.images.top/chunk-000/file-000.mp4"; }
  void change_json(const std::string& file, const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json json = read_json(path() / file);
    change(json);
    std::ofstream(path() / file) << json;
  }

 private:
  ScratchFolder scratch_;
};

}  // namespace lf::test
