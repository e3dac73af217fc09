// One run on one rank: everything set up in the order of its dependences, then step after step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/rendezvous.h"
#include "core/error.h"
#include "data/dataset.h"
#include "load/load.h"
#include "model/runner.h"
#include "optimizer/adamw.h"
#include "reduction/reduction.h"
#include "train/gradient_copies.h"
#include "train/gradient_transport.h"
#include "train/model_export.h"
#include "train/optimizer_memory.h"
#include "train/run_directory.h"
#include "train/saving.h"
#include "train/session.h"
#include "train/step_report.h"
#include "train/train.h"
#include "train/weights.h"

namespace lf {

class Trainer {
 public:
  // Both outlive the trainer.
  Trainer(const TrainRequest& request, Rendezvous& rendezvous);
  int run();  // once; see run_training

 private:
  std::unique_ptr<Reducer> make_gradient_reducer();
  void begin();
  void count_steps(LoaderInputs& inputs);
  void announce() const;
  std::string go_on() const;  // what goes on with this run: "the same command", or where --fresh began it the other one
  void warn_of_step_size() const;
  int run_steps();
  int run_steps_or_name_the_cause();
  TrainedStep train(StepWork work);
  bool save_due() const;
  void save();
  std::optional<Error> failure_of_saving();
  std::string way_on() const;
  void finish_saving();
  void tell_lost_samples() const;
  void close_loader(bool done);
  void record_operators_on_cpu();
  void finish();
  [[noreturn]] void export_models_instead(const Error& unsaved);
  TrainedRun trained_run();
  void start_average();
  TrainedState trained_state();
  const Dataset* dataset() const { return dataset_ ? &*dataset_ : nullptr; }  // null: streamed

  bool leads() const { return request_.rank == 0; }

  const TrainRequest& request_;
  const JobConfig& config_;
  Rendezvous& rendezvous_;
  std::unique_ptr<Group> control_, gradients_, loading_;
  RunDirectory directory_;
  CallWatch watch_;
  Session session_;
  std::optional<Dataset> dataset_;  // one of the two
  std::optional<StreamSet> streams_;
  Freezing freezing_;
  GradientTransport transport_;
  OptimizerMemory optimizer_memory_;
  ParameterStore store_;
  WeightSource source_;
  Runner runner_;
  AdamW optimizer_;
  std::optional<WeightAverage> average_;  // rank 0, where the job wants one
  PosixFileSystem files_;
  LocalExchange alone_;  // data parallel: rank 0 holds, and writes, all of the state
  CheckpointWriter writer_;
  std::unique_ptr<Reducer> reducer_;
  std::function<CopiedBytes()> copied_;   // of the reducer, where gradients come from a device
  std::unique_ptr<Loader> loader_;        // none: nothing is left to do
  std::optional<StepReporter> reporter_;  // rank 0

  int64_t total_steps_ = 0;
  int64_t steps_before_ = 0;  // for which the run that is resumed was laid out; 0: none, or not known
  int64_t finished_ = 0, updates_ = 0, saved_ = -1;  // steps
  DataPosition position_;
  std::string balance_state_;  // of a run that this one goes on from, and at the end of this one's
  double last_save_ = 0;
};

}  // namespace lf
