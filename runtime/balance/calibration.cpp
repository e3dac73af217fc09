#include "balance/calibration.h"

#include <map>
#include <string_view>

#include "core/error.h"

namespace lf {
namespace {

constexpr double kTraining = 3;  // forward, and backward which is twice that

double WorkParts::*part_of(std::string_view term) {
  const size_t dot = term.find('.');
  const std::string_view component = term.substr(0, dot), feature = dot == term.npos ? "" : term.substr(dot + 1);
  if (component == "language") {
    if (feature == "rows") return &WorkParts::decoder_rows;
    if (feature == "pairs") return &WorkParts::pairs;
    if (feature == "loss_weight" || feature == "supervised") return &WorkParts::head;
    return nullptr;
  }
  if (feature == "rows") return &WorkParts::encoder_rows;
  if (feature == "frame_pairs" || feature == "pairs") return &WorkParts::frame_pairs;
  if (feature == "window_pairs") return &WorkParts::window_pairs;
  return nullptr;
}

constexpr std::pair<double WorkParts::*, const char*> kParts[] = {
    {&WorkParts::encoder_rows, "the encoder's rows"},   {&WorkParts::frame_pairs, "attention in whole pictures"},
    {&WorkParts::window_pairs, "attention in windows"}, {&WorkParts::decoder_rows, "the decoder's rows"},
    {&WorkParts::pairs, "the decoder's attention"},     {&WorkParts::head, "logits"},
};

struct Rate {
  double WorkParts::*part;
  bool decoder;
  double seconds;  // of an operation
};

}  // namespace

void calibrate(std::vector<WorkSample>& samples, const WorkCost& cost, const FittedCosts& fitted) {
  std::vector<Rate> rates;
  for (const auto& [term, seconds] : fitted.seconds_per_operation) {
    double WorkParts::*const part = part_of(term);
    if (part == nullptr)
      fail(Exit::kBadData,
           "--profile: fit.terms: {} is nothing that text tokens, patches and frames could tell; give the job file "
           "instead of samples, or --flops to leave the fitted costs out",
           term);
    rates.push_back({part, term.starts_with("language."), seconds});
  }
  for (const auto& [part, name] : kParts) {
    const bool known = std::ranges::any_of(rates, [part](const Rate& rate) { return rate.part == part; });
    if (known) continue;
    for (const WorkSample& sample : samples)
      if (cost.parts(sample).*part > 0)
        fail(Exit::kBadData,
             "--profile: fit.terms: expected a term for {}, which sample {} needs; give a profile of a model that has "
             "it, or --flops to leave the fitted costs out",
             name, sample.id);
  }
  for (WorkSample& sample : samples) {
    sample.measured.reset();
    const WorkParts parts = cost.parts(sample);
    MeasuredWork work{.rows = cost.tokens(sample)};
    for (const Rate& rate : rates)
      (rate.decoder ? work.decoder_seconds : work.encoder_seconds) += kTraining * parts.*rate.part * rate.seconds;
    sample.measured = work;
  }
}

void calibrate(JobSamples& job, const Profile& profile) {
  std::vector<double> rates(job.terms.size(), 1 / profile.flops_per_second);
  for (size_t t = 0; t < rates.size() && profile.fitted; ++t) {
    const auto found = profile.fitted->seconds_per_operation.find(job.terms[t]);
    if (found == profile.fitted->seconds_per_operation.end()) {
      // A profile has no rate for a term that its run had no work for; one that is needed here must be there.
      for (size_t i = 0; i < job.samples.size(); ++i)
        if (job.operations[i * rates.size() + t] > 0)
          fail(Exit::kBadData,
               "--profile: fit.terms: expected {}, a cost of this job's model; give the profile of a run of the same "
               "model, or --flops to leave the fitted costs out",
               job.terms[t]);
    } else {
      rates[t] = found->second;
    }
  }
  const size_t encoder_terms = job.terms.size() - job.last_terms;
  for (size_t i = 0; i < job.samples.size(); ++i) {
    MeasuredWork work{.rows = job.samples[i].text_tokens};
    for (size_t t = 0; t < rates.size(); ++t)
      (t < encoder_terms ? work.encoder_seconds : work.decoder_seconds) +=
          job.operations[i * rates.size() + t] * rates[t];
    job.samples[i].measured = work;
  }
}

}  // namespace lf
