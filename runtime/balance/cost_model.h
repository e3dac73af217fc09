// What work costs on this machine, learned from the step times of every rank while training.
//
// Model: seconds of a replica in a step = (sum over terms of coefficient * amount + fixed * micro-batches) / speed.
// Amounts are what the model plugin can say of a sample (floating-point operations of the linear layers, of attention,
// by component); coefficients start from the plugin's FLOPs and are fitted by least squares with exponential forgetting
// (recursive least squares in information form; Haykin, Adaptive Filter Theory), never below zero (Lawson, Hanson,
// Solving Least Squares Problems, 1974, chapter 23). The same observations in the same order give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lf {

struct CostTerm {
  std::string name;  // "language.attention"
  double prior = 1;  // cost of one unit, relative to that of other terms: 1 where amounts are FLOPs
};

struct CostModelSettings {
  double forgetting = 0.98;  // weight of the last step against this one
  double speed_rate = 0.1;   // share of a step in a replica's speed
};

class CostModel {
 public:
  CostModel(std::vector<CostTerm> terms, int32_t replicas, CostModelSettings settings = {});

  size_t n_terms() const { return terms_.size(); }
  int32_t replicas() const { return static_cast<int32_t>(speed_.size()); }

  // One step in pieces, as many of each replica: seconds[i] of compute, measured before any wait, and
  // amounts[i * n_terms + t] of what was done in them, in `micro_batches` micro-batches each; pieces of a replica stand
  // together. Single micro-batches differ more than whole steps, and so tell more. A time that is not finite and above
  // zero is left out, and so is a piece in which there was nothing to do.
  void observe(std::span<const double> seconds, std::span<const double> amounts, int32_t micro_batches);

  // Seconds at speed 1 of one unit of each term; before any observation, the priors as they are.
  std::vector<double> coefficients() const;
  double fixed_seconds() const;  // per micro-batch

  // Standard error of a prediction for these amounts and micro-batches (differences of two such are fine: then that of
  // the difference). Infinite before any observation.
  double standard_error(std::span<const double> amounts, double micro_batches) const;

  // 1 is the median replica. Exactly 1 where a deviation is no more than noise.
  std::vector<double> speeds() const;
  double noise() const;      // standard deviation of an observed time, relative, from what its work explains
  double own_noise() const;  // of a replica's step, from what its work and the step as a whole explain

  // Steps observed so far, and those of them at which the machine was found to have changed.
  int64_t steps() const { return steps_; }
  int64_t drifts() const { return drifts_; }
  int64_t ignored() const { return ignored_; }  // times left out

  // Amounts of all terms, at their priors, done in a second of a typical step, fixed seconds left out: where amounts
  // are FLOPs, how fast the machine is. 0 before any observation.
  double units_per_second() const;

  // Of the slowest replica in a step, as observed; the mean of steps weighted as they are in the fit. 0 before any.
  double slowest_seconds() const { return step_weight_ > 0 ? slowest_sum_ / step_weight_ : 0; }

  // For people: every coefficient as its share of a typical step, with its error.
  std::string describe() const;
  std::string fit_json(int ranks) const;  // the same as JSON

  // JSON; restore(state()) of an equal model goes on bit for bit. With another number of replicas speeds start anew.
  // Throws lf::Error(kBadData) for a state of other terms.
  std::string state() const;
  void restore(const std::string& state);

 private:
  std::vector<double> regressors(std::span<const double> amounts, double micro_batches) const;
  double predict(const std::vector<double>& regressors) const;
  void start(std::span<const double> seconds, std::span<const double> amounts);
  void watch_for_drift(double residual, size_t n);
  void update_speeds(std::span<const double> ratios);  // by replica: predicted / measured; 0: not known
  void watch_own_noise(std::span<const double> ratios, std::span<const double> speed);
  void fit();

  std::vector<CostTerm> terms_;
  CostModelSettings settings_;
  std::vector<double>
      scale_;  // typical amount of each term in a piece, and 1 micro-batch: what regressors are relative to
  std::vector<double> prior_;                 // of theta
  std::vector<double> theta_;                 // seconds of a typical piece by term, and fixed seconds of a micro-batch
  std::vector<double> information_, target_;  // weighted sums of regressor products, and of regressor * seconds
  double typical_seconds_ = 0, count_ = 0, residual_squares_ = 0;
  double own_count_ = 0, own_squares_ = 0;  // of replicas' steps against the step's mean
  double slowest_sum_ = 0, step_weight_ = 0;
  double pieces_ = 1;          // of a replica in the last step
  std::vector<double> speed_;  // running ratio of predicted to measured
  double drift_mean_square_ = 0, drift_up_ = 0, drift_down_ = 0;
  int64_t steps_ = 0, since_drift_ = 0, drifts_ = 0, ignored_ = 0;
};

}  // namespace lf
