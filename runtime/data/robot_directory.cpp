#include "data/robot_directory.h"

#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "core/error.h"
#include "data/json_text.h"
#include "data/path_text.h"

namespace lf {
namespace {

constexpr uint64_t kMostFrames = uint64_t{1} << 40;

std::filesystem::path info_of(const std::filesystem::path& folder) { return folder / "meta" / "info.json"; }

}  // namespace

bool RobotDirectory::is_one(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(info_of(folder), ignored);
}

RobotDirectory::RobotDirectory(std::filesystem::path folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)) {
  const std::filesystem::path info = info_of(folder_);
  if (readable(folder_.string()) != folder_.string())
    fail(Exit::kBadData, "{}: a LeRobot directory whose path is not valid UTF-8 cannot be told to a model; rename it",
         readable(folder_.string()));
  if (!is_one(folder_))
    fail(Exit::kInputMissing, "{}: not there; expected a LeRobot directory: check data.path", info.string());
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.load(info.string()).get(root))
    fail(Exit::kBadData, "{}: expected JSON, got: {}", info.string(), simdjson::error_message(error));
  if (root["total_frames"].get(frames_) != simdjson::SUCCESS || frames_ > kMostFrames)
    fail(Exit::kBadData, "{}: total_frames: expected a count of frames", info.string());
}

std::string RobotDirectory::place(uint64_t frame) const { return fmt::format("{}:frame {}", name_, frame); }

std::string RobotDirectory::canonical(uint64_t frame) const {
  std::string out = R"({"id":)";
  append_json_string(out, fmt::format("{}#{}", name_, frame));
  out += R"(,"robot":{"directory":)";
  append_json_string(out, folder_.string());
  return out + fmt::format(R"(,"frame":{}}}}})", frame);
}

}  // namespace lf
