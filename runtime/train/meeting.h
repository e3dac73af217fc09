// Where this rank meets the others.
#pragma once

#include <chrono>
#include <memory>

#include "comm/rendezvous.h"
#include "data/dataset.h"
#include "train/train.h"

namespace lf {

// The rendezvous of the request's generation, over the launcher's store or a TCP store; a world of one needs neither.
std::unique_ptr<Rendezvous> meet(const TrainRequest& request);

// How late a rank may be, on the host and on cards ([reduction] timeout_seconds).
std::chrono::milliseconds collective_timeout(const JobConfig& config);

// Throws kConfig naming `what` and the ranks concerned unless all ranks hold the same bytes.
void require_agreement(Exchange& exchange, const std::string& what, const std::string& bytes);

// Before ranks that know a common failure end: the first to end would take its last answer away from the others.
void part(Exchange& exchange);

// Throws kConfig with a line for each option of the job, and for --fresh, that is not the same on all ranks: its name,
// both values and the rank. Left out is what a host decides for itself: launch.* and data.workers.
void require_same_job(Exchange& exchange, const JobConfig& config, bool fresh);

// Throws kConfig naming the first file of data.path that has other bytes on another rank, and the rank: hosts whose
// copies of one path differ would deal samples of different orders. Of a LeRobot directory its number of frames.
void require_same_data(Exchange& exchange, const Dataset& dataset);

}  // namespace lf
