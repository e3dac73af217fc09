#include "load/packing.h"

#include <algorithm>

namespace lf {
namespace {

constexpr uint64_t kAlwaysAllowedBad = 10;

Error nothing_usable(const PackedStep& step) {
  uint64_t bad = 0;
  for (const JudgedSample& sample : step.skipped) bad += sample.verdict == Verdict::kBad;
  return {
      Exit::kBadData,
      fmt::format("data: none of {} samples in a row is usable: {} bad, {} longer than data.max_tokens; the last: {}",
                  step.skipped.size(), bad, step.skipped.size() - bad,
                  step.skipped.empty() ? "none seen" : step.skipped.back().reason)};
}

// Passes over the stream's next sample, and sees whether the step still makes sense.
void skip(SampleStream& stream, const PackRules& rules, DataPosition before, uint64_t in_a_row, PackedStep& step) {
  step.skipped.push_back(stream.pop());
  const bool bad = step.skipped.back().verdict == Verdict::kBad;
  ++step.after.samples_seen;
  ++(bad ? step.after.bad_samples : step.after.long_samples);
  // Of this step alone: what earlier steps found when decoding may not be known yet.
  const uint64_t here = step.after.bad_samples - before.bad_samples;
  if (bad && too_many_bad(here, step.after.samples_seen, rules.max_bad))
    step.stop = too_many_bad_error(here, step.after.samples_seen, rules.max_bad, step.skipped.back().reason);
  else if (in_a_row >= rules.epoch)
    step.stop = nothing_usable(step);
}

// `ends[b]`: one past the last sample of micro-batch b.
void halve_fullest(std::vector<size_t>& ends, size_t wanted) {
  while (ends.size() < wanted) {
    size_t fullest = 0, most = 0;
    for (size_t b = 0; b < ends.size(); ++b) {
      const size_t count = ends[b] - (b > 0 ? ends[b - 1] : 0);
      if (count > most) fullest = b, most = count;
    }
    if (most < 2) return;
    ends.insert(ends.begin() + static_cast<std::ptrdiff_t>(fullest), ends[fullest] - most / 2);
  }
}

}  // namespace

PackedStep pack_step(SampleStream& stream, const PackRules& rules, DataPosition position) {
  PackedStep step;
  step.after = position;
  std::vector<size_t> ends;
  int64_t rows = 0;
  uint64_t unusable = 0;
  const JudgedSample* next = nullptr;
  while ((next = stream.peek()) != nullptr) {
    if (!next->usable()) {
      skip(stream, rules, position, ++unusable, step);
      if (step.stop) return step;
      continue;
    }
    unusable = 0;
    const int64_t more = next->features.rows();
    if (ends.empty() || !rules.packing || rows + more > rules.max_rows) {
      if (ends.size() == rules.micro_batches) break;
      ends.push_back(step.samples.size());
      rows = 0;
    }
    rows += more;
    ++step.after.samples_seen;
    step.after.cut_samples += next->verdict == Verdict::kCut;
    step.samples.push_back(stream.pop());
    ends.back() = step.samples.size();
  }
  step.stopped = next == nullptr && stream.stopped();
  if (step.stopped) return step;
  step.last = next == nullptr;
  step.none_left = step.last && step.samples.empty() && step.skipped.empty() && position.samples_seen > 0;
  if (step.none_left) return step;
  if (step.samples.empty()) {
    step.stop = nothing_usable(step);
    return step;
  }
  halve_fullest(ends, rules.micro_batches);
  for (size_t i = 0, b = 0; i < step.samples.size(); ++i) {
    if (i == ends[b]) ++b;
    step.micro_batch.push_back(static_cast<uint32_t>(b));
  }
  return step;
}

double most_allowed_bad(double seen, double max_bad) {
  return max_bad > 0 ? std::max(static_cast<double>(kAlwaysAllowedBad), max_bad * seen) : 0;
}

bool too_many_bad(uint64_t bad, uint64_t seen, double max_bad) {
  return static_cast<double>(bad) > most_allowed_bad(static_cast<double>(seen), max_bad);
}

Error too_many_bad_error(uint64_t bad, uint64_t seen, double max_bad, const std::string& latest_reason) {
  return {Exit::kBadData,
          fmt::format("data: {} of {} samples are bad, more than data.max_bad = {} allows; the latest: {}; mend them "
                      "(skipped.jsonl lists all) or raise data.max_bad",
                      bad, seen, max_bad, latest_reason)};
}

}  // namespace lf
