#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

#include "checkpoint/hash.h"
#include "mesh/slices.h"
#include "runtime/checkpoint/fault_file_system.h"
#include "runtime/checkpoint/states.h"

namespace lf {
namespace {

using test::contents;
using test::expect_equal;
using test::save;
using test::State;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Outcome = SaveReport::Outcome;

TEST(Checkpoint, what_was_saved_comes_back_bit_for_bit) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  State state(42);
  state.values[1][3] = std::nanf("123");
  state.values[1][4] = -0.0f;
  const SaveReport report = save(files, scratch / "run/ckpt", state);
  EXPECT_EQ(report.outcome, Outcome::kSaved) << report.reason;
  EXPECT_EQ(report.reason, "");
  EXPECT_EQ(test::slurp(scratch / "run/ckpt/latest"), "step-00000042\n");
  const Checkpoint checkpoint = Checkpoint::open(report.directory, Verify::kHashes);
  std::vector<float> read(40);
  checkpoint.read("embed.weight.m", std::vector<int64_t>{10, 4}, DType::kF32, read.data());
  EXPECT_EQ(std::memcmp(read.data(), state.values[1].data(), 160), 0);
  state.values[1][3] = read[3] = 0;
  EXPECT_EQ(checkpoint.state().seed, UINT64_MAX);
  EXPECT_EQ(checkpoint.state().position.samples_seen, 42007u);
}

TEST(Checkpoint, counts_scalars_and_empty_tensors_come_back) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  LocalExchange alone;
  const int64_t count = INT64_MAX;
  CheckpointWriter writer(files, alone, test::options_for(scratch / "ckpt"));
  writer.save(State(1).trainer, {whole_tensor("optimizer", "w.step", DType::kI64, {}, &count),
                                 whole_tensor("optimizer", "none", DType::kF32, {0, 3}, nullptr)});
  ASSERT_EQ(writer.wait()->outcome, Outcome::kSaved);
  const Checkpoint checkpoint = Checkpoint::open(scratch / "ckpt/step-00000001", Verify::kHashes);
  int64_t read = 0;
  checkpoint.read("w.step", {}, DType::kI64, &read);
  EXPECT_EQ(read, count);
  checkpoint.read("none", std::vector<int64_t>{0, 3}, DType::kF32, nullptr);
}

// What is not in the host's memory is read piece by piece; the files are those of the same values in the host's.
TEST(Checkpoint, values_that_have_to_be_fetched_give_the_same_files) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  LocalExchange alone;
  std::vector<float> large((10 << 20) / 4 + 3);  // several chunks
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i) * 0.25f;
  const std::vector<int64_t> shape{static_cast<int64_t>(large.size())};
  StateTensor fetched = whole_tensor("parameters", "w", DType::kF32, shape, nullptr);
  uint64_t most = 0;
  fetched.pieces.front().read = [&](uint64_t at, std::span<std::byte> out) {
    most = std::max<uint64_t>(most, out.size());
    std::memcpy(out.data(), reinterpret_cast<const std::byte*>(large.data()) + at, out.size());
  };
  const auto save_as = [&](const char* name, const StateTensor& tensor, bool asynchronous) {
    CheckpointOptions options = test::options_for(scratch / name);
    options.asynchronous = asynchronous;
    CheckpointWriter writer(files, alone, options);
    writer.save(State(1).trainer, {tensor});
    EXPECT_EQ(writer.wait()->outcome, Outcome::kSaved);
    return contents(scratch / name / "step-00000001");
  };
  const auto expected = save_as("here", whole_tensor("parameters", "w", DType::kF32, shape, large.data()), true);
  EXPECT_EQ(save_as("there", fetched, true), expected);
  most = 0;
  EXPECT_EQ(save_as("there_at_once", fetched, false), expected);
  EXPECT_LE(most, 4u << 20);  // never the whole of it in the host's memory

  const Checkpoint checkpoint = Checkpoint::open(scratch / "here/step-00000001", Verify::kHashes);
  std::vector<float> part(1000);
  checkpoint.read_elements("w", shape, 2'000'000, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), large.begin() + 2'000'000));
}

TEST(Checkpoint, the_same_state_gives_the_same_bytes) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  save(files, scratch / "a", State(42));
  save(files, scratch / "b", State(42));
  EXPECT_EQ(contents(scratch / "a"), contents(scratch / "b"));
}

TEST(Checkpoint, hashes_are_those_of_the_xxhash_library) {
  // The hash of nothing, from the library's test vectors (xxHash, cli/xsum_sanity_check.c).
  EXPECT_EQ(hash_hex(std::string_view("")), "99aa06d3014798d86001c324468d497f");
  Hash pieces;
  pieces.add("lf", 2);
  pieces.add("run", 3);
  EXPECT_EQ(pieces.hex(), hash_hex(std::string_view("lfrun")));
}

TEST(Checkpoint, parameters_changed_right_after_save_do_not_reach_the_file) {
  test::MemoryScratch scratch;
  // The disk is slow until the parameters have changed.
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  test::WatchedFileSystem slow([&](const char*, const std::filesystem::path&) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return go; });
  });
  LocalExchange alone;
  State state(42);
  CheckpointWriter writer(slow, alone, test::options_for(scratch / "ckpt"));
  writer.save(state.trainer, state.whole_tensors());
  for (auto& values : state.values) std::fill(values.begin(), values.end(), -7.0f);
  state.trainer.step = 43;
  EXPECT_FALSE(writer.poll()) << "the disk was stopped";
  {
    const std::lock_guard lock(mutex);
    go = true;
  }
  changed.notify_all();
  EXPECT_EQ(writer.wait()->outcome, Outcome::kSaved);
  expect_equal(Checkpoint::open(scratch / "ckpt/step-00000042", Verify::kHashes), State(42));
}

TEST(Checkpoint, successive_saves_differ_and_each_is_its_own_state) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  LocalExchange alone;
  CheckpointWriter writer(files, alone, test::options_for(scratch / "ckpt", 3));
  for (const int64_t step : {1, 2, 3}) {
    State state(step);
    EXPECT_TRUE(writer.save(state.trainer, state.whole_tensors()));  // waits for the one before
  }
  EXPECT_EQ(writer.wait()->step, 3);
  EXPECT_FALSE(writer.poll());
  for (const int64_t step : {1, 2, 3})
    expect_equal(Checkpoint::open(scratch / "ckpt" / checkpoint_name(step), Verify::kHashes), State(step));
}

TEST(Checkpoint, a_save_while_another_is_written_can_be_skipped) {
  test::MemoryScratch scratch;
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  test::WatchedFileSystem slow([&](const char*, const std::filesystem::path&) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return go; });
  });
  LocalExchange alone;
  CheckpointWriter writer(slow, alone, test::options_for(scratch / "ckpt"));
  EXPECT_TRUE(writer.save(State(1).trainer, State(1).whole_tensors(), CheckpointWriter::Busy::kSkip));
  EXPECT_FALSE(writer.save(State(2).trainer, State(2).whole_tensors(), CheckpointWriter::Busy::kSkip));
  {
    const std::lock_guard lock(mutex);
    go = true;
  }
  changed.notify_all();
  EXPECT_EQ(writer.wait()->step, 1);
  EXPECT_FALSE(std::filesystem::exists(scratch / "ckpt/step-00000002"));
}

TEST(Checkpoint, the_newest_ones_are_kept_and_older_ones_deleted) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  for (int64_t step = 1; step <= 5; ++step) save(files, scratch / "ckpt", State(step), 2);
  EXPECT_EQ(test::entries(scratch / "ckpt"), (std::vector<std::string>{"latest", "step-00000004", "step-00000005"}));
}

TEST(Checkpoint, synchronous_saves_are_the_same_bytes) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  LocalExchange alone;
  CheckpointOptions options = test::options_for(scratch / "a");
  options.asynchronous = false;
  CheckpointWriter writer(files, alone, options);
  const State state(42);
  writer.save(state.trainer, state.whole_tensors());
  EXPECT_EQ(writer.poll()->outcome, Outcome::kSaved);
  save(files, scratch / "b", state);
  EXPECT_EQ(contents(scratch / "a"), contents(scratch / "b"));
}

TEST(Checkpoint, large_states_are_split_over_files) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  LocalExchange alone;
  CheckpointOptions options = test::options_for(scratch / "ckpt");
  options.max_file_bytes = 400;
  CheckpointWriter writer(files, alone, options);
  const State state(42);
  writer.save(state.trainer, state.whole_tensors());
  ASSERT_EQ(writer.wait()->outcome, Outcome::kSaved);
  EXPECT_TRUE(std::filesystem::exists(scratch / "ckpt/step-00000042/parameters-00001-of-00002.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "ckpt/step-00000042/optimizer-00003-of-00003.safetensors"));
  expect_equal(Checkpoint::open(scratch / "ckpt/step-00000042", Verify::kHashes), state);
}

TEST(Checkpoint, its_size_is_known_beforehand) {
  test::MemoryScratch scratch;
  PosixFileSystem files;
  const State state(42);
  const SaveReport report = save(files, scratch / "ckpt", state);
  const uint64_t tensors = checkpoint_bytes(state.tensors());
  EXPECT_EQ(tensors, std::filesystem::file_size(report.directory / "parameters.safetensors") +
                         std::filesystem::file_size(report.directory / "optimizer.safetensors"));
  EXPECT_LT(report.bytes - tensors, 1000u);
}

// ---- several ranks ------------------------------------------------------------------------------------------------

// An exchange between threads of one process.
struct Meeting {
  explicit Meeting(int n) : slots(static_cast<size_t>(n)) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> slots;
  std::vector<std::string> round;
  size_t arrived = 0;
  uint64_t generation = 0;
};
class ThreadExchange final : public Exchange {
 public:
  ThreadExchange(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_.slots.size()); }
  std::vector<std::string> all_gather(const std::string& mine) override {
    std::unique_lock lock(meeting_.mutex);
    meeting_.slots[static_cast<size_t>(rank_)] = mine;
    const uint64_t now = meeting_.generation;
    if (++meeting_.arrived == meeting_.slots.size()) {
      meeting_.round = meeting_.slots;
      meeting_.arrived = 0;
      ++meeting_.generation;
      meeting_.changed.notify_all();
    } else {
      meeting_.changed.wait(lock, [&] { return meeting_.generation != now; });
    }
    return meeting_.round;
  }
  std::vector<std::string> all_to_all(const std::vector<std::string>&) override {
    throw Error(Exit::kBug, "checkpoints send no messages");
  }

 private:
  Meeting& meeting_;
  int rank_;
};

// What `rank` of `ranks` writes when every tensor is cut into flat runs, as ZeRO cuts it: packed values and their
// boxes.
struct Shard {
  std::vector<StateTensor> tensors;
  std::vector<std::vector<float>> memory;

  Shard(const State& state, int64_t rank, int64_t ranks) : tensors(state.tensors()) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto total = static_cast<int64_t>(state.values[i].size());
      for (const Box& box : boxes_of_run(tensors[i].shape, total * rank / ranks, total * (rank + 1) / ranks)) {
        std::vector<float>& packed = memory.emplace_back();
        for_each_run(tensors[i].shape, box, [&](int64_t offset, int64_t length) {
          packed.insert(packed.end(), state.values[i].begin() + offset, state.values[i].begin() + offset + length);
        });
        tensors[i].pieces.push_back({box, nullptr});
      }
    }
    size_t at = 0;
    for (StateTensor& tensor : tensors) {
      for (StatePiece& piece : tensor.pieces) piece.data = memory[at++].data();
    }
  }
};

std::vector<SaveReport> save_by_ranks(const std::filesystem::path& directory, const State& state, int ranks,
                                      const std::function<FileSystem&(int)>& files, int forgets = -1) {
  Meeting meeting(ranks);
  std::vector<SaveReport> reports(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadExchange exchange(meeting, rank);
      CheckpointWriter writer(files(rank), exchange, test::options_for(directory));
      Shard shard(state, rank, ranks);
      if (rank == forgets) shard.tensors[2].pieces.clear();
      writer.save(state.trainer, shard.tensors);
      reports[static_cast<size_t>(rank)] = writer.wait().value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

TEST(Checkpoint, ranks_that_each_write_their_shard_make_the_same_bytes_as_one_rank) {
  PosixFileSystem files;
  const State state(42);
  test::MemoryScratch scratch;
  save(files, scratch / "one", state);
  for (const int ranks : {2, 3, 11}) {  // 11: more than some tensors have elements
    const auto directory = scratch / ("by" + std::to_string(ranks));
    for (const SaveReport& report : save_by_ranks(directory, state, ranks, [&](int) -> FileSystem& { return files; }))
      EXPECT_EQ(report.outcome, Outcome::kSaved) << report.reason;
    EXPECT_TRUE(contents(directory) == contents(scratch / "one")) << ranks;
  }
}

TEST(Checkpoint, a_shard_that_was_forgotten_is_found_before_the_checkpoint_is_published) {
  PosixFileSystem files;
  test::MemoryScratch scratch;
  for (const SaveReport& report : save_by_ranks(
           scratch / "ckpt", State(42), 3, [&](int) -> FileSystem& { return files; }, 1)) {
    EXPECT_EQ(report.outcome, Outcome::kFailed);
    EXPECT_THAT(report.reason, AllOf(HasSubstr("handed over"), HasSubstr("optimizer.safetensors")));
  }
  EXPECT_TRUE(test::entries(scratch / "ckpt").empty());
}

TEST(Checkpoint, a_disk_that_fails_on_one_rank_fails_the_save_on_all_and_nobody_waits_for_ever) {
  PosixFileSystem good;
  test::MemoryScratch scratch;
  for (int k = 1; k <= 12; ++k) {
    test::WatchedFileSystem bad(test::at_operation(
        k, true,
        [](const char* operation, const std::filesystem::path& path) { throw FileError(ENOSPC, operation, path); }));
    const auto reports = save_by_ranks(scratch / "ckpt", State(42), 3, [&](int rank) -> FileSystem& {
      return rank == 2 ? static_cast<FileSystem&>(bad) : good;
    });
    for (const SaveReport& report : reports) {
      EXPECT_EQ(report.outcome, reports[0].outcome);
      EXPECT_EQ(report.reason, reports[0].reason);
    }
    if (k == 1) {
      EXPECT_EQ(reports[0].outcome, Outcome::kNoSpace);
      EXPECT_TRUE(test::entries(scratch / "ckpt").empty());
    }
  }
}

}  // namespace
}  // namespace lf
