#include "data/dataset.h"

#include <algorithm>

#include "core/amount.h"
#include "core/log.h"
#include "data/conversation.h"
#include "data/file_kind.h"
#include "data/line_index.h"
#include "data/source_format.h"

namespace lf {
namespace {

// Of JSON: far above what a conversation needs, far below what would cost memory.
constexpr size_t kMaxDepth = 64;
// So many lines of a file may be bad before its format is taken from the first one's keys alone.
constexpr uint64_t kDetectLines = 1000;
constexpr size_t kHeadBytes = 512;  // that tell what a file is which is no JSON lines

struct SourceFile {
  LineIndex lines;
  std::string name;  // in messages: the last part of the path
  MediaRoot media;
  SourceFormat format = SourceFormat::kMessages;
};

std::vector<std::filesystem::path> find_files(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
    if (files.size() == before)
      fail(Exit::kInputMissing, "{}: no *.jsonl in this folder; check data.path", path.string());
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
    return fmt::format("{}:{}", source.name, source.lines.line_number(line));
  }

  // Calls body(parsed line) and names the line in what it throws.
  template <typename Body>
  static auto with_line(const SourceFile& source, uint64_t line, Body&& body) {
    const std::string place = place_of(source, line);
    if (const uint64_t bytes = source.lines.extent(line); bytes > LineIndex::kMaxLineBytes)
      throw BadSample(
          fmt::format("{}: a line of {} bytes; expected at most {}", place, bytes, LineIndex::kMaxLineBytes));
    const std::string text = source.lines.read(line, simdjson::SIMDJSON_PADDING);
    simdjson::dom::parser parser;
    simdjson::dom::element parsed;
    auto error = parser.allocate(text.size(), kMaxDepth);
    if (error == simdjson::SUCCESS) error = parser.parse(text.data(), text.size(), false).get(parsed);
    if (error == simdjson::UTF8_ERROR) throw BadSample(place + ": not valid UTF-8");
    if (error == simdjson::DEPTH_ERROR) throw BadSample(fmt::format("{}: nested deeper than {}", place, kMaxDepth));
    if (error == simdjson::STRING_ERROR)
      throw BadSample(place + ": not valid JSON: an unknown escape in a string, or half of a surrogate pair");
    if (error != simdjson::SUCCESS)
      throw BadSample(fmt::format("{}: not valid JSON: {}", place, simdjson::error_message(error)));
    try {
      if (!parsed.is_object()) throw FieldError("", "expected a JSON object");
      return body(parsed, place);
    } catch (const FieldError& wrong) {
      throw BadSample(fmt::format("{}: {}", place, wrong.what()));
    }
  }

  std::string canonical(const SourceFile& source, uint64_t line, SourceFormat format) const {
    return with_line(source, line, [&](simdjson::dom::element parsed, const std::string& place) {
      Conversation conversation = read_conversation(parsed, format);
      place_media(conversation);
      check_conversation(conversation, source.media, train_all);
      if (conversation.id.empty()) conversation.id = place;
      return canonical_json(conversation);
    });
  }

  // The format of the first good line, else of the first line that shows one. Throws kBadData where none does.
  SourceFormat detect(const SourceFile& source, const std::filesystem::path& path) const {
    std::optional<SourceFormat> shown;
    std::string first_reason;
    for (uint64_t line = 0; line < std::min(source.lines.size(), kDetectLines); ++line) {
      try {
        const auto format = with_line(
            source, line, [](simdjson::dom::element parsed, const std::string&) { return detect_format(parsed); });
        if (!format) continue;
        if (!shown) shown = format;
        canonical(source, line, *format);
        return *format;
      } catch (const BadSample& bad) {  // named when its turn comes
        if (first_reason.empty()) first_reason = bad.what();
      }
    }
    if (shown) return *shown;
    refuse_other_kinds(source, path);
    fail(Exit::kBadData,
         "{}: none of {} lines looked at is an object with \"messages\" or \"conversations\"{}{}; check data.path",
         path.string(), std::min(source.lines.size(), kDetectLines),
         first_reason.empty() ? "" : "; the first: ", first_reason);
  }

  static void refuse_other_kinds(const SourceFile& source, const std::filesystem::path& path) {
    const std::string other = why_not_json_lines(source.lines.head(kHeadBytes));
    if (!other.empty()) fail(Exit::kBadData, "{}: {}", path.string(), other);
  }

  void expect_one_good(const std::vector<std::filesystem::path>& paths) const {
    std::string first_reason;
    for (const SourceFile& source : sources) {
      for (uint64_t line = 0; line < source.lines.size(); ++line) {
        try {
          canonical(source, line, source.format);
          return;
        } catch (const BadSample& bad) {
          if (first_reason.empty()) first_reason = bad.what();
        }
      }
    }
    if (first.back() == 0) fail(Exit::kBadData, "{}: no sample in it; check data.path", paths.front().string());
    for (size_t i = 0; i < sources.size(); ++i) refuse_other_kinds(sources[i], files[i].path);
    fail(Exit::kBadData, "data.path: none of {} is good; the first: {}", counted(first.back(), "sample"), first_reason);
  }
};

Dataset::Dataset(const DataSection& options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.train_all = options.train_on == "all";
  state.first.push_back(0);
  const std::vector<std::filesystem::path> paths = find_files(options.path);
  for (const std::filesystem::path& path : paths) {
    const std::filesystem::path full = std::filesystem::absolute(path).lexically_normal();
    SourceFile source{.lines = LineIndex(full),
                      .name = full.filename().string(),
                      .media = MediaRoot(options.media_root.empty() ? full.parent_path() : options.media_root)};
    const bool any = source.lines.size() > 0, detected = any && options.format == "auto";
    source.format = options.format == "sharegpt" ? SourceFormat::kShareGpt : SourceFormat::kMessages;
    if (detected) source.format = state.detect(source, full);
    state.first.push_back(state.first.back() + source.lines.size());
    state.files.push_back({full, source.lines.size(), any ? std::string(to_string(source.format)) : "empty", detected});
    if (any)
      log::info("data: {}: {}, format {}{}", full.string(), counted(source.lines.size(), "sample"),
                to_string(source.format), detected ? " (detected)" : "");
    else
      log::warning("data: {}: no sample in it", full.string());
    state.sources.push_back(std::move(source));
  }
  state.expect_one_good(paths);
}

Dataset::~Dataset() = default;

uint64_t Dataset::size() const { return state_->first.back(); }

Sample Dataset::sample(uint64_t index) const {
  const auto [source, line] = state_->locate(index);
  return {index, state_->canonical(*source, line, source->format), State::place_of(*source, line)};
}

std::string Dataset::place(uint64_t index) const {
  const auto [source, line] = state_->locate(index);
  return State::place_of(*source, line);
}

const std::vector<Dataset::File>& Dataset::files() const { return state_->files; }

}  // namespace lf
