// A LeRobot directory as a source of samples: each frame is one. Only meta/info.json is read here; tables and videos
// are the model family's to open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lf {

class RobotDirectory {
 public:
  // Whether the folder has a meta/info.json.
  static bool is_one(const std::filesystem::path& folder);

  // folder: absolute. name: of it in messages and samples' ids. Throws kInputMissing where there is no meta/info.json,
  // kBadData where it does not say how many frames there are.
  RobotDirectory(std::filesystem::path folder, std::string name);

  uint64_t size() const { return frames_; }
  std::string place(uint64_t frame) const;      // "pusht:frame 17"
  std::string canonical(uint64_t frame) const;  // docs/samples.md

 private:
  std::filesystem::path folder_;
  std::string name_;
  uint64_t frames_ = 0;
};

}  // namespace lf
