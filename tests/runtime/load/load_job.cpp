#include "load_job.h"

#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"
#include "plugins/plugins.h"

namespace lf {

LoadJob::LoadJob(const std::vector<std::string>& texts) {
  std::string pattern = testing::TempDir() + "lf_load_XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  folder = pattern;
  std::ofstream file(folder / "data.jsonl");
  for (const std::string& text : texts) {
    if (text == "broken line")
      file << "{\n";
    else
      file << fmt::format(R"({{"messages":[{{"role":"user","content":"{}"}},{{"role":"assistant","content":"a"}}]}})",
                          text)
           << "\n";
  }
  file.close();
  config.job.output = folder / "run";
  config.job.seed = 17;
  config.data.path = {folder / "data.jsonl"};
  config.data.max_tokens = 100;
  config.data.max_bad = 0.5;
  dataset = std::make_unique<Dataset>(config.data);
}

LoadJob::~LoadJob() { std::filesystem::remove_all(folder); }

namespace {

class CountingExchange final : public Exchange {
 public:
  CountingExchange(std::shared_ptr<Meeting> meeting, int rank, std::atomic<int64_t>& count)
      : exchange_(std::move(meeting), rank), count_(count) {}
  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  std::vector<std::string> all_gather(const std::string& mine) override {
    if (rank() == 0) ++count_;
    return exchange_.all_gather(mine);
  }
  std::vector<std::string> all_to_all(const std::vector<std::string>& to) override { return exchange_.all_to_all(to); }
  void abort() noexcept override { exchange_.abort(); }

 private:
  ThreadExchange exchange_;
  std::atomic<int64_t>& count_;
};

}  // namespace

const Policy& minimax() {
  static PluginSet plugins({std::string(LF_BUILD_DIR) + "/plugins"}, PluginHost{}, false);
  static const Policy policy(
      "minimax", plugins.load(PluginKind::kBalancer, "minimax").interface<lf_balancer_api>(LF_BALANCER_INTERFACE),
      nullptr, "");
  return policy;
}

LoaderInputs LoadJob::inputs(Exchange& exchange) {
  LoaderInputs out;
  out.config = &config;
  out.dataset = dataset.get();
  out.api = &FakeModel::table();
  out.model = model.handle();
  out.streams = streams.get();
  if (streams) out.held_media = held_.at(exchange.rank()).get();
  out.policy = policy;
  out.exchange = &exchange;
  out.first_step = first_step;
  out.last_step = last_step != 0 ? last_step : INT64_MAX;
  out.max_samples = max_samples;
  out.position = position;
  if (first_step > 0) out.balance_state = balance_state;
  out.output = config.job.output;
  return out;
}

std::vector<std::vector<StepRecord>> LoadJob::run(int ranks, int64_t micro_batches) {
  config.data.micro_batches = micro_batches;
  const auto meeting = std::make_shared<Meeting>(ranks), times = std::make_shared<Meeting>(ranks);
  std::vector<std::vector<StepRecord>> out(ranks);
  errors.assign(ranks, "");
  held_.clear();
  for (int rank = 0; rank < ranks; ++rank) held_.push_back(std::make_unique<HeldMedia>());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      CountingExchange exchange(meeting, rank, gathers);
      ThreadExchange control(times, rank);
      LoaderInputs given = inputs(exchange);
      if (adjust) adjust(given, rank);
      Loader loader(given);
      try {
        for (bool last = false; !last;) {
          const StepWork work = loader.next();
          if (work.none_left) break;
          out[rank].push_back(record(work));
          last = work.last;
          if (seconds_of) {
            std::vector<double> seconds;
            for (const std::string& one : control.all_gather(std::to_string(seconds_of(out[rank].back(), rank))))
              seconds.push_back(std::stod(one));
            loader.observe(work.step, seconds);
          }
          if (rank == 0) balance_state = loader.balance_state();
        }
      } catch (const Error& error) {
        times->leave();
        errors[rank] = fmt::format("{}: {}", static_cast<int>(error.exit()), error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return out;
}

StepRecord record(const StepWork& work) {
  StepRecord out{.step = work.step,
                 .samples = {},
                 .loss_weight = {},
                 .rows = {},
                 .images = {},
                 .global_loss_weight = work.global_loss_weight,
                 .global_rows = work.global_rows,
                 .global_samples = work.global_samples,
                 .after = work.after,
                 .last = work.last,
                 .planned = work.balance.planned,
                 .plan_hash = work.balance.plan_hash};
  for (const MicroBatch& batch : work.micro_batches) {
    std::vector<uint64_t> ids;
    for (const lf_named_tensor& column : batch.columns)
      if (sdk::view(column.name) == "sample")
        for (int64_t i = 0; i < column.tensor.shape[0]; ++i)
          ids.push_back(static_cast<uint64_t>(static_cast<const int64_t*>(column.tensor.data)[i]));
    EXPECT_EQ(ids, batch.sample_ids);
    EXPECT_EQ(ids.size(), batch.n_samples);
    EXPECT_EQ(batch.atoms.size(), 2u);
    EXPECT_EQ(batch.features.at(0).size(), batch.atoms.at(0));
    EXPECT_EQ(batch.features.at(1).size(), 2 * batch.atoms.at(1));
    out.samples.push_back(std::move(ids));
    out.loss_weight.push_back(batch.loss_weight);
    out.rows.push_back(batch.rows);
    out.images.push_back(batch.atoms[0]);
  }
  return out;
}

std::vector<std::vector<std::vector<uint64_t>>> global_batches(const std::vector<std::vector<StepRecord>>& ranks) {
  std::vector<std::vector<std::vector<uint64_t>>> steps(ranks.front().size());
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.size(), steps.size());
    for (size_t s = 0; s < std::min(rank.size(), steps.size()); ++s)
      steps[s].insert(steps[s].end(), rank[s].samples.begin(), rank[s].samples.end());
  }
  return steps;
}

}  // namespace lf
