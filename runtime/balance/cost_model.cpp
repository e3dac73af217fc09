#include "balance/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <nlohmann/json.hpp>

#include "balance/non_negative.h"
#include "core/error.h"

namespace lf {
namespace {

// The prior counts like observations with this variance, relative to a typical step: it decides only where the data
// cannot tell terms apart.
constexpr double kPriorWeight = 0.0025;
constexpr double kOutlier = 4;  // residuals beyond so many standard deviations count as if they were at that distance

// Page's cumulative sums (Biometrika 1954) of standardised mean residuals: slack and threshold. With 0.75 and 10 the
// mean time between false alarms of a normal sequence is above 10^6 steps; a change of 20% stands out by several
// deviations.
constexpr double kDriftSlack = 0.75, kDriftThreshold = 10;
constexpr int64_t kDriftWarmUp = 10;       // steps before a change can be told from learning
constexpr double kDriftForgetting = 0.02;  // what is known counts so much afterwards

constexpr int64_t kSpeedWarmUp = 5;
constexpr double kLeastDeviation = 0.03;  // of a speed from 1 that is acted on
constexpr double kSpeedErrors = 4;        // standard errors that a speed must be away from 1

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

bool usable(double seconds) { return std::isfinite(seconds) && seconds > 0; }

}  // namespace

CostModel::CostModel(std::vector<CostTerm> terms, int32_t replicas, CostModelSettings settings)
    : terms_(std::move(terms)), settings_(settings), speed_(replicas, 1.0) {
  const size_t n = terms_.size() + 1;
  information_.assign(n * n, 0.0);
  target_.assign(n, 0.0);
}

std::vector<double> CostModel::regressors(std::span<const double> amounts, double micro_batches) const {
  std::vector<double> u(terms_.size() + 1);
  for (size_t t = 0; t < terms_.size(); ++t) u[t] = amounts[t] / scale_[t];
  u.back() = micro_batches;
  return u;
}

double CostModel::predict(const std::vector<double>& u) const {
  return std::inner_product(u.begin(), u.end(), theta_.begin(), 0.0);
}

// The first step fixes the units: FLOPs become the seconds that they would take if they were all there is.
void CostModel::start(std::span<const double> seconds, std::span<const double> amounts) {
  const size_t n = terms_.size();
  scale_.assign(n, 0.0);
  double total = 0, used = 0;
  for (size_t r = 0; r < seconds.size(); ++r) {
    if (!usable(seconds[r])) continue;
    ++used;
    total += seconds[r];
    for (size_t t = 0; t < n; ++t) scale_[t] += amounts[r * n + t];
  }
  typical_seconds_ = total / used;
  double all = 0;
  for (size_t t = 0; t < n; ++t) {
    scale_[t] = scale_[t] > 0 ? scale_[t] / used : 1;
    all += terms_[t].prior * scale_[t];
  }
  prior_.assign(n + 1, 0.0);
  for (size_t t = 0; t < n; ++t) prior_[t] = all > 0 ? typical_seconds_ * terms_[t].prior * scale_[t] / all : 0;
  theta_ = prior_;
  residual_squares_ = 0;
}

void CostModel::observe(std::span<const double> all_seconds, std::span<const double> amounts, int32_t micro_batches) {
  const size_t width = terms_.size(), n = width + 1, pieces = all_seconds.size() / speed_.size();
  std::vector<double> seconds(all_seconds.begin(), all_seconds.end());
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (!usable(seconds[i])) ++ignored_;
    const std::span<const double> work = amounts.subspan(i * width, width);
    if (std::ranges::all_of(work, [](double amount) { return amount == 0; })) seconds[i] = 0;
  }
  const auto used = static_cast<size_t>(std::ranges::count_if(seconds, usable));
  if (used == 0) return;
  if (steps_ == 0) start(seconds, amounts);
  pieces_ = static_cast<double>(pieces);
  const std::vector<double> speed = speeds();
  const double deviation = noise();

  // Residuals against the model as it was before this step.
  std::vector<double> took(speed_.size(), 0.0), expected(speed_.size(), 0.0);
  double residual_sum = 0;

  const double keep = settings_.forgetting;
  for (double& value : information_) value *= keep;
  for (double& value : target_) value *= keep;
  count_ *= keep;
  residual_squares_ *= keep;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (!usable(seconds[i])) continue;
    const size_t replica = i / pieces;
    const std::vector<double> u = regressors(amounts.subspan(i * width, width), micro_batches);
    const double predicted = predict(u);
    double measured = seconds[i] * speed[replica];  // as a replica of speed 1 would have taken
    if (predicted > 0) {
      took[replica] += seconds[i];
      expected[replica] += predicted;
      double residual = measured / predicted - 1;
      residual_sum += residual;
      if (steps_ > kSpeedWarmUp) {
        residual = std::clamp(residual, -kOutlier * deviation, kOutlier * deviation);
        measured = predicted * (1 + residual);
      }
      residual_squares_ += residual * residual;
    }
    const double weight = 1 / (typical_seconds_ * typical_seconds_);
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) information_[a * n + b] += weight * u[a] * u[b];
      target_[a] += weight * u[a] * measured;
    }
    count_ += 1;
  }
  slowest_sum_ = keep * slowest_sum_ + *std::ranges::max_element(took);
  step_weight_ = keep * step_weight_ + 1;
  ++steps_;
  ++since_drift_;
  watch_for_drift(residual_sum / static_cast<double>(used), used);
  std::vector<double> ratios(speed_.size(), 0.0);
  for (size_t r = 0; r < ratios.size(); ++r)
    if (took[r] > 0) ratios[r] = expected[r] / took[r];
  watch_own_noise(ratios, speed);
  update_speeds(ratios);
  fit();
}

// What slows all replicas in a step alike makes none of them wait.
void CostModel::watch_own_noise(std::span<const double> ratios, std::span<const double> speed) {
  if (since_drift_ <= kSpeedWarmUp) return;
  double sum = 0, n = 0, squares = 0;
  for (size_t r = 0; r < ratios.size(); ++r)
    if (ratios[r] > 0) sum += speed[r] / ratios[r], ++n;
  if (n == 0) return;
  const double mean = n > 1 ? sum / n : 1;
  const double bound = kOutlier * noise();
  for (size_t r = 0; r < ratios.size(); ++r)
    if (ratios[r] > 0) squares += std::pow(std::clamp(speed[r] / ratios[r] / mean - 1, -bound, bound), 2);
  own_squares_ = settings_.forgetting * own_squares_ + (n > 1 ? squares * n / (n - 1) : squares);
  own_count_ = settings_.forgetting * own_count_ + n;
}

void CostModel::fit() {
  const size_t n = theta_.size();
  std::vector<double> a = information_, b = target_;
  for (size_t i = 0; i < n; ++i) {
    const double size = i + 1 < n ? std::max(prior_[i], 1e-3 * typical_seconds_) : typical_seconds_;
    a[i * n + i] += kPriorWeight / (size * size);
    b[i] += kPriorWeight / (size * size) * prior_[i];
  }
  theta_ = solve_non_negative(a, b);
}

double CostModel::noise() const {
  // At least what rounding and clocks make of it; a tenth before there is anything to go by.
  if (count_ < 2 || steps_ < 2) return 0.1;
  return std::max(1e-3, std::sqrt(residual_squares_ / count_));
}

double CostModel::own_noise() const { return own_count_ > 0 ? std::sqrt(own_squares_ / own_count_) : noise(); }

void CostModel::watch_for_drift(double residual, size_t n) {
  const double floor = noise() / std::sqrt(static_cast<double>(n));
  if (since_drift_ <= kDriftWarmUp) {
    drift_mean_square_ = since_drift_ <= 2 ? floor * floor : 0.8 * drift_mean_square_ + 0.2 * residual * residual;
    drift_up_ = drift_down_ = 0;
    return;
  }
  const double deviation = std::max(floor, std::sqrt(drift_mean_square_));
  const double standard = residual / deviation;
  drift_up_ = std::max(0.0, drift_up_ + standard - kDriftSlack);
  drift_down_ = std::max(0.0, drift_down_ - standard - kDriftSlack);
  // What looks like drift must not widen the scale that it is measured by.
  const double bounded = std::clamp(residual, -2 * deviation, 2 * deviation);
  drift_mean_square_ = 0.98 * drift_mean_square_ + 0.02 * bounded * bounded;
  if (std::max(drift_up_, drift_down_) < kDriftThreshold) return;
  ++drifts_;
  since_drift_ = 0;
  drift_up_ = drift_down_ = 0;
  for (double& value : information_) value *= kDriftForgetting;
  for (double& value : target_) value *= kDriftForgetting;
  residual_squares_ *= kDriftForgetting;
  slowest_sum_ *= kDriftForgetting;
  step_weight_ *= kDriftForgetting;
  count_ *= kDriftForgetting;
}

void CostModel::update_speeds(std::span<const double> ratios) {
  if (steps_ <= kSpeedWarmUp) return;
  std::vector<double> known;
  for (const double ratio : ratios)
    if (ratio > 0) known.push_back(ratio);
  if (known.size() < 2) return;
  const double middle = median(known);
  const double rate = steps_ == kSpeedWarmUp + 1 ? 1 : settings_.speed_rate;
  for (size_t r = 0; r < ratios.size(); ++r)
    if (ratios[r] > 0) speed_[r] += rate * (ratios[r] / middle - speed_[r]);
}

std::vector<double> CostModel::speeds() const {
  const double error = own_noise() * std::sqrt(settings_.speed_rate / (2 - settings_.speed_rate));
  std::vector<double> speeds = speed_;
  for (double& speed : speeds)
    if (std::abs(speed - 1) <= std::max(kLeastDeviation, kSpeedErrors * error)) speed = 1;
  return speeds;
}

std::vector<double> CostModel::coefficients() const {
  std::vector<double> coefficients;
  for (size_t t = 0; t < terms_.size(); ++t)
    coefficients.push_back(steps_ == 0 ? terms_[t].prior : theta_[t] / scale_[t]);
  return coefficients;
}

double CostModel::fixed_seconds() const { return steps_ == 0 ? 0 : theta_.back(); }

double CostModel::standard_error(std::span<const double> amounts, double micro_batches) const {
  if (steps_ == 0) return std::numeric_limits<double>::infinity();
  const size_t n = theta_.size();
  std::vector<double> a = information_;
  std::vector<bool> free(n);
  for (size_t i = 0; i < n; ++i) {
    const double size = i + 1 < n ? std::max(prior_[i], 1e-3 * typical_seconds_) : typical_seconds_;
    a[i * n + i] += kPriorWeight / (size * size);
    free[i] = theta_[i] > 0;
  }
  return noise() * std::sqrt(std::max(0.0, inverse_quadratic(a, regressors(amounts, micro_batches), free)));
}

double CostModel::units_per_second() const {
  double units = 0, seconds = 0;
  for (size_t t = 0; t < terms_.size() && steps_ > 0; ++t) {
    units += terms_[t].prior * scale_[t];
    seconds += theta_[t];
  }
  return seconds > 0 ? units / seconds : 0;
}

std::string CostModel::fit_json(int ranks) const {
  nlohmann::ordered_json terms = nlohmann::ordered_json::array();
  for (size_t t = 0; t < terms_.size() && steps_ > 0; ++t) {
    std::vector<double> one(terms_.size(), 0.0);
    one[t] = scale_[t];
    terms.push_back({{"name", terms_[t].name},
                     {"seconds_of_a_step", pieces_ * theta_[t]},
                     {"standard_error", pieces_ * standard_error(one, 0)},
                     {"units_of_a_step", pieces_ * scale_[t]}});
  }
  return nlohmann::ordered_json{{"ranks", ranks},     {"steps", steps_},     {"noise", noise()},
                                {"drifts", drifts_},  {"ignored", ignored_}, {"fixed_seconds", fixed_seconds()},
                                {"speeds", speeds()}, {"terms", terms}}
      .dump();
}

std::string CostModel::describe() const {
  if (steps_ == 0) return "cost model: nothing observed yet";
  std::string text = fmt::format("cost model after {} steps, noise {:.1f}%:", steps_, 100 * noise());
  std::vector<double> one(terms_.size(), 0.0);
  for (size_t t = 0; t < terms_.size(); ++t) {
    one.assign(terms_.size(), 0.0);
    one[t] = scale_[t];
    text +=
        fmt::format(" {} {:.4g} s +- {:.2g},", terms_[t].name, pieces_ * theta_[t], pieces_ * standard_error(one, 0));
  }
  one.assign(terms_.size(), 0.0);
  text += fmt::format(" fixed {:.4g} s +- {:.2g} a micro-batch", theta_.back(), standard_error(one, 1));
  const std::vector<double> speed = speeds();
  for (size_t r = 0; r < speed.size(); ++r)
    if (speed[r] != 1) text += fmt::format(", replica {} at speed {:.2f}", r, speed[r]);
  return text;
}

std::string CostModel::state() const {
  std::vector<std::string> names;
  for (const CostTerm& term : terms_) names.push_back(term.name);
  const nlohmann::json json = {{"terms", names},
                               {"scale", scale_},
                               {"prior", prior_},
                               {"theta", theta_},
                               {"information", information_},
                               {"target", target_},
                               {"typical_seconds", typical_seconds_},
                               {"count", count_},
                               {"residual_squares", residual_squares_},
                               {"own", {own_count_, own_squares_, pieces_}},
                               {"slowest", {slowest_sum_, step_weight_}},
                               {"speed", speed_},
                               {"drift", {drift_mean_square_, drift_up_, drift_down_}},
                               {"steps", {steps_, since_drift_, drifts_, ignored_}}};
  return json.dump();  // doubles come back as they were
}

void CostModel::restore(const std::string& state) {
  try {
    const nlohmann::json json = nlohmann::json::parse(state);
    std::vector<std::string> names;
    for (const CostTerm& term : terms_) names.push_back(term.name);
    if (json.at("terms").get<std::vector<std::string>>() != names)
      fail(Exit::kBadData, "balance: the saved cost model has the terms {}, this model has {}; it cannot be restored",
           json.at("terms").dump(), nlohmann::json(names).dump());
    json.at("scale").get_to(scale_);
    json.at("prior").get_to(prior_);
    json.at("theta").get_to(theta_);
    json.at("information").get_to(information_);
    json.at("target").get_to(target_);
    json.at("typical_seconds").get_to(typical_seconds_);
    json.at("count").get_to(count_);
    json.at("residual_squares").get_to(residual_squares_);
    json.at("own").at(0).get_to(own_count_);
    json.at("own").at(1).get_to(own_squares_);
    json.at("own").at(2).get_to(pieces_);
    json.at("slowest").at(0).get_to(slowest_sum_);
    json.at("slowest").at(1).get_to(step_weight_);
    const auto speed = json.at("speed").get<std::vector<double>>();
    if (speed.size() == speed_.size())
      speed_ = speed;
    else
      std::ranges::fill(speed_, 1.0);
    json.at("drift").at(0).get_to(drift_mean_square_);
    json.at("drift").at(1).get_to(drift_up_);
    json.at("drift").at(2).get_to(drift_down_);
    json.at("steps").at(0).get_to(steps_);
    json.at("steps").at(1).get_to(since_drift_);
    json.at("steps").at(2).get_to(drifts_);
    json.at("steps").at(3).get_to(ignored_);
  } catch (const nlohmann::json::exception& broken) {
    fail(Exit::kBadData, "balance: the saved cost model cannot be read: {}", broken.what());
  }
}

}  // namespace lf
