// Streams make the batches that the same samples in a file make, whoever reads them and in whatever layout.
#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "load/shipment.h"
#include "load_job.h"
#include "support/tar_writer.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

using Batches = std::vector<std::vector<std::vector<uint64_t>>>;

std::vector<std::string> mixed_texts(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i)
    texts.push_back(fmt::format("rows={} weight={} images={} n{}", 1 + i * 37 % 60, i * 11 % 20, i % 3, i));
  return texts;
}

std::string line(const std::string& text) {
  if (text == "broken line") return "{";
  return fmt::format(R"({{"messages":[{{"role":"user","content":"{}"}},{{"role":"assistant","content":"a"}}]}})", text);
}

std::string tar_of(const std::vector<std::string>& texts) {
  std::string tar;
  for (size_t i = 0; i < texts.size(); ++i)
    tar += tar_member(fmt::format("{}.json", i), line(texts[i])) + tar_member(fmt::format("{}.png", i), "pixels");
  return tar + tar_end();
}

// What the samples of several streams are when one of each is taken in turn.
std::vector<std::string> in_turn(const std::vector<std::vector<std::string>>& streams) {
  std::vector<std::string> out;
  for (size_t turn = 0, before = 1; before != out.size() || turn == 1; ++turn) {
    before = out.size();
    for (const auto& stream : streams)
      if (turn < stream.size()) out.push_back(stream[turn]);
  }
  return out;
}

class StreamJob : public LoadJob {
 public:
  // `texts`: what a file in the same order would hold; read without shuffling to its end.
  explicit StreamJob(const std::vector<std::string>& texts) : LoadJob(texts) {
    config.data.shuffle = false;
    max_samples = texts.size();
  }

  void read_archives(const std::vector<std::vector<std::string>>& streams) {
    std::vector<std::filesystem::path> paths;
    for (const auto& texts : streams) {
      paths.push_back(folder / fmt::format("{}.tar", paths.size()));
      std::ofstream(paths.back(), std::ios::binary) << tar_of(texts);
    }
    stream_from(paths);
  }

  void stream_from(std::vector<std::filesystem::path> paths) {
    config.data.path = std::move(paths);
    config.job.steps = 1'000'000;
    streams = std::make_unique<StreamSet>(config);
    dataset.reset();
    max_samples = 0;
  }
};

void expect_same_steps(const std::vector<std::vector<StepRecord>>& streamed,
                       const std::vector<std::vector<StepRecord>>& addressed) {
  ASSERT_EQ(global_batches(streamed), global_batches(addressed));
  for (size_t rank = 0; rank < addressed.size(); ++rank)
    for (size_t s = 0; s < addressed[rank].size(); ++s) {
      EXPECT_EQ(streamed[rank][s].after, addressed[rank][s].after);
      EXPECT_EQ(streamed[rank][s].global_loss_weight, addressed[rank][s].global_loss_weight);
      EXPECT_EQ(streamed[rank][s].loss_weight, addressed[rank][s].loss_weight);
      EXPECT_EQ(streamed[rank][s].last, addressed[rank][s].last);
    }
}

constexpr std::pair<int, int> kLayouts[] = {{1, 4}, {2, 2}, {4, 1}};

TEST(Streamed, an_archive_makes_the_batches_of_the_same_samples_in_a_file) {
  std::vector<std::string> texts = mixed_texts(150);
  for (int i = 0; i < 150; i += 13) texts[i] += i % 2 == 0 ? " bad_when_decoded" : " bad_features";
  texts[40] = "broken line";
  texts[41] = "rows=300";
  for (const auto& [ranks, micro_batches] : kLayouts) {
    StreamJob job(texts);
    const auto addressed = job.run(ranks, micro_batches);
    job.read_archives({texts});
    const auto streamed = job.run(ranks, micro_batches);
    EXPECT_THAT(job.errors, Each(std::string()));
    expect_same_steps(streamed, addressed);
    EXPECT_EQ(job.model.live_tensors, 0);
  }
}

TEST(Streamed, a_pipe_makes_the_batches_of_the_same_samples_in_a_file) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> texts = mixed_texts(120);
  for (const auto& [ranks, micro_batches] : kLayouts) {
    StreamJob job(texts);
    const auto addressed = job.run(ranks, micro_batches);
    const std::filesystem::path pipe = job.folder / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    job.stream_from({pipe});
    std::thread writer([&] {
      std::ofstream out(pipe);
      for (const std::string& text : texts) out << line(text) << "\n";
    });
    const auto streamed = job.run(ranks, micro_batches);
    writer.join();
    EXPECT_THAT(job.errors, Each(std::string()));
    expect_same_steps(streamed, addressed);
  }
}

TEST(Streamed, several_streams_are_taken_in_turn_whatever_their_lengths_and_the_number_of_ranks) {
  const std::vector<std::string> texts = mixed_texts(200);
  std::vector<std::vector<std::string>> streams(3);
  for (size_t i = 0; i < texts.size(); ++i) streams[i < 90 ? 0 : i < 100 ? 1 : 2].push_back(texts[i]);
  for (const auto& [ranks, micro_batches] : kLayouts) {
    StreamJob job(in_turn(streams));
    const auto addressed = job.run(ranks, micro_batches);
    job.read_archives(streams);
    const auto streamed = job.run(ranks, micro_batches);
    EXPECT_THAT(job.errors, Each(std::string()));
    expect_same_steps(streamed, addressed);
  }
}

TEST(Streamed, resuming_passes_over_what_was_seen_also_in_another_layout) {
  const std::vector<std::string> texts = mixed_texts(230);
  const std::vector<std::vector<std::string>> streams{{texts.begin(), texts.begin() + 150},
                                                      {texts.begin() + 150, texts.begin() + 155},
                                                      {texts.begin() + 155, texts.end()}};
  StreamJob job(texts);
  job.read_archives(streams);
  const auto straight = job.run(2, 2);
  ASSERT_THAT(job.errors, Each(std::string()));
  const Batches batches = global_batches(straight);
  ASSERT_GT(batches.size(), 8u);
  for (size_t stop = 1; stop < batches.size(); stop += 3) {
    job.first_step = static_cast<int64_t>(stop);
    job.position = straight[0][stop - 1].after;
    for (const auto& [ranks, micro_batches] : kLayouts)
      EXPECT_EQ(global_batches(job.run(ranks, micro_batches)),
                Batches(batches.begin() + static_cast<std::ptrdiff_t>(stop), batches.end()))
          << stop << " on " << ranks;
  }
  job.position.samples_seen = 230;
  for (const auto& [ranks, micro_batches] : kLayouts) {
    EXPECT_EQ(global_batches(job.run(ranks, micro_batches)), Batches()) << "all was trained before, on " << ranks;
    EXPECT_THAT(job.errors, Each(std::string()));
  }
  job.position.samples_seen = 1000;
  job.run(2, 2);
  EXPECT_THAT(job.errors, Each(HasSubstr("the streams end after 230 samples, but the run goes on after 1000")));
}

TEST(Streamed, streams_without_a_sample_are_refused) {
  StreamJob job(mixed_texts(3));
  job.read_archives({{}, {}});
  job.run(2, 1);
  EXPECT_THAT(job.errors, Each(HasSubstr("65: data.path: the streams end before their first sample")));
}

TEST(Streamed, a_broken_archive_ends_all_ranks_with_its_place) {
  StreamJob job(mixed_texts(3));
  const std::filesystem::path path = job.folder / "x.tar";
  std::ofstream(path, std::ios::binary) << tar_of(mixed_texts(60)).substr(0, 50'000);
  job.stream_from({path});
  job.run(3, 1);
  EXPECT_THAT(job.errors, Each(AllOf(HasSubstr("65: "), HasSubstr("x.tar: at byte"), HasSubstr("ends early"))));
  std::filesystem::remove(path);
  job.run(2, 1);
  EXPECT_THAT(job.errors, Each(HasSubstr("cannot open the stream")));
}

std::vector<std::string> uneven_texts(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i)
    texts.push_back(fmt::format("rows={} weight=1 images={}", 1 + i * 53 % 90, i * 7 % 5 == 0 ? 5 : 0));
  return texts;
}

TEST(Streamed, samples_go_to_whoever_the_plan_gives_them) {
  const std::vector<std::string> texts = uneven_texts(200);
  StreamJob job(texts);
  job.config.data.packing = false;
  const auto arrival = job.run(4, 4);
  job.policy = &minimax();
  job.config.balance.costs = "stated";  // plans from the first step on, not once costs are learned
  const auto addressed = job.run(4, 4);
  ASSERT_NE(global_batches(addressed), global_batches(arrival)) << "nothing was moved";
  job.read_archives({{texts.begin(), texts.end()}});
  const auto streamed = job.run(4, 4);
  EXPECT_THAT(job.errors, Each(std::string()));
  expect_same_steps(streamed, addressed);
}

TEST(Streamed, a_rank_that_plans_otherwise_is_named_before_anything_is_trained) {
  const std::vector<std::string> texts = uneven_texts(200);
  StreamJob job(texts);
  job.config.data.packing = false;
  job.read_archives({texts});
  job.policy = &minimax();
  job.config.balance.costs = "stated";  // plans from the first step on, not once costs are learned
  job.adjust = [](LoaderInputs& inputs, int rank) {
    if (rank == 1) inputs.policy = nullptr;
  };
  const auto out = job.run(2, 4);
  EXPECT_EQ(out[0].size(), out[1].size());
  EXPECT_LT(out[0].size(), 5u);
  for (const std::string& error : job.errors)
    EXPECT_THAT(error, AllOf(HasSubstr("loader: step "), HasSubstr("the ranks have diverged")));
}

TEST(Streamed, being_asked_to_stop_ends_waiting_for_a_pipe_on_all_ranks) {
  StreamJob job(mixed_texts(3));
  const std::filesystem::path pipe = job.folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  job.stream_from({pipe});
  std::atomic<bool> asked = false;
  std::atomic<int> stopped = 0;
  job.config.data.micro_batches = 1;
  const auto meeting = std::make_shared<Meeting>(2);
  HeldMedia held[2];
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      ThreadExchange exchange(meeting, rank);
      LoaderInputs inputs;
      inputs.config = &job.config;
      inputs.streams = job.streams.get();
      inputs.held_media = &held[rank];
      inputs.api = &FakeModel::table();
      inputs.model = job.model.handle();
      inputs.exchange = &exchange;
      inputs.last_step = INT64_MAX;
      inputs.stop_requested = [&] { return asked.load(); };
      Loader loader(inputs);
      stopped += loader.next().stopped;
    });
  asked = true;
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(stopped, 2);
}

TEST(Loading, whole_packs_are_dealt_without_being_unpacked) {
  StreamJob job(uneven_texts(400));
  const auto arrival = job.run(4, 2);
  job.policy = &minimax();
  job.config.balance.costs = "stated";  // plans from the first step on, not once costs are learned
  job.config.balance.unit = "pack";
  const auto packs = job.run(4, 2);
  EXPECT_THAT(job.errors, Each(std::string()));
  const Batches before = global_batches(arrival), after = global_batches(packs);
  ASSERT_EQ(before.size(), after.size());
  int moved = 0;
  for (size_t s = 0; s < before.size(); ++s) {
    EXPECT_THAT(after[s], testing::UnorderedElementsAreArray(before[s])) << "step " << s;
    moved += after[s] != before[s];
    EXPECT_EQ(arrival[0][s].global_loss_weight, packs[0][s].global_loss_weight);
  }
  EXPECT_GT(moved, 0);
}

CarriedSample carried(uint64_t index, HeldMedia& held) {
  CarriedSample out;
  out.sample = {.index = index, .json = fmt::format("json {}", index), .place = fmt::format("place {}", index)};
  out.media = std::make_shared<const HeldMedia::Lease>(
      held, std::vector<StreamedMedium>{
                {fmt::format("/m{}", index), std::make_shared<const std::string>(std::string(index, '\0'))}});
  return out;
}

TEST(Shipment, the_order_in_which_messages_arrive_does_not_matter) {
  const PlanStamp stamp{7, 0xABCD};
  HeldMedia there;
  std::vector<std::string> messages;
  for (uint32_t rank = 0; rank < 4; ++rank)
    messages.push_back(
        write_shipment(stamp, {{rank, carried(10 + rank, there)}, {9 - rank, carried(20 + rank, there)}}));
  std::vector<int> order(4);
  std::iota(order.begin(), order.end(), 0);
  do {
    HeldMedia here;
    std::map<uint32_t, CarriedSample> samples;
    for (const int rank : order) read_shipment(messages[rank], stamp, rank, 0, here, samples);
    ASSERT_EQ(samples.size(), 8u);
    for (uint32_t rank = 0; rank < 4; ++rank)
      for (const auto& [at, index] : {std::pair{rank, 10 + rank}, {9 - rank, 20 + rank}}) {
        EXPECT_EQ(samples[at].sample.index, index);
        EXPECT_EQ(samples[at].sample.json, fmt::format("json {}", index));
        EXPECT_EQ(samples[at].sample.place, fmt::format("place {}", index));
        EXPECT_EQ(*here.find(fmt::format("/m{}", index)), std::string(index, '\0'));
      }
    samples.clear();
    EXPECT_EQ(here.find("/m10"), nullptr);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Shipment, another_step_or_another_plan_is_refused_and_both_ranks_are_named) {
  HeldMedia held;
  std::map<uint32_t, CarriedSample> samples;
  const std::string message = write_shipment({7, 0xABCD}, {{0, carried(1, held)}});
  const auto refusal = [&](const PlanStamp& ours) {
    try {
      read_shipment(message, ours, 3, 1, held, samples);
      return std::string("taken");
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::kBug);
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal({8, 0xABCD}), HasSubstr("rank 3 plans step 8, rank 1 step 9"));
  EXPECT_THAT(refusal({7, 0xABCE}), HasSubstr("step 8: rank 3 has planned 000000000000abcd, rank 1 000000000000abce"));
  EXPECT_TRUE(samples.empty());
  EXPECT_EQ(refusal({7, 0xABCD}), "taken");
}

}  // namespace
}  // namespace lf
