// Pictures of a plan as SVG text.
#pragma once

#include <string>
#include <vector>

namespace lf {

// Bars of every replica's seconds, before and after, on one scale, with the mean as a line. At most 256 bars each: of
// more replicas, the heaviest of each group of neighbours is drawn.
std::string bars_svg(const std::vector<double>& before, const std::vector<double>& after,
                     const std::string& before_name, const std::string& after_name);

// Lines of efficiency (0 to 1) over replica counts, doubling from point to point.
struct Line {
  std::string name;
  std::vector<double> efficiency;
};
std::string lines_svg(const std::vector<int>& replicas, const std::vector<Line>& lines);

}  // namespace lf
