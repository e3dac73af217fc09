#include "data/dataset.h"

#include <algorithm>

#include "core/amount.h"
#include "core/log.h"
#include "data/file_kind.h"
#include "data/line_index.h"
#include "data/path_text.h"
#include "data/robot_directory.h"
#include "data/sample_line.h"
#include "data/telling_names.h"

namespace lf {
namespace {

// So many lines of a file may be bad before its format is taken from the first one's keys alone.
constexpr uint64_t kDetectLines = 1000;
constexpr const char* kRobotFormat = "lerobot";
constexpr size_t kHeadBytes = 512;  // that tell what a file is which is no JSON lines

struct SourceFile {
  std::optional<RobotDirectory> robot;  // or, of JSON lines:
  std::optional<LineIndex> lines;
  std::string name;  // in messages: the last part of the path
  MediaRoot media;
  SourceFormat format = SourceFormat::kMessages;

  uint64_t size() const { return robot ? robot->size() : lines->size(); }
};

bool is_robot_directory(const std::filesystem::path& path, const std::string& format) {
  return format == kRobotFormat || (format == "auto" && RobotDirectory::is_one(path));
}

std::vector<std::filesystem::path> find_files(const std::vector<std::filesystem::path>& paths,
                                              const std::string& format) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : paths) {
    if (!std::filesystem::is_directory(path) || is_robot_directory(path, format)) {
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
    if (files.size() == before)
      fail(Exit::kInputMissing, "{}: neither *.jsonl nor meta/info.json in this folder; check data.path",
           readable(path.string()));
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  if (files.empty()) fail(Exit::kConfig, "data.path: expected at least one file or folder");
  return files;
}

}  // namespace

struct Dataset::State {
  std::vector<SourceFile> sources;
  std::vector<uint64_t> first;  // index of each file's first sample, and the size at the end
  std::vector<File> files;
  bool train_all = false;

  std::pair<const SourceFile*, uint64_t> locate(uint64_t index) const {
    if (index >= first.back()) fail(Exit::kBug, "sample {} of {}", index, first.back());
    const size_t file = std::upper_bound(first.begin(), first.end(), index) - first.begin() - 1;
    return {&sources[file], index - first[file]};
  }

  static std::string place_of(const SourceFile& source, uint64_t line) {
    return source.robot ? source.robot->place(line)
                        : fmt::format("{}:{}", source.name, source.lines->line_number(line));
  }

  std::string canonical(const SourceFile& source, uint64_t line) const {
    return source.robot ? source.robot->canonical(line)
                        : parse(source, line).canonical(source.format, source.media, train_all);
  }

  static SampleLine parse(const SourceFile& source, uint64_t line) {
    const std::string place = place_of(source, line);
    if (const uint64_t bytes = source.lines->extent(line); bytes > kMaxLineBytes) throw too_long_a_line(place, bytes);
    return SampleLine(source.lines->read(line, SampleLine::kPadding), place);
  }

  // The format of the first good line, else of the first line that shows one. Throws kBadData where none does.
  SourceFormat detect(const SourceFile& source, const std::filesystem::path& path) const {
    std::optional<SourceFormat> shown;
    std::string first_reason;
    for (uint64_t line = 0; line < std::min(source.size(), kDetectLines); ++line) {
      try {
        const SampleLine sample = parse(source, line);
        const auto format = sample.format();
        if (!format) continue;
        if (!shown) shown = format;
        sample.canonical(*format, source.media, train_all);
        return *format;
      } catch (const BadSample& bad) {  // named when its turn comes
        if (first_reason.empty()) first_reason = bad.what();
      }
    }
    if (shown) return *shown;
    refuse_other_kinds(source, path);
    fail(Exit::kBadData,
         "{}: none of {} lines looked at is an object with \"messages\", \"conversations\" or \"text\"{}{}; check "
         "data.path",
         readable(path.string()), std::min(source.size(), kDetectLines),
         first_reason.empty() ? "" : "; the first: ", first_reason);
  }

  static void refuse_other_kinds(const SourceFile& source, const std::filesystem::path& path) {
    if (source.robot) return;
    const std::string other = why_not_json_lines(source.lines->head(kHeadBytes));
    if (!other.empty()) fail(Exit::kBadData, "{}: {}", readable(path.string()), other);
  }

  void expect_one_good(const std::vector<std::filesystem::path>& paths) const {
    std::string first_reason;
    for (const SourceFile& source : sources) {
      for (uint64_t line = 0; line < source.size(); ++line) {
        try {
          canonical(source, line);
          return;
        } catch (const BadSample& bad) {
          if (first_reason.empty()) first_reason = bad.what();
        }
      }
    }
    if (first.back() == 0)
      fail(Exit::kBadData, "{}: no sample in it; check data.path", readable(paths.front().string()));
    for (size_t i = 0; i < sources.size(); ++i) refuse_other_kinds(sources[i], files[i].path);
    fail(Exit::kBadData, "data.path: none of {} is good; the first: {}", counted(first.back(), "sample"), first_reason);
  }
};

Dataset::Dataset(const DataSection& options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.train_all = options.train_on == "all";
  state.first.push_back(0);
  const std::vector<std::filesystem::path> paths = find_files(options.path, options.format);
  std::vector<std::filesystem::path> whole;
  for (const std::filesystem::path& path : paths) whole.push_back(std::filesystem::absolute(path).lexically_normal());
  const std::vector<std::string> names = telling_names(whole);
  for (size_t file = 0; file < whole.size(); ++file) {
    const std::filesystem::path& full = whole[file];
    SourceFile source{.robot = {},
                      .lines = {},
                      .name = names[file],
                      .media = MediaRoot(options.media_root.empty() ? full.parent_path() : options.media_root)};
    const bool robot = is_robot_directory(full, options.format);
    if (robot)
      source.robot.emplace(full, source.name);
    else
      source.lines.emplace(full);
    const bool any = source.size() > 0, detected = any && options.format == "auto";
    if (!robot) source.format = detected ? state.detect(source, full) : named_format(options.format);
    const std::string format = !any ? "empty" : robot ? kRobotFormat : std::string(to_string(source.format));
    state.first.push_back(state.first.back() + source.size());
    state.files.push_back({full, source.size(), format, detected});
    if (any)
      log::info("data: {}: {}, format {}{}", readable(full.string()), counted(source.size(), "sample"), format,
                detected ? " (detected)" : "");
    else
      log::warning("data: {}: no sample in it", readable(full.string()));
    state.sources.push_back(std::move(source));
  }
  state.expect_one_good(paths);
}

Dataset::~Dataset() = default;

uint64_t Dataset::size() const { return state_->first.back(); }

Sample Dataset::sample(uint64_t index) const {
  const auto [source, line] = state_->locate(index);
  return {index, state_->canonical(*source, line), State::place_of(*source, line)};
}

std::string Dataset::place(uint64_t index) const {
  const auto [source, line] = state_->locate(index);
  return State::place_of(*source, line);
}

std::string Dataset::fingerprint() const {
  std::string words;
  for (const SourceFile& source : state_->sources)
    words += (words.empty() ? "" : " ") +
             (source.robot ? std::to_string(source.size()) + "-frames" : source.lines->content_hash());
  return words;
}

const std::vector<Dataset::File>& Dataset::files() const { return state_->files; }

}  // namespace lf
