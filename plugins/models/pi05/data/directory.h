// A LeRobot v3 directory: what meta/ says, and where each frame lies. Source of the layout: lerobot 0.6.1,
// datasets/dataset_metadata.py and utils.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "pi05/data/feature.h"

namespace lf::robot {

// One of the numbered files that hold many episodes.
struct FileNumber {
  int64_t chunk = 0, file = 0;
  auto operator<=>(const FileNumber&) const = default;
};

struct Episode {
  int64_t number = 0;          // as the directory counts
  int64_t begin = 0, end = 0;  // frames, counted through the directory
  FileNumber data;
  struct Video {
    FileNumber file;
    double begin = 0, end = 0;  // seconds within the file
  };
  std::vector<Video> videos;  // in the order of Directory::video_keys
};

// Immutable once made; any thread. Reads everything below meta/ but the episodes' statistics.
class Directory {
 public:
  // Throws sdk::Failure(LF_E_INVALID), naming the file, where the directory is not as lerobot writes it.
  explicit Directory(std::string root);

  const std::string& root() const { return root_; }
  int64_t frames() const { return episodes_.empty() ? 0 : episodes_.back().end; }
  double frames_per_second() const { return frames_per_second_; }
  const std::vector<Feature>& features() const { return features_; }
  const Feature* find(const std::string& feature) const;  // null: there is none
  const std::vector<Episode>& episodes() const { return episodes_; }
  const std::vector<std::string>& video_keys() const { return video_keys_; }
  // Null where the directory has no such task.
  const std::string* task(int64_t index) const;
  // "DIR/meta/info.json: features", for messages.
  std::string features_place() const { return root_ + "/meta/info.json: features"; }

  // Throws LF_E_DATA for a frame that the directory does not have.
  const Episode& episode_of(int64_t frame) const;
  // Of the file's frames the one that comes first.
  int64_t first_frame(FileNumber data) const { return first_frames_.at(data); }
  const std::map<FileNumber, int64_t>& data_files() const { return first_frames_; }
  std::string data_path(FileNumber file) const;
  std::string video_path(const std::string& key, FileNumber file) const;

 private:
  void read_info();
  void read_tasks();
  void read_episodes();

  std::string root_, data_template_, video_template_;
  double frames_per_second_ = 0;
  int64_t stated_frames_ = 0;
  std::vector<Feature> features_;
  std::vector<std::string> video_keys_;
  std::map<int64_t, std::string> tasks_;
  std::vector<Episode> episodes_;
  std::map<FileNumber, int64_t> first_frames_;
};

// Parses a file of JSON. Throws LF_E_INVALID: "PATH: ...".
nlohmann::json read_json_file(const std::string& path, const std::string& what);

}  // namespace lf::robot
