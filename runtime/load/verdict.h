// What is known of a sample before it is loaded, the same on every rank.
#pragma once

#include <cstdint>
#include <string>

#include "config/job.h"
#include "load/model_calls.h"
#include "load/wire.h"

namespace lf {

enum class Verdict : uint8_t { kGood, kCut, kBad, kTooLong };

struct JudgedSample {
  uint64_t position = 0;  // in the run's global order
  uint64_t index = 0;     // in the data set
  Verdict verdict = Verdict::kGood;
  std::string reason;     // of a bad or too long one: "file:line: field: reason"
  AtomFeatures features;  // of a good or cut one

  bool usable() const { return verdict == Verdict::kGood || verdict == Verdict::kCut; }
};

// Asks the family for the features of a sample that was read; as below. Position and index are left 0.
JudgedSample judge(const Sample& sample, const ModelCalls& model, const DataSection& options);

// Reads the sample and asks the family for its features; one longer than data.max_tokens is cut or too long, as
// data.too_long says. Throws only what is not the sample's fault.
JudgedSample judge(const Dataset& dataset, const ModelCalls& model, const DataSection& options, uint64_t position,
                   uint64_t index);

void put(WireWriter& out, const JudgedSample& sample);
JudgedSample get_judged(WireReader& in, size_t n_components);

}  // namespace lf
