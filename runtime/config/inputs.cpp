// The files and folders that a job names, and where messages say that they were named.
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "config/config.h"
#include "config/options.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

struct Wanted {
  bool folder = false, file = false, stream = false;  // what it may be
};

// Nothing where it can be read.
struct Trouble {
  Exit exit;
  std::string what;
};

// How far a path that leads nowhere leads, and what to do about it.
std::string absent(const fs::path& path) {
  fs::path there = path.parent_path();
  std::error_code unknown;
  while (there.has_relative_path() && !fs::exists(there, unknown)) there = there.parent_path();
  return fmt::format(
      "does not exist ({} does); correct the path, or make what it names first: the comments of a job file in configs/ "
      "say how",
      there.string());
}

std::optional<Trouble> trouble_with(const fs::path& path, Wanted wanted) {
  std::error_code unknown;
  if (wanted.stream && fs::is_fifo(fs::status(path, unknown))) {  // not opened: whoever writes to it would notice
    if (access(path.c_str(), R_OK) == 0) return std::nullopt;
    return Trouble{exit_of_unreadable(errno), fmt::format("cannot be read: {}", std::strerror(errno))};
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return Trouble{exit_of_unreadable(errno),
                   errno == ENOENT ? absent(path) : fmt::format("cannot be read: {}", std::strerror(errno))};
  close(fd);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status) && !wanted.folder) return Trouble{Exit::kInputMissing, "is a folder; expected a file"};
  if (!fs::is_directory(status) && !wanted.file) return Trouble{Exit::kInputMissing, "is not a folder"};
  if (!fs::is_directory(status) && !fs::is_regular_file(status))
    return Trouble{Exit::kInputMissing, "is not a regular file"};
  return std::nullopt;
}

bool continues_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Where the key inside a table stands that a message begins with, or the nearest above it; null: it names none.
const std::string* inner_origin(const ResolvedJob& job, std::string_view message) {
  size_t end = 0;
  while (end < message.size() &&
         (continues_a_name(message[end]) || std::string_view(".[]-").find(message[end]) != std::string_view::npos))
    ++end;
  for (std::string_view name = message.substr(0, end); !name.empty();) {
    if (const auto found = job.inner_origins.find(name); found != job.inner_origins.end()) return &found->second;
    const size_t cut = name.find_last_of(".[");
    name = cut == std::string_view::npos ? std::string_view() : name.substr(0, cut);
  }
  return nullptr;
}

}  // namespace

std::string with_origin(const ResolvedJob& job, std::string_view option, const std::string& message) {
  const auto origin = job.origins.find(option);
  const bool given = origin != job.origins.end() && origin->second != "default";
  return fmt::format("{}: {}", given ? origin->second : job.config.file.string(), message);
}

std::string with_origins(const ResolvedJob& job, const std::string& message) {
  std::string out;
  for (size_t start = 0; start <= message.size();) {
    const size_t end = std::min(message.find('\n', start), message.size());
    const std::string line = message.substr(start, end - start);
    const Option* about = nullptr;
    for (const Option& option : options())
      if (line.starts_with(option.name) &&
          (line.size() == option.name.size() || !continues_a_name(line[option.name.size()])) &&
          (about == nullptr || option.name.size() > about->name.size()))
        about = &option;
    out += start == 0 ? "" : "\n";
    if (const std::string* inner = about == nullptr ? nullptr : inner_origin(job, line))
      out += fmt::format("{}: {}", *inner, line);
    else
      out += about == nullptr ? line : with_origin(job, about->name, line);
    start = end + 1;
  }
  return out;
}

void check_inputs(ResolvedJob& job, Problems& problems) {
  const auto refuse = [&](std::string_view option, const fs::path& path, const Trouble& trouble) {
    problems.add(trouble.exit, with_origin(job, option, fmt::format("{}: {} {}", option, path.string(), trouble.what)));
    job.broken.emplace(option);
  };
  const auto require = [&](std::string_view option, const fs::path& path, Wanted wanted) {
    if (path.empty() || job.broken.contains(option)) return;
    if (const auto trouble = trouble_with(path, wanted)) refuse(option, path, *trouble);
  };
  const JobConfig& config = job.config;
  require("model.path", config.model.path, {.folder = true});
  if (!config.model.path.empty() && !job.broken.contains("model.path")) {
    const fs::path file = config.model.path / "config.json";
    if (const auto trouble = trouble_with(file, {.file = true})) refuse("model.path", file, *trouble);
  }
  require("model.config", config.model.config, {.file = true});
  if (config.model.tokenizer != config.model.path) {
    require("model.tokenizer", config.model.tokenizer, {.folder = true});
    if (!config.model.tokenizer.empty() && !job.broken.contains("model.tokenizer")) {
      const fs::path file = config.model.tokenizer / "tokenizer.json";
      if (const auto trouble = trouble_with(file, {.file = true})) refuse("model.tokenizer", file, *trouble);
    }
  }
  if (!job.broken.contains("data.path"))
    for (const fs::path& path : config.data.path)
      if (const auto trouble = trouble_with(path, {.folder = true, .file = true, .stream = true}))
        refuse("data.path", path, *trouble);
  require("data.media_root", config.data.media_root, {.folder = true});
  require("lora.path", config.lora.path, {.folder = true});
}

void require_inputs(const ResolvedJob& job) {
  Problems problems;
  ResolvedJob checked = job;
  check_inputs(checked, problems);
  problems.refuse_if_any();
}

}  // namespace lf
