#include "balance/non_negative.h"

#include <cmath>

namespace lf {
namespace {

// Solves A x = b for the chosen rows and columns, by Cholesky; x is zero elsewhere.
std::vector<double> solve_free(const std::vector<double>& a, const std::vector<double>& b,
                               const std::vector<bool>& free) {
  const size_t n = b.size();
  std::vector<size_t> index;
  for (size_t i = 0; i < n; ++i)
    if (free[i]) index.push_back(i);
  const size_t m = index.size();
  std::vector<double> l(m * m, 0.0), y(m), x(n, 0.0);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[index[i] * n + index[j]];
      for (size_t k = 0; k < j; ++k) sum -= l[i * m + k] * l[j * m + k];
      l[i * m + j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / l[j * m + j];
    }
  for (size_t i = 0; i < m; ++i) {
    double sum = b[index[i]];
    for (size_t k = 0; k < i; ++k) sum -= l[i * m + k] * y[k];
    y[i] = sum / l[i * m + i];
  }
  for (size_t i = m; i-- > 0;) {
    double sum = y[i];
    for (size_t k = i + 1; k < m; ++k) sum -= l[k * m + i] * x[index[k]];
    x[index[i]] = sum / l[i * m + i];
  }
  return x;
}

}  // namespace

std::vector<double> solve_non_negative(const std::vector<double>& a, const std::vector<double>& b) {
  const size_t n = b.size();
  std::vector<double> x(n, 0.0);
  std::vector<bool> free(n, false);
  for (size_t round = 0; round < 3 * n + 3; ++round) {
    // The bound variable that would lower the function most, if any would.
    size_t best = n;
    double steepest = 0;
    for (size_t i = 0; i < n; ++i) {
      if (free[i]) continue;
      double slope = b[i];
      for (size_t j = 0; j < n; ++j) slope -= a[i * n + j] * x[j];
      slope /= std::sqrt(a[i * n + i]);
      if (slope > steepest + 1e-12 * std::abs(b[i])) best = i, steepest = slope;
    }
    if (best == n) return x;
    free[best] = true;
    for (;;) {
      const std::vector<double> wanted = solve_free(a, b, free);
      double step = 1;
      for (size_t i = 0; i < n; ++i)
        if (free[i] && wanted[i] <= 0) step = std::min(step, x[i] / (x[i] - wanted[i]));
      for (size_t i = 0; i < n; ++i) x[i] += step * (wanted[i] - x[i]);
      if (step == 1) break;
      for (size_t i = 0; i < n; ++i)
        if (free[i] && x[i] <= 1e-12 * std::abs(wanted[i])) free[i] = false, x[i] = 0;
    }
  }
  return x;
}

double inverse_quadratic(const std::vector<double>& a, const std::vector<double>& x, const std::vector<bool>& free) {
  const std::vector<double> solved = solve_free(a, x, free);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (free[i]) sum += x[i] * solved[i];
  return sum;
}

}  // namespace lf
