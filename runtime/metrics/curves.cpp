#include "metrics/curves.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace lf {
namespace {

constexpr double kWidth = 860, kLeft = 64, kRight = 836;
constexpr size_t kMostPoints = 1500;  // of a line: two for each column of the picture

struct Axis {
  double low, high, from, to;  // values and where they are drawn
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

Axis fitted(double low, double high, double from, double to) {
  if (!(high > low)) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= room;
    high += room;
  }
  return {low, high, from, to};
}

// Means of neighbours, so that a long run stays a small file.
std::vector<CurvePoint> thinned(std::span<const CurvePoint> points) {
  const size_t group = (points.size() + kMostPoints - 1) / kMostPoints;
  if (group <= 1) return {points.begin(), points.end()};
  std::vector<CurvePoint> result;
  for (size_t begin = 0; begin < points.size(); begin += group) {
    const size_t end = std::min(begin + group, points.size());
    CurvePoint mean{points[begin + (end - begin) / 2].step, 0, points[begin].learning_rate};
    double n = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(points[i].loss)) continue;
      mean.loss += points[i].loss;
      ++n;
    }
    mean.loss = n > 0 ? mean.loss / n : NAN;
    result.push_back(mean);
  }
  return result;
}

// Mean over neighbours on both sides, the nearer the heavier (a triangle of a tenth of the run): it lags behind
// nothing.
std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points) {
  const auto reach = static_cast<int64_t>(points.size() / 20);
  std::vector<CurvePoint> result;
  for (int64_t i = 0; i < static_cast<int64_t>(points.size()); ++i) {
    double sum = 0, weight = 0;
    for (int64_t j = std::max<int64_t>(0, i - reach); j <= i + reach && j < static_cast<int64_t>(points.size()); ++j) {
      const double loss = points[static_cast<size_t>(j)].loss;
      if (!std::isfinite(loss)) continue;
      const auto nearness = static_cast<double>(reach + 1 - std::abs(i - j));
      sum += nearness * loss;
      weight += nearness;
    }
    if (weight > 0) result.push_back({points[static_cast<size_t>(i)].step, sum / weight, 0});
  }
  return result;
}

template <typename Value>
std::string path(const std::vector<CurvePoint>& points, const Axis& x, const Axis& y, const Value& value) {
  std::string text;
  bool pen_down = false;
  for (const CurvePoint& point : points) {
    const double v = value(point);
    if (!std::isfinite(v)) {
      pen_down = false;
      continue;
    }
    text += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x.at(static_cast<double>(point.step)), y.at(v));
    pen_down = true;
  }
  return text;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      safe += c;
  }
  return safe;
}

std::string horizontal_ticks(const Axis& y, int count) {
  std::string text;
  for (double tick : axis_ticks(y.low, y.high, count)) {
    text +=
        fmt::format(R"(<path class="grid" d="M{} {:.1f}H{}"/><text x="{}" y="{:.1f}" text-anchor="end">{:g}</text>)",
                    kLeft, y.at(tick), kRight, kLeft - 8, y.at(tick) + 4, tick);
    text += "\n";
  }
  return text;
}

constexpr const char* kStyle = R"(<style>
svg { background: #fff; font: 12px system-ui, sans-serif; }
text { fill: #555; } .title { font-size: 15px; font-weight: 600; fill: #222; }
path { fill: none; } .grid { stroke: #e6e6e6; } .raw { stroke: #2a78b5; opacity: .3; }
.loss { stroke: #2a78b5; stroke-width: 2; } .rate { stroke: #c4661f; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  svg { background: #16181c; } text { fill: #9aa0a8; } .title { fill: #e8eaed; } .grid { stroke: #2b2f36; }
  .raw, .loss { stroke: #6db3e8; } .rate { stroke: #f0a05a; }
}
</style>
)";

}  // namespace

std::vector<double> axis_ticks(double low, double high, int count) {
  if (!std::isfinite(low) || !std::isfinite(high) || !(high > low) || count < 1) return {};
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power;
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough * 0.999) break;
  }
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
    ticks.push_back(i * step + 0.0);  // no -0
  return ticks;
}

std::string curves_svg(const std::string& title, std::span<const CurvePoint> all) {
  const std::vector<CurvePoint> points = thinned(all);
  double loss_low = INFINITY, loss_high = -INFINITY, rate_high = 0;
  for (const CurvePoint& point : points) {
    if (std::isfinite(point.loss)) {
      loss_low = std::min(loss_low, point.loss);
      loss_high = std::max(loss_high, point.loss);
    }
    if (std::isfinite(point.learning_rate)) rate_high = std::max(rate_high, point.learning_rate);
  }
  std::string svg = fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} 470" role="img">)", kWidth);
  svg += "\n";
  svg += kStyle;
  svg += fmt::format("<text class=\"title\" x=\"{}\" y=\"26\">{}</text>\n", kLeft, escaped(title));
  if (!(loss_high >= loss_low)) {
    return svg + fmt::format("<text x=\"{}\" y=\"60\">no step with a finite loss</text>\n</svg>\n", kLeft);
  }
  const Axis x =
      fitted(static_cast<double>(points.front().step), static_cast<double>(points.back().step), kLeft, kRight);
  const double room = 0.04 * (loss_high - loss_low);
  const Axis loss = fitted(loss_low - room, loss_high + room, 320, 48);
  const Axis rate = fitted(0, rate_high * 1.05, 432, 352);
  svg += horizontal_ticks(loss, 6) + horizontal_ticks(rate, 2);
  for (double tick : axis_ticks(x.low, x.high, 8)) {
    if (tick != std::floor(tick)) continue;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"452\" text-anchor=\"middle\">{:.0f}</text>\n", x.at(tick), tick);
  }
  const std::vector<CurvePoint> smooth = smoothed(points);
  const auto loss_of = [](const CurvePoint& point) { return point.loss; };
  svg += fmt::format("<path class=\"raw\" d=\"{}\"/>\n", path(points, x, loss, loss_of));
  svg += fmt::format("<path class=\"loss\" d=\"{}\"/>\n", path(smooth, x, loss, loss_of));
  svg += fmt::format("<path class=\"rate\" d=\"{}\"/>\n",
                     path(points, x, rate, [](const CurvePoint& point) { return point.learning_rate; }));
  svg += fmt::format(
      "<text x=\"{0}\" y=\"44\" text-anchor=\"end\">loss, last {1:.4g}</text>\n"
      "<text x=\"{0}\" y=\"348\" text-anchor=\"end\">learning rate</text>\n"
      "<text x=\"{0}\" y=\"466\" text-anchor=\"end\">step</text>\n</svg>\n",
      kRight, smooth.back().loss);
  return svg;
}

}  // namespace lf
