// A small job for the loader's tests: a data set written from one text per sample, and ranks run as threads.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "fake_model.h"
#include "load/load.h"
#include "thread_exchange.h"

namespace lf {

// What is kept of a StepWork once its columns are released.
struct StepRecord {
  int64_t step = 0;
  std::vector<std::vector<uint64_t>> samples;  // per micro-batch of this rank: ids as the columns have them
  std::vector<double> loss_weight;             // per micro-batch
  std::vector<int64_t> rows;
  std::vector<uint32_t> images;  // per micro-batch
  double global_loss_weight = 0;
  int64_t global_rows = 0, global_samples = 0;
  DataPosition after;
  bool last = false;
  bool planned = false;
  uint64_t plan_hash = 0;
};

class LoadJob {
 public:
  explicit LoadJob(const std::vector<std::string>& texts);
  ~LoadJob();
  LoadJob(const LoadJob&) = delete;
  LoadJob& operator=(const LoadJob&) = delete;

  LoaderInputs inputs(Exchange& exchange);

  // [rank][step]: runs `ranks` loaders to last_step or the end. An error of next() ends a rank's list; its text, with
  // the exit code before it, goes to errors[rank].
  std::vector<std::vector<StepRecord>> run(int ranks, int64_t micro_batches);

  std::filesystem::path folder;
  JobConfig config;
  FakeModel model;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<StreamSet> streams;  // instead of the data set
  const Policy* policy = nullptr;
  std::function<double(const StepRecord& step, int rank)> seconds_of;  // compute time of a rank; none: it tells none
  std::function<void(LoaderInputs& inputs, int rank)> adjust;          // what is different on a rank
  std::atomic<int64_t> gathers = 0;                                    // of rank 0's loader, in all runs
  std::string balance_state;  // as rank 0 had it last; used from first_step > 0 on
  DataPosition position;
  int64_t first_step = 0, last_step = 0;
  uint64_t max_samples = 0;
  std::vector<std::string> errors;

 private:
  std::vector<std::unique_ptr<HeldMedia>> held_;  // of each rank
};

// The default policy, of its plugin.
const Policy& minimax();

StepRecord record(const StepWork& work);

// The samples of every step in arrival order: micro-batches of rank 0, then of rank 1, ...; [step][micro-batch].
std::vector<std::vector<std::vector<uint64_t>>> global_batches(const std::vector<std::vector<StepRecord>>& ranks);

inline bool operator==(const DataPosition& a, const DataPosition& b) {
  return a.samples_seen == b.samples_seen && a.bad_samples == b.bad_samples && a.long_samples == b.long_samples &&
         a.cut_samples == b.cut_samples;
}

}  // namespace lf
