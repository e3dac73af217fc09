#include "metrics/progress.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "metrics/text.h"

namespace lf {
namespace {

// In the order in which a narrow terminal gives them up, last first.
std::vector<std::string> fields(const StepReport& report, std::optional<double> left_seconds) {
  std::vector<std::string> all;
  all.push_back(fmt::format("loss {:.4f}{}", report.loss, report.skipped ? " (skipped)" : ""));
  all.push_back(
      fmt::format("{}<{}", short_duration(report.elapsed_seconds), left_seconds ? short_duration(*left_seconds) : "?"));
  all.push_back(fmt::format("lr {:.2e}", report.learning_rate));
  all.push_back(fmt::format("grad {:.3g}", report.grad_norm));
  all.push_back(fmt::format("{}/{} tok/s", short_count(per_second(report.supervised_tokens, report.step_seconds)),
                            short_count(per_second(report.tokens, report.step_seconds))));
  if (report.mfu) all.push_back(fmt::format("mfu {:.1f}%", 100 * *report.mfu));
  all.push_back("mem " + short_bytes(report.memory_bytes));
  all.push_back(fmt::format("wait {:.0f}%", report.step_seconds > 0
                                                ? 100 * std::min(1.0, report.data_wait_seconds / report.step_seconds)
                                                : 0.0));
  return all;
}

std::string bar(double share, int cells, const BarStyle& style) {
  const double filled = std::clamp(share, 0.0, 1.0) * cells;
  std::string text;
  if (style.colour) text += "\x1b[36m";
  const int whole = static_cast<int>(filled);
  for (int i = 0; i < whole; ++i) text += style.unicode ? "\u2501" : "=";
  if (style.colour) text += "\x1b[90m";
  for (int i = whole; i < cells; ++i) text += style.unicode ? "\u2501" : (i == whole && whole > 0 ? ">" : "-");
  if (style.colour) text += "\x1b[0m";
  if (!style.colour && style.unicode) {  // without colours both halves would look the same
    text.clear();
    for (int i = 0; i < cells; ++i) text += i < whole ? "\u2588" : "\u2591";
  }
  return text;
}

}  // namespace

std::string progress_line(const StepReport& report, std::optional<double> left_seconds) {
  std::string line = fmt::format("step {}/{}", report.step, report.total_steps);
  line += fmt::format("  loss {:.4f}{}  lr {:.2e}  grad {:.3g}", report.loss, report.skipped ? " (skipped)" : "",
                      report.learning_rate, report.grad_norm);
  line += fmt::format("  supervised {} tok/s  all {} tok/s",
                      short_count(per_second(report.supervised_tokens, report.step_seconds)),
                      short_count(per_second(report.tokens, report.step_seconds)));
  if (report.mfu) line += fmt::format("  mfu {:.1f}%", 100 * *report.mfu);
  line +=
      fmt::format("  mem {}  data wait {:.1f}%", short_bytes(report.memory_bytes),
                  report.step_seconds > 0 ? 100 * std::min(1.0, report.data_wait_seconds / report.step_seconds) : 0.0);
  if (report.balance) line += fmt::format("  imbalance {:.1f}%", 100 * report.balance->measured_imbalance);
  return line + fmt::format("  {}<{}", short_duration(report.elapsed_seconds),
                            left_seconds ? short_duration(*left_seconds) : "?");
}

std::string progress_bar(const StepReport& report, std::optional<double> left_seconds, const BarStyle& style) {
  const std::string count = fmt::format("{}/{}", report.step, report.total_steps);
  const int cells = std::clamp(style.columns / 5, 6, 24);
  int used = cells + 1 + static_cast<int>(count.size());
  if (used > style.columns) return count.substr(0, static_cast<size_t>(std::max(0, style.columns)));
  const double share =
      report.total_steps > 0 ? static_cast<double>(report.step) / static_cast<double>(report.total_steps) : 0;
  std::string text = bar(share, cells, style) + " " + count;
  for (const std::string& field : fields(report, left_seconds)) {
    used += 2 + static_cast<int>(field.size());
    if (used > style.columns) break;
    text += "  " + field;
  }
  return text;
}

void Progress::show(const StepReport& report, std::optional<double> left_seconds) {
  last_ = report;
  left_seconds_ = left_seconds;
  printed_last_ = false;
  if (options_.terminal) {
    winsize size{};
    const bool known = ioctl(options_.descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const BarStyle style{known ? size.ws_col - 1 : 79, options_.colour, options_.unicode};
    print("\r\x1b[K" + progress_bar(report, left_seconds, style) + "\r");
  } else if (report.elapsed_seconds - printed_at_ >= options_.seconds) {
    print(progress_line(report, left_seconds) + "\n");
    printed_at_ = report.elapsed_seconds;
    printed_last_ = true;
  }
  if (report.step == report.total_steps) end();  // before what is told of checkpoints and models
}

void Progress::end() {
  if (!last_ || printed_last_) return;
  print((options_.terminal ? "\r\x1b[K" : "") + progress_line(*last_, left_seconds_) + "\n");
  printed_last_ = true;
}

void Progress::print(const std::string& text) const {
  pollfd ready{options_.descriptor, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  if (write(options_.descriptor, text.data(), text.size()) < 0) return;  // nobody looks: not an error of the run
}

}  // namespace lf
