#include <algorithm>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <utility>

#include "core/log.h"
#include "load/batch_source.h"
#include "load/common_error.h"
#include "load/shipment.h"

namespace lf {
namespace {

constexpr uint64_t kWindow = 32;        // samples of one stream that are judged between two gathers
constexpr uint64_t kSkipWindow = 4096;  // passed over between two gathers

// Samples of all streams in turn. Whoever reads a stream keeps its samples until the step that uses them is fetched.
class TurnStream final : public SampleStream {
 public:
  TurnStream(const LoaderInputs& inputs, const ModelCalls& model, Workers& workers, std::function<bool()> stopped)
      : inputs_(inputs),
        model_(model),
        workers_(workers),
        begin_(inputs.position.samples_seen),
        stop_(std::move(stopped)),
        ended_(inputs.streams->size(), false),
        feeds_(inputs.streams->size()) {
    if (begin_ > 0 && inputs.exchange->rank() == 0)
      log::info("data: a stream cannot be sought: the first {} samples are read and passed over", begin_);
  }

  const JudgedSample* peek() override {
    while (ready_.empty() && !over() && !stopped_) fetch();
    if (stopped_) return nullptr;
    if (ready_.empty() && next_ == 0)
      fail(Exit::kBadData, "data.path: the streams end before their first sample; check what writes them");
    if (ready_.empty() && next_ < begin_)
      fail(Exit::kBadData,
           "data.path: the streams end after {} samples, but the run goes on after {}; write them from "
           "their beginning, or start over with --fresh",
           next_, begin_);
    return ready_.empty() ? nullptr : &ready_.front();
  }
  bool stopped() const override { return stopped_; }
  JudgedSample pop() override {
    JudgedSample out = std::move(ready_.front());
    ready_.pop_front();
    return out;
  }

  // What this rank has read of the step's samples, by index; what came before the step's end is forgotten.
  std::map<uint32_t, CarriedSample> take(const PackedStep& packed) {
    std::map<uint32_t, CarriedSample> out;
    for (uint32_t i = 0; i < packed.samples.size(); ++i)
      if (const auto found = kept_.find(packed.samples[i].position); found != kept_.end())
        out.emplace(i, std::move(found->second));
    kept_.erase(kept_.begin(), kept_.lower_bound(packed.after.samples_seen));
    return out;
  }

 private:
  struct Read {
    CarriedSample carried;
    JudgedSample judged;
  };

  // Opened where a failure becomes everybody's.
  SampleFeed& feed(size_t stream) {
    if (!feeds_[stream]) feeds_[stream] = inputs_.streams->open(stream, stop_);
    return *feeds_[stream];
  }
  bool reads(size_t stream) const {
    return stream % static_cast<size_t>(inputs_.exchange->size()) == static_cast<size_t>(inputs_.exchange->rank());
  }
  bool over() const { return std::ranges::all_of(ended_, std::identity()); }

  // One window of every stream. Each has as many samples in it unless it ends, so that taking one of each in turn,
  // window by window, is taking one of each in turn.
  void fetch() {
    const auto living = static_cast<uint64_t>(std::ranges::count(ended_, false));
    const uint64_t to_skip = (begin_ - std::min(begin_, next_)) / living;  // a part of a turn is read and dropped
    if (to_skip > 0) return pass_over(std::min(to_skip, kSkipWindow));

    std::vector<std::vector<Read>> mine(feeds_.size());
    const std::vector<std::string> told = gather([&] { return read_window(mine); });
    if (stopped_) return;
    std::vector<std::vector<JudgedSample>> window(feeds_.size());
    for (const std::string& of_rank : told)
      for (WireReader in(of_rank); !in.empty();) {
        const auto stream = in.get<uint32_t>();
        window.at(stream).resize(in.get<uint32_t>());
        ended_[stream] = in.get<uint8_t>() != 0;
        for (JudgedSample& sample : window[stream]) sample = get_judged(in, model_.components().size());
      }
    for (uint64_t turn = 0; turn < kWindow; ++turn)
      for (size_t s = 0; s < window.size(); ++s) {
        if (turn >= window[s].size()) continue;
        const uint64_t position = next_++;
        if (position < begin_) continue;
        ready_.push_back(std::move(window[s][turn]));
        ready_.back().position = ready_.back().index = position;
        if (!reads(s) || !ready_.back().usable()) continue;
        CarriedSample& carried = mine[s][turn].carried;
        carried.sample.index = position;
        kept_.emplace(position, std::move(carried));
      }
  }

  // What every rank says. Ranks are asked to stop at different moments, perhaps while one waits for a pipe: what one
  // says ends the streams on all.
  template <typename Body>
  std::vector<std::string> gather(Body&& body) {
    std::vector<std::string> told = gather_or_fail(*inputs_.exchange, {"sample", static_cast<int64_t>(next_)}, [&] {
      std::string mine;
      try {
        mine = body();
      } catch (const Error&) {
        if (!stop_()) throw;
      }
      const bool stop = stop_();
      return std::string(1, static_cast<char>(stop)) + (stop ? std::string() : mine);
    });
    for (std::string& of_rank : told) {
      stopped_ |= of_rank.at(0) != 0;
      of_rank.erase(0, 1);
    }
    return told;
  }

  void pass_over(uint64_t of_each) {
    const std::vector<std::string> told = gather([&] {
      WireWriter out;
      for (size_t s = 0; s < feeds_.size(); ++s) {
        if (!reads(s) || ended_[s]) continue;
        uint64_t count = 0;
        while (count < of_each && feed(s).skip()) ++count;
        out.put(static_cast<uint32_t>(s));
        out.put(count);
        out.put(static_cast<uint8_t>(count < of_each));
      }
      return out.take();
    });
    for (const std::string& of_rank : told)
      for (WireReader in(of_rank); !in.empty();) {
        const auto stream = in.get<uint32_t>();
        next_ += in.get<uint64_t>();
        ended_.at(stream) = in.get<uint8_t>() != 0;
      }
  }

  // Reads in order, judges on the workers; the position is not known yet, and features do not depend on it.
  std::string read_window(std::vector<std::vector<Read>>& mine) {
    WireWriter out;
    for (size_t s = 0; s < feeds_.size(); ++s) {
      if (!reads(s) || ended_[s]) continue;
      std::vector<std::future<Read>> window;
      bool ended = false;
      std::exception_ptr failed;
      try {
        while (window.size() < kWindow && !ended) {
          std::optional<FedSample> fed = feed(s).next();
          if (fed)
            window.push_back(workers_.submit(true, [this, sample = std::move(*fed)] { return judge_fed(sample); }));
          else
            ended = true;
        }
      } catch (...) {
        failed = std::current_exception();
      }
      for (auto& read : window) read.wait();  // all of them, before any throws: tasks use what is here
      if (failed) std::rethrow_exception(failed);
      out.put(static_cast<uint32_t>(s));
      out.put(static_cast<uint32_t>(window.size()));
      out.put(static_cast<uint8_t>(ended));
      for (auto& read : window) {
        mine[s].push_back(read.get());
        put(out, mine[s].back().judged);
      }
    }
    return out.take();
  }

  Read judge_fed(const FedSample& fed) const {
    Read out;
    if (!fed.bad.empty()) {
      out.judged.verdict = Verdict::kBad;
      out.judged.reason = fed.bad;
      return out;
    }
    out.carried.sample = {.index = 0, .json = fed.json, .place = fed.place};
    out.carried.media = std::make_shared<const HeldMedia::Lease>(*inputs_.held_media, fed.media);
    out.judged = judge(out.carried.sample, model_, inputs_.config->data);
    return out;
  }

  const LoaderInputs& inputs_;
  const ModelCalls& model_;
  Workers& workers_;
  const uint64_t begin_;
  const std::function<bool()> stop_;  // asked while a pipe is waited for
  bool stopped_ = false;
  uint64_t next_ = 0;  // position of the next sample read; the run goes on at begin_
  std::vector<bool> ended_;
  std::vector<std::unique_ptr<SampleFeed>> feeds_;  // null: another rank's, or not opened yet
  std::deque<JudgedSample> ready_;
  std::map<uint64_t, CarriedSample> kept_;
};

class CarriedSamples final : public StepSamples {
 public:
  explicit CarriedSamples(std::map<uint32_t, CarriedSample> samples) : samples_(std::move(samples)) {}
  Sample sample(uint32_t index) const override {
    const auto found = samples_.find(index);
    if (found == samples_.end()) fail(Exit::kBug, "loader: sample {} of the step was sent by no rank", index);
    return found->second.sample;
  }

 private:
  std::map<uint32_t, CarriedSample> samples_;
};

class StreamSource final : public BatchSource {
 public:
  StreamSource(const LoaderInputs& inputs, const ModelCalls& model, Workers& workers, std::function<bool()> stopped)
      : inputs_(inputs), samples_(inputs_, model, workers, std::move(stopped)) {}

  SampleStream& samples() override { return samples_; }

  std::shared_ptr<const StepSamples> fetch(int64_t step, const PackedStep& packed, const Shares& shares) override {
    Exchange& exchange = *inputs_.exchange;
    const PlanStamp stamp{step, hash_of(step, packed, shares)};
    std::map<uint32_t, CarriedSample> read = samples_.take(packed);
    std::vector<std::string> messages;
    std::map<uint32_t, CarriedSample> own;
    for (size_t rank = 0; rank < shares.size(); ++rank) {
      std::map<uint32_t, CarriedSample> for_rank;
      for (const std::vector<uint32_t>& micro_batch : shares[rank])
        for (const uint32_t i : micro_batch)
          if (const auto found = read.find(i); found != read.end()) for_rank.emplace(i, std::move(found->second));
      const bool here = static_cast<int>(rank) == exchange.rank();
      messages.push_back(write_shipment(stamp, here ? std::map<uint32_t, CarriedSample>() : for_rank));
      if (here) own = std::move(for_rank);
    }
    const std::vector<std::string> received = exchange.all_to_all(messages);
    for (size_t rank = 0; rank < received.size(); ++rank)
      read_shipment(received[rank], stamp, static_cast<int>(rank), exchange.rank(), *inputs_.held_media, own);
    return std::make_shared<const CarriedSamples>(std::move(own));
  }

 private:
  const LoaderInputs inputs_;
  TurnStream samples_;
};

}  // namespace

std::unique_ptr<BatchSource> stream_source(const LoaderInputs& inputs, const ModelCalls& model, Workers& workers,
                                           std::function<bool()> stopped) {
  return std::make_unique<StreamSource>(inputs, model, workers, std::move(stopped));
}

}  // namespace lf
