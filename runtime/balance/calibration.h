// Seconds of samples by the costs that training fitted (profile.json), term by term, instead of one rate for all
// operations: logits, attention and linear maps reach very different shares of a machine's peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "balance/scaling.h"
#include "balance/workload.h"

namespace lf {

// Sizes alone: operations of each part of a sample (WorkParts, forward and backward) times the seconds that the term
// of the same meaning takes. Terms: "*.rows", "*.frame_pairs" (or "*.pairs") and "*.window_pairs" of an encoder;
// "language.rows", ".pairs" and ".loss_weight" (or ".supervised"). Sets `measured` of every sample. Throws kBadData
// naming a term of another kind, or one that the samples need and the profile lacks.
void calibrate(std::vector<WorkSample>& samples, const WorkCost& cost, const FittedCosts& fitted);

// A job's samples, as the job's model states them.
struct JobSamples {
  std::vector<WorkSample> samples;  // text_tokens: rows of the decoder, as cut
  std::vector<std::string> terms;   // names, those of the last component at the end
  size_t last_terms = 0;            // how many those are
  std::vector<double> operations;   // [samples, terms], forward and backward
  int64_t max_tokens = 0;
  int32_t ranks = 1, micro_batches = 1;
  bool packing = true;
  double gradient_bytes = 0;
  std::string model, note;
  std::string policy, policy_options;  // the job's own; JSON
};

// Sets `measured` of every sample of the job, by the fitted costs or, where there are none, by one rate. Throws
// kBadData where the profile is of another model: a term of the job is not in it.
void calibrate(JobSamples& job, const Profile& profile);

}  // namespace lf
