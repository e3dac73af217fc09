// Loading: what a rank trains on in one step, made ahead of it on other threads.
//
//   order -> features (gathered once per window) -> packing -> plan -> decode and collate own micro-batches -> StepWork
//
// Every rank knows the whole plan and loads exactly what it was given; samples travel between ranks only where they
// come from streams (batch_source.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "balance/cost_model.h"
#include "balance/policy.h"
#include "config/job.h"
#include "core/exchange.h"
#include "data/dataset.h"
#include "data/media/held_media.h"
#include "data/stream/stream_set.h"
#include "lf/plugin_api/model.h"

namespace lf {

struct BalanceMemory;

// Where the run is in the data: all of it. Equal on every rank; saved in checkpoints.
struct DataPosition {
  uint64_t samples_seen = 0;  // index into the endless global order (epoch = samples_seen / data set size)
  uint64_t bad_samples = 0, long_samples = 0, cut_samples = 0;
};

// Columns of one micro-batch as lf_model_api.collate made them; released on destruction. Move only.
struct MicroBatch {
  MicroBatch() = default;
  MicroBatch(MicroBatch&&) noexcept;
  MicroBatch& operator=(MicroBatch&&) noexcept;
  ~MicroBatch();

  std::vector<lf_named_tensor> columns;
  uint32_t n_samples = 0;
  std::vector<uint32_t> atoms;                // per component; 0: the component does not run
  std::vector<std::vector<double>> features;  // per component: atoms x n_features, row-major
  int64_t rows = 0;                           // of the last component: tokens
  double loss_weight = 0;                     // supervised tokens
  std::vector<uint64_t> sample_ids;
};

// How a step was dealt. Imbalance: slowest rank / mean - 1 of compute seconds, as the costs learned so far have it.
struct StepBalance {
  bool planned = false;                             // else samples are trained where they arrived
  double arrival_imbalance = 0;                     // were nothing moved
  double predicted_imbalance = 0;                   // as dealt
  double bound_gap = 0;                             // how far above what no plan can beat
  double saving_seconds = 0, saving_error = 0;      // expected, and its standard error; 0 before any observation
  double plan_seconds = 0;                          // on the loader's thread
  std::string note;                                 // what people may want to know: costs, a changed machine
  uint64_t plan_hash = 0;                           // equal on every rank
  std::shared_ptr<const BalanceMemory> after_this;  // null: nothing is balanced
};

struct StepWork {
  int64_t step = 0;
  std::vector<MicroBatch> micro_batches;  // of this rank, in order
  double global_loss_weight = 0;          // of all ranks and micro-batches: what the loss sum is divided by
  int64_t global_rows = 0, global_samples = 0;
  std::vector<double> global_features;  // of the last component, summed likewise; empty where no sample is left
  DataPosition after;                   // the position once this step is committed
  bool last = false;                    // nothing follows: last_step or max_samples is reached
  bool stopped = false;                 // no step: some rank was asked to stop before it was gathered; nothing follows
  bool none_left = false;               // no step: the streams end where the run goes on; nothing follows
  double wait_seconds = 0;              // how long next() had to wait: exposed loading and planning time
  StepBalance balance;
};

// Everything is borrowed and outlives the loader.
struct LoaderInputs {
  const JobConfig* config = nullptr;
  const Dataset* dataset = nullptr;    // or, where data is streamed:
  const StreamSet* streams = nullptr;  // with
  HeldMedia* held_media = nullptr;     // of the reader that the family is lent
  const lf_model_api* api = nullptr;   // the family; called on loader threads
  lf_model model = nullptr;
  const Policy* policy = nullptr;         // null: samples are dealt in arrival order
  std::string balance_state;              // of Loader::balance_state; empty: no costs are known yet
  Exchange* exchange = nullptr;           // own group of the loader; used on its thread only
  int64_t first_step = 0, last_step = 0;  // [first, last); with max_samples alone: INT64_MAX
  uint64_t max_samples = 0;  // the run ends with the step that consumes this many of the global order; 0: none
  DataPosition position;
  std::function<bool()> stop_requested;  // ends loading within a few samples, on all ranks alike; empty: never
  std::filesystem::path output;          // run directory, where rank 0 lists skipped samples; empty: no list
};

// Threads run from construction to destruction, which may come at any moment: it aborts the exchange and waits for
// samples that are being decoded. next() is called by one thread; it returns steps in order and throws what a loader
// thread threw, on every rank at the same step. Too many bad samples (data.max_bad, packing.h) are lf::Error(kBadData).
//
// data.prefetch_steps steps are loaded at a time, and one more waits for next(). Rank 0 lists bad and too long samples
// in skipped.jsonl of the run directory and warns of the first ten.
class Loader {
 public:
  explicit Loader(LoaderInputs inputs);
  ~Loader();
  StepWork next();

  // Compute seconds of every rank in a step that next() gave, before any wait, or of every micro-batch of every rank,
  // [ranks, micro-batches]: what costs are learned from. Every rank tells the same numbers, before it asks for the next
  // step. A time that is no time (NaN, 0) is left out.
  void observe(int64_t step, std::vector<double> seconds);
  // Costs and plans under way, for a run that goes on after the last step that next() gave and that was observed.
  std::string balance_state() const;
  // The costs learned so far; none where nothing is balanced.
  std::optional<CostModel> costs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lf
