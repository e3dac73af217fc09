// Judged samples in the run's global order, one after the other.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>

#include "core/exchange.h"
#include "data/order.h"
#include "load/verdict.h"
#include "load/workers.h"

namespace lf {

class SampleStream {
 public:
  virtual ~SampleStream() = default;
  // The next sample, or null at the end; stays until pop().
  virtual const JudgedSample* peek() = 0;
  virtual JudgedSample pop() = 0;
  // Whether null meant that some rank was asked to stop.
  virtual bool stopped() const { return false; }
  // How many samples a step takes, by the last one.
  virtual void expect(uint64_t) {}
};

// Judges window by window: every rank does its share, the verdicts are gathered. Windows are larger than a step needs,
// so exchanges are few; where they begin and end changes nothing. All ranks peek and pop alike; one thread.
class GatheredStream final : public SampleStream {
 public:
  struct Sources {
    const Dataset& dataset;
    const ModelCalls& model;
    const DataSection& options;
    Order order;
    Exchange& exchange;
    Workers& workers;
    std::function<bool()> stop_requested = {};
  };

  // [position, end); end 0: endless.
  GatheredStream(Sources sources, uint64_t position, uint64_t end);

  // Throws on every rank what one rank threw, with its rank.
  const JudgedSample* peek() override;
  JudgedSample pop() override;
  bool stopped() const override { return stopped_; }

  // Windows are made that large, so that a step needs one exchange.
  void expect(uint64_t samples_of_a_step) override;

 private:
  void fetch();
  bool asked_to_stop() const { return sources_.stop_requested && sources_.stop_requested(); }
  std::string judge_share(uint64_t first, uint64_t last);

  Sources sources_;
  uint64_t fetched_, end_, window_;
  bool stopped_ = false;
  std::deque<JudgedSample> ready_;
};

}  // namespace lf
