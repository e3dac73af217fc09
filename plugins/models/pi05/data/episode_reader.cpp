#include "pi05/data/episode_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"
#include "pi05/data/embedded_picture.h"
#include "pi05/data/relative_actions.h"
#include "pi05/data/view.h"

namespace lf::robot {
namespace {

// Of a frame's duration, how far a time stamp may be from the nearest frame. Stamps are in single precision: after an
// hour they are in steps of a quarter of a millisecond.
constexpr double kMostOff = 0.1;

[[noreturn]] void refuse_frame(const std::string& reason) { throw sdk::Failure(LF_E_DATA, reason); }
[[noreturn]] void refuse_job(const std::string& reason) { throw sdk::Failure(LF_E_INVALID, reason); }

void warn(const lf_host* host, const std::string& text) {
  if (host != nullptr && host->log != nullptr) host->log(host, LF_LOG_WARNING, sdk::str(text));
}

// Cameras that the model's config names, in its order; "" for those that the directory does not have.
std::vector<std::string> named_views(const std::vector<std::string>& views, const std::vector<std::string>& there,
                                     const lf_host* host, const std::string& root) {
  std::vector<std::string> keys, absent, unused;
  const auto has = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const std::string& view : views) {
    keys.push_back(has(there, view) ? view : "");
    if (keys.back().empty()) absent.push_back(view);
  }
  for (const std::string& camera : there)
    if (!has(views, camera)) unused.push_back(camera);
  if (absent.size() == views.size() && !there.empty())
    refuse_job(
        fmt::format("{}: cameras {}; config.json.input_features calls the model's {}: say by model.options.cameras "
                    "which is which, in the latter order",
                    root, fmt::join(there, ", "), fmt::join(views, ", ")));
  if (!absent.empty()) warn(host, fmt::format("{}: no {}: absent views of the model", root, fmt::join(absent, ", ")));
  if (!unused.empty())
    warn(host, fmt::format("{}: {}: not among the model's cameras (config.json.input_features), so not used", root,
                           fmt::join(unused, ", ")));
  return keys;
}

}  // namespace

struct EpisodeReader::LoadedFile {
  std::once_flag read;  // stays unset where reading throws
  std::unique_ptr<FrameFile> file;
};

EpisodeReader::EpisodeReader(const lf_host* host, const family::MediaAccess& media, std::string root,
                             const RobotShape& shape, const RobotOptions& options)
    : media_(media),
      directory_(std::move(root)),
      shape_(shape),
      resize_(options.resize),
      relative_(options.relative_actions) {
  for (const auto& [number, first] : directory_.data_files()) files_.emplace(number, std::make_unique<LoadedFile>());
  if (options.state_in_prompt) used_.state = {options.state_normalization, {}};
  used_.action.kind = options.action_normalization;
  used_.relative_actions = options.relative_actions;
  used_.relative_exclude = options.relative_exclude;
  choose_columns(host, options);
  choose_cameras(host, options);
  choose_normalizers(host, options);
}

EpisodeReader::~EpisodeReader() = default;

void EpisodeReader::choose_columns(const lf_host* host, const RobotOptions& options) {
  const std::string place = directory_.features_place();
  const auto vector = [&](const std::string& name, const char* option) -> const Feature& {
    const Feature* found = directory_.find(name);
    if (found != nullptr) return *found;
    std::vector<std::string> names;
    for (const Feature& feature : directory_.features()) names.push_back(feature.name);
    refuse_job(
        fmt::format("{}: expected \"{}\", got {}; set model.options.{}", place, name, fmt::join(names, ", "), option));
  };
  const Feature& action = vector(options.action_key, "action");
  columns_.action = action.name;
  columns_.action_width = vector_width(action, place);
  if (columns_.action_width > shape_.action_dim)
    refuse_job(fmt::format("{}.{}: {} numbers; the model's actions have {} (max_action_dim)", place, action.name,
                           columns_.action_width, shape_.action_dim));
  if (!options.state_in_prompt && !relative_) return;
  const Feature& state = vector(options.state_key, "state, or state_in_prompt = false");
  columns_.state = state.name;
  columns_.state_width = vector_width(state, place);
  if (!relative_) return;
  if (!options.action_names.empty() && options.action_names != action.names)
    refuse_job(fmt::format("{}.{}: names {}; config.json.action_feature_names has {}: relative actions go by name",
                           place, action.name, fmt::join(action.names, ", "), fmt::join(options.action_names, ", ")));
  relative_places_ = relative_places(action, state, options.relative_exclude, place);
  for (size_t i = 0; i < relative_places_.size(); ++i)
    if (const int64_t from = relative_places_[i]; from >= 0 && from != static_cast<int64_t>(i)) {
      warn(host,
           fmt::format("{}: \"{}\" is number {} of actions and {} of states. It is matched by name here; lerobot, "
                       "which matches by place, would turn such actions back wrongly",
                       place, action.names[i], i, from));
      break;
    }
}

UsedStatistics EpisodeReader::statistics() const {
  UsedStatistics used = used_;
  if (used.state) used.state->statistics = state_normalizer_.statistics();
  used.action.statistics = action_normalizer_.statistics();
  if (const Feature* action = directory_.find(columns_.action)) used.action_names = action->names;
  return used;
}

void EpisodeReader::choose_cameras(const lf_host* host, const RobotOptions& options) {
  std::vector<std::string> keys = options.cameras, all;
  for (const Feature& feature : directory_.features())
    if (feature.is_camera()) all.push_back(feature.name);
  if (keys.empty()) keys = options.views.empty() ? all : named_views(options.views, all, host, directory_.root());
  if (static_cast<int64_t>(keys.size()) > shape_.views)
    refuse_job(fmt::format("{}: cameras {}; the model has {} views: name those to use in model.options.cameras",
                           directory_.features_place(), fmt::join(keys, ", "), shape_.views));
  cameras_.resize(static_cast<size_t>(shape_.views));
  bool any = false;
  for (size_t view = 0; view < keys.size(); ++view) {
    if (keys[view].empty()) continue;
    const Feature* found = directory_.find(keys[view]);
    const auto& optional = options.optional_cameras;
    if (found == nullptr && std::find(optional.begin(), optional.end(), keys[view]) != optional.end()) continue;
    if (found == nullptr || !found->is_camera())
      refuse_job(
          fmt::format("model.options.cameras: {} has no camera \"{}\", but {}; \"\" is an absent view, "
                      "optional_cameras names those that a directory may lack",
                      directory_.root(), keys[view], all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", "))));
    const auto& videos = directory_.video_keys();
    cameras_[view] = {found->name, found->is_video(),
                      static_cast<size_t>(std::find(videos.begin(), videos.end(), found->name) - videos.begin()),
                      picture_size(*found, directory_.features_place())};
    any = true;
  }
  if (!any) refuse_job(directory_.root() + ": no camera; the model needs at least one view");
}

void EpisodeReader::choose_normalizers(const lf_host* host, const RobotOptions& options) {
  const Normalization of_state = options.state_in_prompt ? options.state_normalization : Normalization::kNone,
                      of_action = options.action_normalization;
  if (of_state == Normalization::kNone && of_action == Normalization::kNone) return;
  const std::string path = options.statistics.empty() ? directory_.root() + "/meta/stats.json" : options.statistics;
  const auto tell = [&](const std::string& feature, const Normalizer& made) {
    if (!made.floored().empty())
      warn(host, fmt::format("{}: {}: numbers {} hardly ever change; their range is floored "
                             "(model.options.normalization_floor)",
                             path, feature, fmt::join(made.floored(), ", ")));
  };
  const bool own_statistics = relative_ && options.statistics.empty() && of_action != Normalization::kNone;
  nlohmann::json stats;
  if (of_state != Normalization::kNone || !own_statistics)
    stats = read_json_file(path, "statistics, as lerobot writes them; or set model.options.normalization = \"none\"");
  const auto normalizer = [&](const std::string& feature, int64_t width, Normalization kind) {
    return Normalizer(read_statistics(stats, feature, width, kind, path), kind, options.normalization_floor);
  };
  if (of_state != Normalization::kNone) {
    state_normalizer_ = normalizer(columns_.state, columns_.state_width, of_state);
    tell(columns_.state, state_normalizer_);
  }
  if (of_action == Normalization::kNone) return;
  action_normalizer_ = own_statistics ? Normalizer(statistics_of_relative_actions(shares_of(of_action)), of_action,
                                                   options.normalization_floor)
                                      : normalizer(columns_.action, columns_.action_width, of_action);
  tell(columns_.action, action_normalizer_);
}

Statistics EpisodeReader::statistics_of_relative_actions(Shares shares) const {
  std::vector<EpisodeValues> episodes;
  for (const Episode& episode : directory_.episodes()) {
    const FrameFile& from = file(episode.data);
    const int64_t frames = std::min(episode.end, from.end()) - episode.begin;
    if (frames > 0) episodes.push_back({from.actions(episode.begin, frames), from.states(episode.begin, frames)});
  }
  if (episodes.empty()) refuse_job(directory_.root() + ": no frames to compute statistics of relative actions from");
  const Statistics out = relative_statistics(episodes, relative_places_, columns_.state_width, shape_.horizon, shares);
  for (size_t i = 0; i < out.deviation.size(); ++i)
    if (!std::isfinite(out.deviation[i]))
      refuse_job(
          fmt::format("{}: number {} of relative actions is not finite in some frame; mend the data, or set "
                      "model.options.statistics",
                      directory_.root(), i));
  return out;
}

const FrameFile& EpisodeReader::file(FileNumber number) const {
  LoadedFile& loaded = *files_.at(number);
  std::call_once(loaded.read, [&] {
    loaded.file = std::make_unique<FrameFile>(directory_.data_path(number), directory_.first_frame(number), columns_);
  });
  return *loaded.file;
}

EpisodeReader::Moment EpisodeReader::moment(int64_t frame) const {
  const Episode& episode = directory_.episode_of(frame);
  const Moment out{frame, &episode, &file(episode.data)};
  if (episode.end > out.file->end())
    refuse_frame(fmt::format("{}: expected the {} frames of episode {}, got {}", out.file->path(),
                             episode.end - episode.begin, episode.number,
                             std::max<int64_t>(0, out.file->end() - episode.begin)));
  check_finite(out);
  return out;
}

void EpisodeReader::check_finite(const Moment& moment) const {
  const auto check = [&](std::span<const float> values, const std::string& feature, int64_t width) {
    for (size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i]))
        refuse_frame(fmt::format("{}: {} of frame {}: number {} is {}", moment.file->path(), feature,
                                 moment.frame + static_cast<int64_t>(i) / width, static_cast<int64_t>(i) % width,
                                 values[i]));
  };
  if (!columns_.state.empty()) check(moment.file->state(moment.frame), columns_.state, columns_.state_width);
  check(moment.file->actions(moment.frame, valid_actions(moment)), columns_.action, columns_.action_width);
}

const std::string& EpisodeReader::task(const Moment& moment) const {
  const int64_t index = moment.file->task(moment.frame);
  const std::string* text = directory_.task(index);
  if (text == nullptr)
    refuse_frame(fmt::format("{}: frame {} has task_index {}, which meta/tasks.parquet does not", moment.file->path(),
                             moment.frame, index));
  return *text;
}

std::vector<float> EpisodeReader::normalized_state(const Moment& moment) const {
  const std::span<const float> state = moment.file->state(moment.frame);
  std::vector<float> out(state.begin(), state.end());
  state_normalizer_.apply(out);
  return out;
}

int64_t EpisodeReader::valid_actions(const Moment& moment) const {
  return std::min(shape_.horizon, moment.episode->end - moment.frame);
}

void EpisodeReader::actions(const Moment& moment, std::vector<float>& out, std::vector<uint8_t>& valid) const {
  const int64_t n = valid_actions(moment), width = columns_.action_width;
  const std::span<const float> own = moment.file->actions(moment.frame, n);
  std::vector<float> rows(own.begin(), own.end());
  if (relative_) make_relative(rows, moment.file->state(moment.frame), relative_places_);
  action_normalizer_.apply(rows);
  out.assign(static_cast<size_t>(shape_.horizon * shape_.action_dim), 0);
  valid.assign(static_cast<size_t>(shape_.horizon), 0);
  for (int64_t t = 0; t < shape_.horizon; ++t) {
    std::copy_n(&rows[static_cast<size_t>(std::min(t, n - 1) * width)], width,
                &out[static_cast<size_t>(t * shape_.action_dim)]);
    valid[static_cast<size_t>(t)] = t < n;
  }
}

lf_media_info EpisodeReader::video_info(const std::string& path) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = videos_.find(path); found != videos_.end()) return found->second;
  }
  const lf_media_info info = media_.probe(path, LF_MEDIA_VIDEO);
  const std::lock_guard lock(mutex_);
  return videos_.emplace(path, info).first->second;
}

int64_t EpisodeReader::video_frame(const Moment& moment, const Camera& camera, const std::string& path) const {
  const lf_media_info info = video_info(path);
  const Episode::Video& part = moment.episode->videos[camera.place];
  if (info.height != camera.size.height || info.width != camera.size.width)
    refuse_frame(fmt::format("{}: expected the {} x {} pixels of meta/info.json, got {} x {}", path, camera.size.width,
                             camera.size.height, info.width, info.height));
  const double rate = info.frames_per_second > 0 ? info.frames_per_second : directory_.frames_per_second();
  const double seconds = part.begin + static_cast<double>(moment.file->seconds(moment.frame));
  const double exact = seconds * rate, nearest = std::round(exact);
  if (!(std::abs(exact - nearest) <= kMostOff))
    refuse_frame(fmt::format("{}: frame {} is at {:.4f} s, {:.4f} s from the nearest of {} frames per second", path,
                             moment.frame, seconds, std::abs(exact - nearest) / rate, rate));
  if (nearest < 0 || nearest >= static_cast<double>(info.frames))
    refuse_frame(fmt::format("{}: frame {} of episode {} is at {:.4f} s, its frame {:.0f}; the video has {}", path,
                             moment.frame, moment.episode->number, seconds, nearest, info.frames));
  return static_cast<int64_t>(nearest);
}

int64_t EpisodeReader::present_views(const Moment& moment) const {
  int64_t n = 0;
  for (const Camera& camera : cameras_) {
    if (camera.key.empty()) continue;
    ++n;
    if (camera.video)
      video_frame(moment, camera, directory_.video_path(camera.key, moment.episode->videos[camera.place].file));
  }
  return n;
}

std::vector<std::string> EpisodeReader::cameras() const {
  std::vector<std::string> out;
  for (const Camera& camera : cameras_) out.push_back(camera.key);
  return out;
}

std::vector<std::vector<uint8_t>> EpisodeReader::views(const Moment& moment) const {
  std::vector<std::vector<uint8_t>> out(cameras_.size());
  for (size_t view = 0; view < cameras_.size(); ++view) {
    const Camera& camera = cameras_[view];
    if (camera.key.empty()) continue;
    family::Pixels pixels;
    if (camera.video) {
      const std::string path = directory_.video_path(camera.key, moment.episode->videos[camera.place].file);
      const int64_t frame[] = {video_frame(moment, camera, path)};
      media_.decode_video(path, frame, camera.size, pixels);
    } else {
      decode_embedded(media_, moment.file->picture(camera.key, moment.frame), camera.size,
                      fmt::format("{}: {} of frame {}", moment.file->path(), camera.key, moment.frame), pixels);
    }
    out[view] = resize_with_pad(pixels.data(), camera.size, shape_.image_size, resize_);
  }
  return out;
}

}  // namespace lf::robot
