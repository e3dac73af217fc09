// curves.svg: loss and learning rate over the steps, in a picture that any browser shows, light or dark. Internal to
// metrics.
#pragma once

#include <span>
#include <string>

#include "metrics/history.h"

namespace lf {

// Points in the order of steps; those whose loss is not finite leave a gap. Empty points: a picture that says so. Pure.
std::string curves_svg(const std::string& title, std::span<const CurvePoint> points);

// Round values for the ticks of an axis, about `count` of them inside [low, high].
std::vector<double> axis_ticks(double low, double high, int count);

}  // namespace lf
