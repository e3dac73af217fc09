// Small symmetric systems, solved in a fixed order of operations.
#pragma once

#include <cstddef>
#include <vector>

namespace lf {

// x >= 0 that minimises x'Ax - 2b'x, for a positive definite A [n, n]: non-negative least squares by the active-set
// method of Lawson and Hanson on the normal equations.
std::vector<double> solve_non_negative(const std::vector<double>& a, const std::vector<double>& b);

// x'A^-1 x over the indices where `free` holds; the others are taken as known.
double inverse_quadratic(const std::vector<double>& a, const std::vector<double>& x, const std::vector<bool>& free);

}  // namespace lf
