// One LeRobot directory, read as the model of a job wants it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "family/media_access.h"
#include "pi05/data/directory.h"
#include "pi05/data/frame_file.h"
#include "pi05/data/normalizer.h"
#include "pi05/data/processor_files.h"
#include "pi05/data/robot_samples.h"

namespace lf::robot {

// Any thread. A data file is read at the first frame of it that is asked for, and kept; with relative actions all are
// read at once, for their statistics. Errors: see RobotSamples, without the sample's place.
class EpisodeReader {
 public:
  // Checks that the directory fits the job. `host` and `media` outlive it; what a user should know is logged there.
  EpisodeReader(const lf_host* host, const family::MediaAccess& media, std::string root, const RobotShape& shape,
                const RobotOptions& options);
  ~EpisodeReader();

  // A frame and what it belongs to. Throws LF_E_DATA where the frame's file cannot be read, or its state or an action
  // of its chunk is not finite.
  struct Moment {
    int64_t frame = 0;
    const Episode* episode = nullptr;
    const FrameFile* file = nullptr;
  };
  Moment moment(int64_t frame) const;

  const std::string& task(const Moment& moment) const;
  std::vector<float> normalized_state(const Moment& moment) const;
  int64_t action_width() const { return columns_.action_width; }
  int64_t valid_actions(const Moment& moment) const;
  // As RobotSample has them.
  void actions(const Moment& moment, std::vector<float>& out, std::vector<uint8_t>& valid) const;
  // How many cameras see something. Looks into the videos' headers: each must reach to the frame.
  int64_t present_views(const Moment& moment) const;
  std::vector<std::vector<uint8_t>> views(const Moment& moment) const;
  // How states and actions are normalised, for whoever opens what is trained.
  UsedStatistics statistics() const;
  // By view: the camera's feature; "": absent.
  std::vector<std::string> cameras() const;

 private:
  struct Camera {
    std::string key;
    bool video = false;
    size_t place = 0;  // among the directory's videos
    media::Size size;
  };
  struct LoadedFile;

  void choose_columns(const lf_host* host, const RobotOptions& options);
  void choose_cameras(const lf_host* host, const RobotOptions& options);
  void choose_normalizers(const lf_host* host, const RobotOptions& options);
  Statistics statistics_of_relative_actions(Shares shares) const;
  const FrameFile& file(FileNumber number) const;
  void check_finite(const Moment& moment) const;
  // The number of the frame within its video; throws LF_E_DATA where the video does not have it.
  int64_t video_frame(const Moment& moment, const Camera& camera, const std::string& path) const;
  lf_media_info video_info(const std::string& path) const;

  const family::MediaAccess& media_;
  const Directory directory_;
  const RobotShape shape_;
  const Resize resize_;
  FrameColumns columns_;
  std::vector<Camera> cameras_;  // by view; key "": absent
  bool relative_ = false;
  std::vector<int64_t> relative_places_;
  Normalizer state_normalizer_, action_normalizer_;
  UsedStatistics used_;  // without the numbers

  std::map<FileNumber, std::unique_ptr<LoadedFile>> files_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, lf_media_info> videos_;  // of which headers have been read
};

}  // namespace lf::robot
