#include "balance_command/samples_file.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <ranges>
#include <set>
#include <string_view>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/dataset.h"
#include "data/media/media_reader.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

constexpr const char* kColumns = "id, text_tokens, vision_patches, frames and supervised_tokens";

constexpr int64_t kMostCount = int64_t{1} << 40;

// A file may be anything: its bytes are shown as escapes where they are no text, and a few of them.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte >= 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return "\"" + out + (text.size() > kMost ? "...\"" : "\"");
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == line.npos; }

int64_t to_count(const std::string& text, const std::string& place, const std::string& column) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > kMostCount)
    fail(Exit::kBadData, "{}: {}: expected a whole number from 0 to {}, got {}; correct the file", place, column,
         kMostCount, shown(text));
  return value;
}

void check(WorkSample& sample, const std::string& place) {
  if (sample.text_tokens == 0 && sample.vision_patches == 0)
    fail(Exit::kBadData, "{}: the sample has neither text_tokens nor vision_patches; leave it out", place);
  if (sample.supervised_tokens > sample.text_tokens)
    fail(Exit::kBadData, "{}: {} supervised_tokens of {} text_tokens; they are among these", place,
         sample.supervised_tokens, sample.text_tokens);
  if (sample.vision_patches > 0 && sample.frames == 0) sample.frames = 1;
  if (sample.frames > sample.vision_patches)
    fail(Exit::kBadData, "{}: {} frames for {} patches; a frame has at least one", place, sample.frames,
         sample.vision_patches);
}

// ---- CSV -----------------------------------------------------------------------------------------------------------

// Fields may be quoted; "" in quotes is a quote.
std::vector<std::string> fields_of(const std::string& line, const std::string& place) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  }
  if (quoted) fail(Exit::kBadData, "{}: a quote is not closed; correct the file", place);
  return fields;
}

void set_field(WorkSample& sample, const std::string& column, const std::string& text, const std::string& place) {
  if (column == "id")
    sample.id = text;
  else if (column == "text_tokens")
    sample.text_tokens = to_count(text, place, column);
  else if (column == "vision_patches")
    sample.vision_patches = to_count(text, place, column);
  else if (column == "frames")
    sample.frames = to_count(text, place, column);
  else if (column == "supervised_tokens")
    sample.supervised_tokens = to_count(text, place, column);
  else
    fail(Exit::kBadData, "{}: expected columns named {}, got {}; rename or remove it", place, kColumns, shown(column));
}

std::vector<WorkSample> read_csv(std::ifstream& in, const std::string& name) {
  std::string line;
  if (!std::getline(in, line) || is_blank(line))
    fail(Exit::kBadData, "{}:1: expected a header of {}, got nothing; add it", name, kColumns);
  if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  const std::vector<std::string> columns = fields_of(line, name + ":1");
  WorkSample unused;
  for (auto column = columns.begin(); column != columns.end(); ++column) {
    set_field(unused, *column, "0", name + ":1");
    if (std::find(columns.begin(), column, *column) != column)
      fail(Exit::kBadData, "{}:1: expected each column once, got {} twice; remove one", name, *column);
  }
  std::vector<WorkSample> samples;
  for (size_t number = 2; std::getline(in, line); ++number) {
    if (is_blank(line)) continue;
    const std::string place = fmt::format("{}:{}", name, number);
    const std::vector<std::string> fields = fields_of(line, place);
    if (fields.size() != columns.size())
      fail(Exit::kBadData, "{}: expected {} fields as in the header, got {}; correct the file", place, columns.size(),
           fields.size());
    WorkSample sample;
    for (size_t i = 0; i < fields.size(); ++i) set_field(sample, columns[i], fields[i], place);
    check(sample, place);
    samples.push_back(std::move(sample));
  }
  return samples;
}

// ---- JSONL ---------------------------------------------------------------------------------------------------------

bool is_features(const nlohmann::json& object) {
  return object.is_object() && (object.contains("text_tokens") || object.contains("vision_patches"));
}

// As written, or discarded where it is no JSON; a key that is there twice would silently be the last one.
nlohmann::json parse_features(const std::string& line, const std::string& place) {
  std::set<std::string> keys;
  return nlohmann::json::parse(
      line,
      [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
        if (event == nlohmann::json::parse_event_t::key && depth == 1 && !keys.insert(parsed).second)
          fail(Exit::kBadData, "{}: expected each key once, got {} twice; remove one", place,
               shown(parsed.get_ref<const std::string&>()));
        return true;
      },
      false);
}

std::vector<WorkSample> read_features(std::ifstream& in, const std::string& name) {
  std::vector<WorkSample> samples;
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    if (is_blank(line)) continue;
    const std::string place = fmt::format("{}:{}", name, number);
    const nlohmann::json object = parse_features(line, place);
    if (!is_features(object))
      fail(Exit::kBadData, "{}: expected an object with {}, got {}; correct the file", place, kColumns, shown(line));
    WorkSample sample;
    for (const auto& [key, value] : object.items())
      set_field(sample, key, value.is_string() ? value.get<std::string>() : value.dump(), place);
    check(sample, place);
    samples.push_back(std::move(sample));
  }
  return samples;
}

// ---- data sets -----------------------------------------------------------------------------------------------------

constexpr int64_t kBytesPerToken = 4, kCell = 28, kPatchesPerCell = 4, kMostPatches = 5120, kMostFrames = 768;
constexpr double kFramesPerSecond = 2;

int64_t patches(int64_t width, int64_t height, int64_t max_pixels) {
  const int64_t cells = ((width + kCell - 1) / kCell) * ((height + kCell - 1) / kCell);
  const int64_t most =
      max_pixels > 0 ? std::max<int64_t>(1, max_pixels / (kCell * kCell)) * kPatchesPerCell : kMostPatches;
  return std::min({cells * kPatchesPerCell, kMostPatches, most});
}

void add_item(WorkSample& sample, const nlohmann::json& item, bool learned, const MediaReader& media,
              int64_t max_pixels) {
  const std::string type = item.at("type");
  if (type == "text") {
    const auto bytes = static_cast<int64_t>(item.at("text").get_ref<const std::string&>().size());
    const int64_t tokens = (bytes + kBytesPerToken - 1) / kBytesPerToken;
    sample.text_tokens += tokens;
    if (learned) sample.supervised_tokens += tokens;
  } else if (type == "image") {
    const lf_media_info info = media.probe(item.at("path").get<std::string>(), LF_MEDIA_IMAGE);
    sample.vision_patches += patches(info.width, info.height, max_pixels);
    ++sample.frames;
  } else if (type == "video") {
    int64_t frames = 0;
    lf_media_info info{};
    if (item.contains("frames")) {
      frames = static_cast<int64_t>(item["frames"].size());
      info = media.probe(item["frames"].at(0).get<std::string>(), LF_MEDIA_IMAGE);
    } else {
      info = media.probe(item.at("path").get<std::string>(), LF_MEDIA_VIDEO);
      frames = std::max<int64_t>(1, std::llround(info.seconds * kFramesPerSecond));
    }
    frames = std::min(frames, kMostFrames);
    sample.frames += frames;
    sample.vision_patches += frames * patches(info.width, info.height, max_pixels);
  }
}

// Pictures of a frame, by LeRobot directory.
using CameraCounts = std::map<std::string, int64_t>;

// Families of robot policies make pictures square; prompts hold a task and some numbers.
constexpr int64_t kRobotPatches = 256, kPromptTokens = 64;

int64_t cameras_of(const std::string& directory, CameraCounts& known) {
  if (const auto found = known.find(directory); found != known.end()) return found->second;
  std::ifstream in(std::filesystem::path(directory) / "meta" / "info.json");
  const nlohmann::json info = nlohmann::json::parse(in, nullptr, false);
  int64_t count = 0;
  if (info.is_object() && info.contains("features") && info["features"].is_object())
    for (const nlohmann::json& feature : info["features"])
      count += feature.is_object() && feature.contains("dtype") &&
               (feature["dtype"] == "video" || feature["dtype"] == "image");
  return known[directory] = count;
}

// The sample of a data set as families get it (docs/samples.md).
WorkSample measured(const nlohmann::json& json, const MediaReader& media, int64_t max_pixels, CameraCounts& cameras) {
  WorkSample sample;
  sample.supervised_tokens = 0;
  if (json.contains("robot")) {
    sample.frames = cameras_of(json["robot"].at("directory"), cameras);
    sample.vision_patches = kRobotPatches * sample.frames;
    sample.text_tokens = kPromptTokens;
  } else if (json.contains("text")) {
    add_item(sample, {{"type", "text"}, {"text", json["text"]}}, true, media, max_pixels);
  } else {
    for (const nlohmann::json& message : json.at("messages"))
      for (const nlohmann::json& item : message.at("content"))
        add_item(sample, item, message.value("train", false), media, max_pixels);
  }
  return sample;
}

// The reader of training names its own option.
Dataset open_data_set(const DataSection& options) {
  try {
    return Dataset(options);
  } catch (const Error& error) {
    constexpr std::string_view kOption = "check data.path";
    std::string said = error.what();
    if (const size_t at = said.find(kOption); at != said.npos)
      said.replace(at, kOption.size(),
                   "give a data set that training reads, JSONL whose objects have text_tokens or vision_patches, or a "
                   "CSV of such columns (whose name ends in .csv)");
    throw Error(error.exit(), "--samples: " + said);
  }
}

SampleFile read_data_set(const std::filesystem::path& path, int64_t max_pixels) {
  DataSection options;
  options.path = {path};
  const Dataset data = open_data_set(options);
  const MediaReader media(path.parent_path(), options.max_decoded_pixels);
  SampleFile file;
  CameraCounts cameras;
  size_t skipped = 0;
  std::string why;
  for (uint64_t i = 0; i < data.size(); ++i) {
    try {
      WorkSample sample = measured(nlohmann::json::parse(data.sample(i).json), media, max_pixels, cameras);
      sample.id = data.place(i);
      check(sample, data.place(i));
      file.samples.push_back(std::move(sample));
    } catch (const Error& bad) {
      if (bad.exit() != Exit::kBadData) throw;
      if (skipped++ == 0) why = bad.what();
    } catch (const sdk::Failure& bad) {
      if (skipped++ == 0) why = bad.what();
    }
  }
  file.note = fmt::format(
      "{}: estimated from the data set: {} bytes of text a token, pictures by their size, {} frames a second of video; "
      "a job file "
      "instead would count them as its model does",
      path.string(), kBytesPerToken, kFramesPerSecond);
  if (file.samples.empty() && skipped > 0)
    fail(Exit::kBadData, "--samples: {}: expected samples, got {} that are of no use, the first because of {}",
         path.string(), skipped, why);
  if (!cameras.empty())
    file.note +=
        fmt::format("; frames of robot directories are all alike: {} pictures of 224 x 224 and {} tokens of text",
                    fmt::join(cameras | std::views::values, ", "), kPromptTokens);
  if (skipped > 0)
    file.note += fmt::format("; {} of {} samples left out, the first because of {}", skipped, data.size(), why);
  return file;
}

}  // namespace

SampleFile read_samples(const std::filesystem::path& path, int64_t image_max_pixels) {
  const std::filesystem::file_status status = std::filesystem::status(path);
  if (!std::filesystem::exists(status))
    fail(Exit::kInputMissing, "--samples: {} is not there; give a CSV, a JSONL or a data set", path.string());
  if (std::filesystem::is_directory(status)) return read_data_set(path, image_max_pixels);
  if (!std::filesystem::is_regular_file(status))
    fail(Exit::kBadData, "--samples: {}: expected a file or a folder, got what is neither; write it to a file first",
         path.string());
  if (path.extension() == ".tar")
    fail(Exit::kBadData,
         "--samples: {}: expected what can be read in any order, got an archive, which training reads once; give its "
         "samples as a CSV, a JSONL or a data set",
         path.string());
  std::ifstream in(path);
  if (!in) fail(Exit::kInputMissing, "--samples: {} cannot be read: {}", path.string(), std::strerror(errno));
  SampleFile file;
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  if (extension == ".csv") {
    file.samples = read_csv(in, path.string());
  } else {
    std::string first;
    while (is_blank(first) && std::getline(in, first)) {
    }
    if (!is_features(nlohmann::json::parse(first, nullptr, false))) return read_data_set(path, image_max_pixels);
    in.clear();
    in.seekg(0);
    file.samples = read_features(in, path.string());
  }
  if (file.samples.empty())
    fail(Exit::kBadData, "--samples: {}: expected at least one sample, got none; add some", path.string());
  return file;
}

std::string limit_lengths(std::vector<WorkSample>& samples, const WorkCost& cost, int64_t max_tokens, bool cut) {
  size_t cuts = 0;
  const size_t before = samples.size();
  std::erase_if(samples, [&](WorkSample& sample) {
    const int64_t over = cost.tokens(sample) - max_tokens;
    if (over <= 0) return false;
    if (!cut || sample.text_tokens <= over) return true;
    sample.supervised_tokens = std::max<int64_t>(0, sample.supervised() - over);  // an answer stands at the end
    sample.text_tokens -= over;
    ++cuts;
    return false;
  });
  const size_t left_out = before - samples.size();
  if (samples.empty() && before > 0)
    fail(Exit::kUsage, "lfrun balance: --pack: each of {} samples is longer than {} tokens; raise it{}", before,
         max_tokens, cut ? "" : ", or give --too-long cut");
  std::string note;
  if (cuts > 0) note = fmt::format("{} of {} samples are cut to {} tokens", cuts, before, max_tokens);
  if (left_out > 0)
    note += fmt::format("{}{} of {} samples are left out, being longer than {} tokens", note.empty() ? "" : "; ",
                        left_out, before, max_tokens);
  return note;
}

}  // namespace lf
