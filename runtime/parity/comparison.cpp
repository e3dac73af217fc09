#include "parity/comparison.h"

#include <algorithm>
#include <cmath>

namespace lf {
namespace {

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

}  // namespace

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(double{a[i]} - double{b[i]});
    if (!(d <= worst)) worst = d;  // lets NaN through
  }
  return worst;
}

double difference_at(const std::vector<int64_t>& rows, size_t columns, const Array& ours, const Array& expected) {
  double worst = 0;
  for (const int64_t row : rows)
    for (size_t c = 0; c < columns; ++c) {
      const size_t at = static_cast<size_t>(row) * columns + c;
      const double d = std::abs(double{ours.values[at]} - double{expected.values[at]});
      if (!(d <= worst)) worst = d;  // lets NaN through
    }
  return worst;
}

std::optional<Array> stated(const Arrays& expected, const std::string& name) {
  if (const auto found = expected.find(name); found != expected.end()) return found->second;
  std::optional<Array> all;
  for (size_t i = 0; expected.contains(fmt::format("{}.{}", i, name)); ++i) {
    const Array& one = expected.at(fmt::format("{}.{}", i, name));
    if (!all) all.emplace(Array{{0}, {}});
    all->values.insert(all->values.end(), one.values.begin(), one.values.end());
    all->shape[0] = static_cast<int64_t>(all->values.size());
  }
  return all;
}

void compare_gradients(Table& table, const std::string& name, const Arrays& ours, const Arrays& expected, bool bf16) {
  if (std::none_of(expected.begin(), expected.end(),
                   [](const auto& item) { return item.first.starts_with("grad."); })) {
    table.note(name, "the reference states no gradients");
    return;
  }
  double square = 0, square_difference = 0;
  for (const auto& [key, array] : expected)
    if (key.starts_with("grad.")) square += std::pow(norm(array.values), 2);
  const double global = std::sqrt(square);
  double worst = 0;
  std::string worst_name = "none";
  size_t compared = 0;
  for (const auto& [key, array] : expected) {
    if (!key.starts_with("grad.")) continue;
    const auto found = ours.find(key.substr(5));
    if (found == ours.end()) {
      table.miss(name, key + " has no gradient here");
      continue;
    }
    ++compared;
    if (found->second.shape != array.shape) {
      table.miss(name, key + " has another shape");
      continue;
    }
    double top = 0;
    for (const float value : array.values) top = std::max(top, std::abs(double{value}));
    const double difference = largest_difference(found->second.values, array.values);
    const double share = difference / (1e-4 * top + 1e-6 * global);
    for (size_t i = 0; i < array.values.size(); ++i)
      square_difference += std::pow(double{found->second.values[i]} - double{array.values[i]}, 2);
    if (!(share <= worst)) {
      worst = share;
      worst_name = key.substr(5);
    }
  }
  for (const auto& [key, array] : ours)
    if (!expected.contains("grad." + key)) table.miss(name, "grad." + key + " is not in the reference");
  if (compared == 0) return;
  if (bf16)
    table.row(name, fmt::format("{} gradients together, of their norm", compared),
              std::sqrt(square_difference) / global, 0.1);
  else
    table.row(name, fmt::format("{} gradients, worst {}", compared, worst_name), worst, 1);
}

}  // namespace lf
