// The learning rate: a pure function of the step.
#pragma once

#include <cstdint>
#include <string>

#include "config/job.h"

namespace lf {

// Steps of warm-up: warmup_steps, or where that is 0 the fraction of all steps, rounded up.
int64_t warmup_steps(const ScheduleSection& schedule, int64_t total_steps);

// Of the optimizer step `step` (0 is the first) out of `total_steps`, as get_scheduler of Hugging Face transformers
// gives it for the same settings. With W warm-up steps, f = final_fraction, p = (step - W) / (total - W):
//
//   warm-up    peak * step / W                          (wsd: peak * (f + (1 - f) * step / W)), so the first step is
//   not zero
//                                                       only without warm-up
//   constant   peak
//   linear     peak * (f + (1 - f) * (1 - p))           get_linear_schedule_with_warmup for f = 0, else polynomial,
//   power 1 cosine     peak * (f + (1 - f) * (1 + cos(pi p)) / 2)   get_cosine_with_min_lr_schedule_with_warmup wsd
//   peak until the last D = round(decay_fraction * total) steps, then cosine from peak to f * peak over D steps
//              (get_wsd_schedule, its default decay)
double learning_rate(const ScheduleSection& schedule, double peak, int64_t total_steps, int64_t step);

// For who resumes after `step` steps of a run that was to have `was` and now has `is`: where the schedule ends, and
// the rate of the next step beside the one that was due. Empty where the rates still to come are the same.
std::string moved_schedule(const ScheduleSection& schedule, double peak, int64_t was, int64_t is, int64_t step);

}  // namespace lf
