#include "balance_command/picture.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

namespace lf {
namespace {

constexpr int kWidth = 900, kPanelHeight = 220, kLeft = 70, kTop = 40, kBottom = 30;
constexpr size_t kMostBars = 256;
constexpr std::array kColours = {"#8c8c8c", "#d9822b", "#3b7dd8", "#2e9e5b", "#a05cc7", "#c23b4b"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string start(int height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
}

std::string text(double x, double y, const std::string& content, const char* anchor = "start") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(content));
}

std::vector<double> thinned(const std::vector<double>& values) {
  if (values.size() <= kMostBars) return values;
  std::vector<double> out;
  for (size_t i = 0; i < kMostBars; ++i) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(i * values.size() / kMostBars);
    const auto end = values.begin() + static_cast<ptrdiff_t>((i + 1) * values.size() / kMostBars);
    out.push_back(*std::max_element(begin, end));
  }
  return out;
}

std::string panel(const std::vector<double>& seconds, const std::string& name, const char* colour, double most,
                  int top) {
  const double height = kPanelHeight - kTop - kBottom, width = kWidth - kLeft - 20, floor = top + kTop + height;
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  const double slowest = *std::ranges::max_element(seconds);
  std::string out =
      text(kLeft, top + 24, fmt::format("{}: slowest / mean = {:.4f}", name, mean > 0 ? slowest / mean : 1));
  const std::vector<double> bars = thinned(seconds);
  const double step = width / static_cast<double>(bars.size());
  for (size_t i = 0; i < bars.size(); ++i) {
    const double h = most > 0 ? bars[i] / most * height : 0;
    out += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n",
                       kLeft + step * static_cast<double>(i), floor - h, std::max(0.5, step * 0.85), h, colour);
  }
  const double y = most > 0 ? floor - mean / most * height : floor;
  out +=
      fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"black\" stroke-dasharray=\"4 3\"/>\n",
                  kLeft, kWidth - 20, y, y);
  out += text(kLeft - 6, y + 4, fmt::format("{:.3g}", mean), "end");
  out += text(kLeft - 6, floor - height + 4, fmt::format("{:.3g}", most), "end");
  out += text(kLeft, floor + 18, fmt::format("replica 0 to {}", seconds.size() - 1));
  return out;
}

}  // namespace

std::string bars_svg(const std::vector<double>& before, const std::vector<double>& after,
                     const std::string& before_name, const std::string& after_name) {
  const double most = std::max(*std::ranges::max_element(before), *std::ranges::max_element(after));
  return start(2 * kPanelHeight) + panel(before, before_name, kColours[0], most, 0) +
         panel(after, after_name, kColours[2], most, kPanelHeight) + "</svg>\n";
}

std::string lines_svg(const std::vector<int>& replicas, const std::vector<Line>& lines) {
  constexpr int kHeight = 420;
  const double width = kWidth - kLeft - 200, height = kHeight - kTop - 60, floor = kTop + height;
  std::string out = start(kHeight) + text(kLeft, 24, "efficiency against replicas");
  for (int percent = 0; percent <= 100; percent += 20) {
    const double y = floor - height * percent / 100;
    out += fmt::format("<line x1=\"{}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>\n", kLeft,
                       kLeft + width, y, y);
    out += text(kLeft - 6, y + 4, fmt::format("{}%", percent), "end");
  }
  const auto x = [&](size_t i) {
    return kLeft +
           (replicas.size() > 1 ? width * static_cast<double>(i) / static_cast<double>(replicas.size() - 1) : 0);
  };
  for (size_t i = 0; i < replicas.size(); ++i) out += text(x(i), floor + 18, std::to_string(replicas[i]), "middle");
  for (size_t l = 0; l < lines.size(); ++l) {
    const char* colour = kColours[l % kColours.size()];
    out += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", colour);
    for (size_t i = 0; i < lines[l].efficiency.size(); ++i)
      out += fmt::format("{:.1f},{:.1f} ", x(i), floor - height * lines[l].efficiency[i]);
    out += "\"/>\n";
    const double y = kTop + 20 * static_cast<double>(l + 1);
    out += fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", kLeft + width + 20,
                       y - 10, colour);
    out += text(kLeft + width + 38, y, lines[l].name);
  }
  return out + "</svg>\n";
}

}  // namespace lf
