#include "pi05/data/directory.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"
#include "pi05/data/parquet_file.h"

namespace lf::robot {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

[[noreturn]] void refuse_directory(const std::string& path, const std::string& reason) {
  throw sdk::Failure(LF_E_INVALID, path + ": " + reason);
}

// A fault of the directory, not of a sample.
template <typename Body>
auto of_directory(Body&& body) {
  try {
    return body();
  } catch (const sdk::Failure& failure) {
    throw sdk::Failure(failure.code() == LF_E_DATA ? int32_t{LF_E_INVALID} : failure.code(), failure.what());
  }
}

// Python's "{name}" and "{name:03d}" of the names given.
std::string expand(std::string_view pattern, const std::map<std::string, std::string>& texts,
                   const std::map<std::string, int64_t>& numbers, const std::string& place) {
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    if (pattern[at] != '{') {
      out += pattern[at++];
      continue;
    }
    const size_t end = pattern.find('}', at);
    const std::string_view field = pattern.substr(at + 1, end == pattern.npos ? end : end - at - 1);
    const size_t colon = field.find(':');
    const std::string name(field.substr(0, colon));
    const std::string_view form = colon == field.npos ? std::string_view() : field.substr(colon + 1);
    if (const auto text = texts.find(name); text != texts.end() && form.empty()) {
      out += text->second;
    } else if (const auto number = numbers.find(name);
               number != numbers.end() && (form.empty() || (form.size() == 3 && form[0] == '0' && form[2] == 'd'))) {
      out += fmt::format("{:0{}d}", number->second, form.empty() ? 1 : form[1] - '0');
    } else {
      refuse_directory(
          place, fmt::format("unknown field in \"{}\"; expected {{chunk_index:03d}}, {{file_index:03d}}", pattern));
    }
    at = end == pattern.npos ? pattern.size() : end + 1;
  }
  return out;
}

std::string path_template(const json& info, const char* name, const char* usual, const std::string& place) {
  const json value = info.value(name, json());
  if (value.is_null()) return usual;
  if (!value.is_string()) refuse_directory(place, fmt::format("{}: expected a path, got {}", name, value.dump()));
  const fs::path path = value.get<std::string>();
  if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
    refuse_directory(place, fmt::format("{}: expected a path below the directory, got \"{}\"", name, path.string()));
  return path.string();
}

int64_t count_of(const json& info, const char* name, const std::string& place) {
  const json value = info.value(name, json());
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{1} << 40)
    refuse_directory(place, fmt::format("{}: expected a count, got {}", name, value.dump()));
  return value.get<int64_t>();
}

}  // namespace

json read_json_file(const std::string& path, const std::string& what) {
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse_directory(path, "cannot be read; expected " + what);
  json root = json::parse(in, nullptr, false);
  if (!root.is_object()) refuse_directory(path, "no JSON object; expected " + what);
  return root;
}

Directory::Directory(std::string root) : root_(std::move(root)) {
  while (root_.size() > 1 && root_.back() == '/') root_.pop_back();
  read_info();
  of_directory([&] {
    read_tasks();
    read_episodes();
  });
}

void Directory::read_info() {
  const std::string path = root_ + "/meta/info.json";
  const json info = read_json_file(path, "a LeRobot directory of version 3");
  const json version = info.value("codebase_version", json());
  if (!version.is_string() || !version.get<std::string>().starts_with("v3."))
    refuse_directory(path,
                     fmt::format("codebase_version: expected \"v3.0\", got {}; convert the directory with lerobot's "
                                 "convert_dataset_v21_to_v30",
                                 version.dump()));
  const json fps = info.value("fps", json());
  if (!fps.is_number() || !(fps.get<double>() > 0 && fps.get<double>() <= 10000))
    refuse_directory(path, fmt::format("fps: expected frames per second, got {}", fps.dump()));
  frames_per_second_ = fps.get<double>();
  stated_frames_ = count_of(info, "total_frames", path);
  data_template_ = path_template(info, "data_path", "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet", path);
  video_template_ =
      path_template(info, "video_path", "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4", path);
  const json features = info.value("features", json());
  if (!features.is_object()) refuse_directory(path, "features: expected an object");
  // In the file's order, which nlohmann's default object does not keep.
  const nlohmann::ordered_json ordered = nlohmann::ordered_json::parse(std::ifstream(path, std::ios::binary));
  for (const auto& [name, value] : ordered.at("features").items()) {
    features_.push_back(read_feature(name, features.at(name), features_place()));
    if (features_.back().is_video()) video_keys_.push_back(name);
  }
}

void Directory::read_tasks() {
  const ParquetFile file(root_ + "/meta/tasks.parquet");
  // pandas' index, which lerobot did not name before 0.5.
  const std::string texts_column = file.has("task") ? "task" : "__index_level_0__";
  const std::vector<std::string> texts = file.texts(texts_column);
  const Column<int64_t> numbers = file.integers("task_index");
  for (size_t i = 0; i < texts.size(); ++i)
    if (!tasks_.emplace(numbers.values[i], texts[i]).second)
      refuse_directory(file.path(), fmt::format("task_index {} twice", numbers.values[i]));
}

void Directory::read_episodes() {
  std::vector<std::string> paths;
  std::error_code error;
  const std::string folder = root_ + "/meta/episodes";
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".parquet") paths.push_back(it->path().string());
  if (error) refuse_directory(folder, error.message() + "; expected chunk-000/file-000.parquet and the like");
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    const ParquetFile file(path);
    const auto integers = [&](const std::string& column) { return file.integers(column).values; };
    const std::vector<int64_t> number = integers("episode_index"), begin = integers("dataset_from_index"),
                               end = integers("dataset_to_index"), chunk = integers("data/chunk_index"),
                               data_file = integers("data/file_index");
    const size_t first = episodes_.size();
    for (size_t i = 0; i < number.size(); ++i)
      episodes_.push_back({number[i], begin[i], end[i], {chunk[i], data_file[i]}, {}});
    for (const std::string& key : video_keys_) {
      const std::string prefix = "videos/" + key + "/";
      const std::vector<int64_t> video_chunk = integers(prefix + "chunk_index"),
                                 video_file = integers(prefix + "file_index");
      const std::vector<double> from = file.doubles(prefix + "from_timestamp").values,
                                to = file.doubles(prefix + "to_timestamp").values;
      for (size_t i = 0; i < number.size(); ++i)
        episodes_[first + i].videos.push_back({{video_chunk[i], video_file[i]}, from[i], to[i]});
    }
  }
  std::sort(episodes_.begin(), episodes_.end(), [](const Episode& a, const Episode& b) { return a.begin < b.begin; });
  int64_t next = 0;
  for (const Episode& episode : episodes_) {
    if (episode.begin != next || episode.end <= episode.begin)
      refuse_directory(folder, fmt::format("expected episode {} to begin with frame {}, got frames {} to {}",
                                           episode.number, next, episode.begin, episode.end));
    next = episode.end;
    first_frames_.emplace(episode.data, episode.begin);
  }
  if (next != stated_frames_)
    refuse_directory(folder, fmt::format("expected the {} frames of meta/info.json, got {}", stated_frames_, next));
}

const Feature* Directory::find(const std::string& feature) const {
  const auto found =
      std::find_if(features_.begin(), features_.end(), [&](const Feature& one) { return one.name == feature; });
  return found == features_.end() ? nullptr : &*found;
}

const std::string* Directory::task(int64_t index) const {
  const auto found = tasks_.find(index);
  return found == tasks_.end() ? nullptr : &found->second;
}

const Episode& Directory::episode_of(int64_t frame) const {
  if (frame < 0 || frame >= frames())
    throw sdk::Failure(LF_E_DATA, fmt::format("{}: frame {} of {}", root_, frame, frames()));
  return *std::prev(std::upper_bound(episodes_.begin(), episodes_.end(), frame,
                                     [](int64_t at, const Episode& episode) { return at < episode.begin; }));
}

std::string Directory::data_path(FileNumber file) const {
  return root_ + "/" +
         expand(data_template_, {}, {{"chunk_index", file.chunk}, {"file_index", file.file}},
                root_ + "/meta/info.json: data_path");
}

std::string Directory::video_path(const std::string& key, FileNumber file) const {
  return root_ + "/" +
         expand(video_template_, {{"video_key", key}}, {{"chunk_index", file.chunk}, {"file_index", file.file}},
                root_ + "/meta/info.json: video_path");
}

}  // namespace lf::robot
