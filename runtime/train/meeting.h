// Where this rank meets the others.
#pragma once

#include <chrono>
#include <memory>

#include "comm/rendezvous.h"
#include "train/train.h"

namespace lf {

// The rendezvous of the request's generation, over the launcher's store or a TCP store; a world of one needs neither.
std::unique_ptr<Rendezvous> meet(const TrainRequest& request);

// How late a rank may be, on the host and on cards ([reduction] timeout_seconds).
std::chrono::milliseconds collective_timeout(const JobConfig& config);

// Throws kConfig naming `what` and the ranks concerned unless all ranks hold the same bytes.
void require_agreement(Exchange& exchange, const std::string& what, const std::string& bytes);

}  // namespace lf
