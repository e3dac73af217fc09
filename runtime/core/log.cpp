#include "core/log.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "core/terminal.h"

namespace lf::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::sinks::sink> terminal_sink() {
  const bool colour = std::getenv("NO_COLOR") == nullptr;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(colour ? spdlog::color_mode::automatic
                                                                           : spdlog::color_mode::never);
  // On a terminal a progress bar may stand in the line (metrics/progress.h): the message takes its place.
  sink->set_pattern(isatty(STDERR_FILENO) != 0 && obeys_control_sequences(std::getenv("TERM")) ? "\r\x1b[K%^%L%$ %v"
                                                                                               : "%^%L%$ %v");
  return sink;
}

// The one logger of the process, replaced by open(); a function-local static, so no order of initialisation matters.
std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> the_logger = std::make_shared<spdlog::logger>("lfrun", terminal_sink());
  return the_logger;
}

}  // namespace

void open(const std::filesystem::path& file, bool terminal, Level least) {
  std::vector<spdlog::sink_ptr> sinks;
  if (terminal) sinks.push_back(terminal_sink());
  if (!file.empty()) {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %v");
    sinks.push_back(std::move(sink));
  }
  auto made = std::make_shared<spdlog::logger>("lfrun", sinks.begin(), sinks.end());
  made->set_level(to_spdlog(least));
  made->flush_on(spdlog::level::info);
  logger() = std::move(made);
}

void write(Level level, std::string_view text) noexcept {
  try {
    logger()->log(to_spdlog(level), text);
  } catch (...) {  // a full disk must not stop training
  }
}

void flush() noexcept {
  try {
    logger()->flush();
  } catch (...) {
  }
}

}  // namespace lf::log
