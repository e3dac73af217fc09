// The roll of a group of ranks, kept in the rendezvous' store. Internal to comm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/membership.h"
#include "core/exchange.h"

namespace lf {

class StoredRoll final : public RollCall {
 public:
  // For all that wait to have said so: they look every second, beside whatever else keeps the machine busy.
  static constexpr std::chrono::milliseconds kAnswers{3'000};

  StoredRoll(std::shared_ptr<Membership> membership, std::string group)
      : membership_(std::move(membership)), group_(std::move(group)) {}
  void answer() noexcept override;
  std::string long_work(const Pause& pause) override;
  std::vector<int> silent_ranks(const Pause& pause) override;

 private:
  std::string answer_of(int rank) const { return group_ + "/waits/" + std::to_string(rank); }

  std::shared_ptr<Membership> membership_;
  const std::string group_;
};

}  // namespace lf
