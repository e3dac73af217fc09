#include "load/load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/log.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "load/assemble.h"
#include "load/batch_source.h"
#include "load/common_error.h"
#include "load/dealer.h"
#include "load/packing.h"
#include "load/skipped.h"
#include "load/workers.h"

namespace lf {
namespace {

constexpr uint64_t kWarnings = 10;             // further skipped samples are only listed
constexpr uint64_t kStreamPatience = 100'000;  // samples of a stream that may be of no use in a row

// A step that is planned, and whose micro-batches are being loaded.
struct StepUnderWay {
  int64_t step = 0;
  PackedStep packed;
  std::vector<std::future<Assembled>> micro_batches;
  StepBalance balance;
};

// What the loader's thread hands to next(): a step and what was skipped on the way to it, or why there is none.
struct Outcome {
  StepWork work;
  std::vector<SkippedSample> skipped;
  std::exception_ptr error;
};

size_t steps_ahead(const LoaderInputs& inputs) {
  return static_cast<size_t>(std::max(1, inputs.config->data.prefetch_steps));
}

// Step s is dealt at the earliest when the caller of next() has taken step s - ahead - 1: `ahead` are being loaded, and
// one waits to be taken. It has then told the times of the step before that.
int64_t deal_lag(const LoaderInputs& inputs) { return static_cast<int64_t>(steps_ahead(inputs)) + 2; }

PackRules rules_of(const LoaderInputs& inputs) {
  const DataSection& options = inputs.config->data;
  return {.max_rows = options.max_tokens,
          .micro_batches = static_cast<uint32_t>(options.micro_batches * inputs.exchange->size()),
          .packing = options.packing,
          .epoch = inputs.dataset != nullptr ? inputs.dataset->size() : kStreamPatience,
          .max_bad = options.max_bad};
}

const LoaderInputs& checked(const LoaderInputs& inputs) {
  const bool streamed = inputs.streams != nullptr && inputs.held_media != nullptr;
  if (inputs.config == nullptr || streamed == (inputs.dataset != nullptr) || inputs.api == nullptr ||
      inputs.exchange == nullptr)
    fail(Exit::kBug, "loader: expected a job, a data set or streams, a model and an exchange");
  return inputs;
}

}  // namespace

MicroBatch::MicroBatch(MicroBatch&& other) noexcept { *this = std::move(other); }

MicroBatch& MicroBatch::operator=(MicroBatch&& other) noexcept {
  std::swap(columns, other.columns);
  n_samples = other.n_samples;
  atoms = std::move(other.atoms);
  features = std::move(other.features);
  rows = other.rows;
  loss_weight = other.loss_weight;
  sample_ids = std::move(other.sample_ids);
  return *this;
}

MicroBatch::~MicroBatch() {
  for (lf_named_tensor& column : columns) sdk::release(column.tensor);
}

struct Loader::State {
  explicit State(const LoaderInputs& given)
      : inputs(checked(given)),
        model(inputs.api, inputs.model),
        workers(std::max(1, inputs.config->data.workers)),
        source(inputs.streams != nullptr
                   ? stream_source(inputs, model, workers, [this] { return stopping || asked_to_stop(); })
                   : addressable_source(inputs, model, workers)),
        rules(rules_of(inputs)),
        dealer(inputs, model, inputs.exchange->size(), deal_lag(inputs)),
        planned(inputs.position),
        next_step(inputs.first_step) {
    if (inputs.exchange->rank() == 0 && !inputs.output.empty())
      list.emplace(inputs.output / "skipped.jsonl", inputs.position.samples_seen);
    thread = std::thread([this] { run(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    inputs.exchange->abort();
    thread.join();
  }

  // The loader's thread. Steps are planned ahead of the one that is finished, so that the workers are busy with
  // several; the sequence of exchanges is the same on every rank whatever their speed.
  void run() {
    std::deque<StepUnderWay> under_way;
    Outcome end;
    const size_t ahead = steps_ahead(inputs);
    bool more = inputs.max_samples == 0 || planned.samples_seen < inputs.max_samples;
    try {
      while (!stopping) {
        more = more && next_step < inputs.last_step;
        if (more) more = begin(under_way, end);  // an end is told after the steps before it
        if (under_way.empty()) break;
        if (more && under_way.size() < ahead) continue;
        Outcome outcome = finish(under_way.front());
        under_way.pop_front();
        if (outcome.error || outcome.work.stopped) {
          end = std::move(outcome);
          break;
        }
        if (!hand_over(std::move(outcome))) break;
      }
    } catch (...) {
      end.error = std::current_exception();
    }
    for (StepUnderWay& step : under_way)
      for (auto& micro_batch : step.micro_batches)
        if (micro_batch.valid()) micro_batch.wait();  // they use what is about to go
    if (!end.error && !end.work.stopped && !end.work.none_left)
      end.error = std::make_exception_ptr(Error(Exit::kBug, "loader: asked for a step past the last"));
    hand_over(std::move(end));
  }

  // Plans the next step and starts to load it. False where none follows; `end` says why if that is an error.
  bool begin(std::deque<StepUnderWay>& under_way, Outcome& end) {
    StepUnderWay out{.step = next_step++,
                     .packed = pack_step(source->samples(), rules, planned),
                     .micro_batches = {},
                     .balance = {}};
    if (out.packed.stopped || out.packed.none_left) {
      end.work.stopped = out.packed.stopped;
      end.work.none_left = out.packed.none_left;
      return false;
    }
    source->samples().expect(out.packed.after.samples_seen - planned.samples_seen);
    planned = out.packed.after;
    if (out.packed.stop) {
      end.skipped = skipped_by(out);
      end.error = std::make_exception_ptr(*out.packed.stop);
      return false;
    }
    Deal dealt = deal_step(*source, dealer, model, out.packed, out.step);
    const auto given = source->fetch(out.step, out.packed, dealt.samples);
    out.balance = std::move(dealt.balance);
    auto& samples = dealt.samples[inputs.exchange->rank()];
    // Shared: the step may move while the workers read it.
    const auto all = std::make_shared<const std::vector<JudgedSample>>(out.packed.samples);
    for (std::vector<uint32_t>& of_one : samples)
      out.micro_batches.push_back(workers.submit(false, [this, all, given, of_one = std::move(of_one)] {
        if (stopping || asked_to_stop()) return Assembled{.micro_batch = {}, .dropped = {}, .left_out = true};
        return assemble(*given, model, *all, of_one, inputs.config->data.max_tokens);
      }));
    under_way.push_back(std::move(out));
    return !under_way.back().packed.last;
  }

  bool asked_to_stop() const { return inputs.stop_requested && inputs.stop_requested(); }

  static std::vector<SkippedSample> skipped_by(const StepUnderWay& step) {
    std::vector<SkippedSample> out;
    for (const JudgedSample& sample : step.packed.skipped)
      out.push_back({step.step, sample.position, sample.index, sample.verdict == Verdict::kBad ? "bad" : "too_long",
                     sample.reason});
    return out;
  }

  Outcome finish(StepUnderWay& step) {
    Outcome out{.work = {}, .skipped = skipped_by(step), .error = nullptr};
    for (auto& micro_batch : step.micro_batches) micro_batch.wait();
    const std::vector<std::string> told_by_rank = gather_or_fail(*inputs.exchange, {"step", step.step + 1}, [&] {
      WireWriter mine;
      bool left_out = false;
      std::vector<Assembled> all;
      for (auto& micro_batch : step.micro_batches) {
        all.push_back(micro_batch.get());
        left_out |= all.back().left_out;
      }
      mine.put(static_cast<uint8_t>(left_out));
      mine.put(step.balance.plan_hash);
      for (Assembled& made : all) {
        for (const Dropped& dropped : made.dropped) {
          mine.put(dropped.sample);
          mine.put(dropped.reason);
        }
        out.work.micro_batches.push_back(std::move(made.micro_batch));
      }
      return mine.take();
    });
    step.micro_batches.clear();

    std::vector<WireReader> told(told_by_rank.begin(), told_by_rank.end());
    for (WireReader& in : told) out.work.stopped |= in.get<uint8_t>() != 0;
    if (out.work.stopped) {
      out.work.micro_batches.clear();
      out.skipped.clear();  // that part of the data is seen again
      return out;
    }
    std::vector<bool> dropped(step.packed.samples.size(), false);
    std::vector<uint64_t> hashes;
    for (WireReader& in : told) {
      hashes.push_back(in.get<uint64_t>());
      while (!in.empty()) {
        const auto index = in.get<uint32_t>();
        const JudgedSample& sample = step.packed.samples.at(index);
        dropped[index] = true;
        ++bad_when_decoded;
        out.skipped.push_back({step.step, sample.position, sample.index, "bad", in.text()});
      }
    }
    check_agreement(step.step, hashes);
    sum_up(step, dropped, out.work);
    out.work.balance = std::move(step.balance);
    const DataPosition& after = out.work.after;
    if (!out.skipped.empty() && too_many_bad(after.bad_samples, after.samples_seen, rules.max_bad))
      out.error = std::make_exception_ptr(
          too_many_bad_error(after.bad_samples, after.samples_seen, rules.max_bad, out.skipped.back().reason));
    return out;
  }

  void sum_up(const StepUnderWay& step, const std::vector<bool>& dropped, StepWork& work) const {
    work.step = step.step;
    work.after = step.packed.after;
    work.after.bad_samples += bad_when_decoded;
    work.last = step.packed.last || step.step + 1 == inputs.last_step;
    for (size_t i = 0; i < dropped.size(); ++i) {
      if (dropped[i]) continue;
      const AtomFeatures& features = step.packed.samples[i].features;
      work.global_loss_weight += features.loss_weight();
      const std::vector<double>& numbers = features.numbers.back();
      work.global_features.resize(model.components().back().n_features);
      for (size_t k = 0; k < numbers.size(); ++k) work.global_features[k % work.global_features.size()] += numbers[k];
      work.global_rows += features.rows();
      ++work.global_samples;
    }
  }

  // Waits for room. False when the loader is to stop.
  bool hand_over(Outcome outcome) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stopping || !ready; });
    if (stopping) return false;
    ready = std::move(outcome);
    lock.unlock();
    changed.notify_all();
    return true;
  }

  void tell(const std::vector<SkippedSample>& skipped) {
    if (inputs.exchange->rank() != 0) return;
    if (list) list->add(skipped);
    for (const SkippedSample& sample : skipped) {
      if (++told < kWarnings)
        log::warning("skipped: {}", sample.reason);
      else if (told == kWarnings)
        log::warning("skipped: {}; further ones are not shown, only listed in skipped.jsonl", sample.reason);
    }
  }

  const LoaderInputs inputs;
  const ModelCalls model;
  std::atomic<bool> stopping = false;
  Workers workers;

  // Of the loader's thread.
  const std::unique_ptr<BatchSource> source;
  const PackRules rules;
  Dealer dealer;
  DataPosition planned;  // without what is found bad when decoded
  uint64_t bad_when_decoded = 0;
  int64_t next_step;

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Outcome> ready;

  // Of the caller's.
  std::optional<SkippedList> list;
  uint64_t told = 0;
  std::exception_ptr ended;
  std::shared_ptr<const BalanceMemory> memory;  // as the last step that was handed over left it

  std::thread thread;
};

Loader::Loader(LoaderInputs inputs) : state_(std::make_unique<State>(inputs)) {}

Loader::~Loader() = default;

StepWork Loader::next() {
  State& state = *state_;
  if (state.ended) std::rethrow_exception(state.ended);
  const auto asked = std::chrono::steady_clock::now();
  std::optional<Outcome> outcome;
  {
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] { return state.ready.has_value(); });
    outcome = std::exchange(state.ready, std::nullopt);
  }
  const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count();
  state.changed.notify_all();
  state.tell(outcome->skipped);
  if (outcome->error) {
    state.ended = outcome->error;
    std::rethrow_exception(state.ended);
  }
  outcome->work.wait_seconds = waited;
  const bool a_step = !outcome->work.stopped && !outcome->work.none_left;
  if (a_step) state.memory = outcome->work.balance.after_this;  // else what the last step left stays
  return std::move(outcome->work);
}

void Loader::observe(int64_t step, std::vector<double> seconds) { state_->dealer.observe(step, std::move(seconds)); }

std::string Loader::balance_state() const {
  return state_->memory ? state_->dealer.state(*state_->memory) : state_->inputs.balance_state;
}

std::optional<CostModel> Loader::costs() const {
  if (!state_->memory) return std::nullopt;
  return state_->dealer.latest(*state_->memory).model;
}

}  // namespace lf
