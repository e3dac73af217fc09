// A model with its weights on a device, ready to run a case.
#pragma once

#include "model/runner.h"
#include "optimizer/adamw.h"
#include "train/session.h"

namespace lf {

// The device that all cases run on: a process registers one with LibTorch.
struct CommonDevice {
  explicit CommonDevice(const JobConfig& config) : session(config, without_model()) {}
  static SessionOptions without_model() {
    SessionOptions options;
    options.open_policy = false;
    options.skip = {"model.family"};
    return options;
  }
  const Device& device() const { return *session.device; }
  Session session;
};

// A model with its weights, ready to run one case. Where the device has memory of its own, AdamW is there.
struct Bench {
  Bench(const JobConfig& config, const SessionOptions& options, const Device& common);
  RunResult run(const MicroBatch& batch, bool outputs);
  AdamW optimizer(const OptimizerSection& settings) const;

  Session session;
  const Device& device;
  ModelPlace place;
  Freezing freezing;
  ParameterStore store;
  Runner runner;
};

}  // namespace lf
