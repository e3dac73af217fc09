// The log of this process: one line per event, to the terminal (rank 0 and the launcher) and to the rank's file.
// spdlog stays behind this header: its fmt and LibTorch's may not meet in one file.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace lf::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// Where lines go. Called once in each process, before its threads start; until then lines go to stderr.
// `file` empty: none. `terminal` false: warnings and errors of this rank go to the file only.
void open(const std::filesystem::path& file, bool terminal, Level least);

// Never throws; safe from any thread.
void write(Level level, std::string_view text) noexcept;
void flush() noexcept;

template <typename... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kDebug, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kWarning, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kError, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace lf::log
