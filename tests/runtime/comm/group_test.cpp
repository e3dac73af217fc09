// Groups of forked ranks over Gloo: what collectives compute, and how they end when a rank does.
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>

#include "comm/rendezvous.h"
#include "core/error.h"
#include "launch/store_server.h"
#include "support/file_store.h"
#include "support/run_ranks.h"

using lf::test::FileStore;
using lf::test::run_ranks;
using lf::test::ScratchFolder;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

namespace {

// What a passive wait would take is the timeout below; the ways out take some 20 ms, and this leaves room for a machine
// that is busy with other tests.
constexpr double kSoonSeconds = 7;

lf::RendezvousConfig config_of(int rank, int size) {
  lf::RendezvousConfig config;
  config.rank = rank;
  config.size = size;
  config.form_timeout = 15s;
  config.timeout = 15s;
  return config;
}

// Runs work(rendezvous, rank) on forked ranks that share a store.
std::vector<lf::test::RankOutcome> with_ranks(int size, const std::function<std::string(lf::Rendezvous&, int)>& work) {
  ScratchFolder folder;
  return run_ranks(size, [&](int rank) {
    lf::Rendezvous rendezvous(config_of(rank, size), std::make_shared<FileStore>(folder.path()));
    return work(rendezvous, rank);
  });
}

uint64_t digest(const void* data, size_t bytes) {
  uint64_t hash = 1469598103934665603ull;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ull;
  return hash;
}

class Ranks : public ::testing::TestWithParam<int> {};

}  // namespace

TEST_P(Ranks, an_all_reduce_gives_every_rank_the_sum_and_the_same_bits) {
  const int size = GetParam();
  const auto outcomes = with_ranks(size, [&](lf::Rendezvous& rendezvous, int rank) {
    auto group = rendezvous.group("dp");
    std::vector<float> values(100'003);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.1 * static_cast<double>(i) + rank);
    group->all_reduce(values);
    for (size_t i = 0; i < values.size(); i += 997) {
      double expected = 0;
      for (int r = 0; r < size; ++r) expected += static_cast<float>(std::sin(0.1 * static_cast<double>(i) + r));
      if (std::abs(values[i] - expected) > 1e-6) return fmt::format("element {}: {} not {}", i, values[i], expected);
    }
    std::vector<double> exact{1.0 * rank, 10.0 - rank};
    group->all_reduce(exact, LF_REDUCE_MAX);
    return fmt::format("{} {} {}", digest(values.data(), values.size() * 4), exact[0], exact[1]);
  });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
    EXPECT_EQ(outcome.text, outcomes[0].text);
    EXPECT_THAT(outcome.text, HasSubstr(fmt::format(" {} 10", size - 1)));
  }
}

TEST_P(Ranks, gathered_bytes_come_by_rank_whatever_their_sizes) {
  const int size = GetParam();
  const auto outcomes = with_ranks(size, [&](lf::Rendezvous& rendezvous, int rank) {
    auto group = rendezvous.group("loader");
    for (size_t unit : {0, 1, 700, 5000}) {  // below, across and above the first round's length
      const auto all = group->all_gather(std::string(unit * static_cast<size_t>(rank), static_cast<char>('a' + rank)));
      for (int r = 0; r < size; ++r) {
        if (all[r] != std::string(unit * static_cast<size_t>(r), static_cast<char>('a' + r))) {
          return fmt::format("rank {} got {} bytes of rank {}", rank, all[r].size(), r);
        }
      }
    }
    return std::string("ok");
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "ok");
}

TEST_P(Ranks, messages_reach_the_rank_they_are_for_whatever_their_sizes) {
  const int size = GetParam();
  const auto outcomes = with_ranks(size, [&](lf::Rendezvous& rendezvous, int rank) {
    auto group = rendezvous.group("loader");
    const auto message = [&](size_t unit, int from, int to) {
      return std::string(unit * static_cast<size_t>(from * size + to), static_cast<char>('a' + from));
    };
    for (size_t unit : {0, 1, 5000}) {
      std::vector<std::string> to;
      for (int peer = 0; peer < size; ++peer) to.push_back(message(unit, rank, peer));
      const auto from = group->all_to_all(to);
      for (int peer = 0; peer < size; ++peer)
        if (from.at(peer) != message(unit, peer, rank))
          return fmt::format("rank {} got {} bytes of rank {}", rank, from[peer].size(), peer);
    }
    return std::string("ok");
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "ok");
}

TEST_P(Ranks, an_all_to_all_moves_uneven_pieces_and_a_broadcast_reaches_all) {
  const int size = GetParam();
  const auto outcomes = with_ranks(size, [&](lf::Rendezvous& rendezvous, int rank) {
    auto group = rendezvous.group("dp");
    // Rank r sends r * peer bytes of value 16 r + peer to each peer.
    std::vector<int64_t> send(size), receive(size);
    std::string in, expected;
    for (int peer = 0; peer < size; ++peer) {
      send[peer] = receive[peer] = rank * peer;
      in += std::string(rank * peer, static_cast<char>(16 * rank + peer));
      expected += std::string(rank * peer, static_cast<char>(16 * peer + rank));
    }
    std::string out(in.size(), 'x');
    auto first = group->all_to_all_async(in.data(), send, out.data(), receive);
    int64_t word = rank == size - 1 ? 4711 : 0;
    auto second = group->broadcast_async(&word, sizeof(word), size - 1);
    second.wait();
    first.wait();
    group->barrier();
    return fmt::format("{} {}", out == expected, word);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "true 4711");
}

INSTANTIATE_TEST_SUITE_P(of, Ranks, ::testing::Values(1, 2, 3, 4));

std::string what_a_barrier_throws(lf::Group& group) {
  try {
    group.barrier();
  } catch (const lf::Error& error) {
    return error.what();
  }
  return "nothing happened";
}

TEST(group, several_reductions_run_at_once_and_finish_in_any_order) {
  const auto outcomes = with_ranks(2, [](lf::Rendezvous& rendezvous, int rank) {
    auto group = rendezvous.group("dp");
    std::vector<std::vector<float>> buffers(8, std::vector<float>(200'000, static_cast<float>(rank + 1)));
    std::vector<lf::Ticket> tickets;
    for (auto& buffer : buffers) {
      tickets.push_back(
          group->all_reduce_async(buffer.data(), static_cast<int64_t>(buffer.size()), LF_DTYPE_F32, LF_REDUCE_SUM));
    }
    for (size_t i = tickets.size(); i-- > 0;) tickets[i].wait();
    float sum = 0;
    for (auto& buffer : buffers) sum += buffer.front() + buffer.back();
    return std::to_string(static_cast<int>(sum));
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "48");
}

TEST(group, two_groups_are_used_by_two_threads_at_once) {
  const auto outcomes = with_ranks(3, [](lf::Rendezvous& rendezvous, int rank) {
    auto dp = rendezvous.group("dp");
    auto loader = rendezvous.group("loader");
    std::atomic<int> gathered{0};
    std::thread thread([&] {
      for (int i = 0; i < 50; ++i) gathered += static_cast<int>(loader->all_gather(std::to_string(rank)).size());
    });
    float total = 0;
    for (int i = 0; i < 50; ++i) {
      std::vector<float> value{1.0f};
      dp->all_reduce(value);
      total += value[0];
    }
    thread.join();
    return fmt::format("{} {}", gathered.load(), total);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "150 150");
}

// The survivors wait for the victim (in a collective that it never enters, or in the middle of a large one).
TEST(group, a_killed_rank_ends_a_collective_of_the_others_within_a_second_and_is_named) {
  for (int victim : {0, 1, 3}) {
    ScratchFolder folder;
    const auto outcomes = run_ranks(4, [&](int rank) -> std::string {
      lf::Rendezvous rendezvous(config_of(rank, 4), std::make_shared<FileStore>(folder.path()));
      auto group = rendezvous.group("dp");
      std::vector<float> values(16 << 20);
      group->all_reduce(std::span(values).first(1000));
      const auto start = std::chrono::steady_clock::now();
      std::thread killer;
      if (rank == victim) {
        killer = std::thread([] {
          std::this_thread::sleep_for(20ms);
          kill(getpid(), SIGKILL);
        });
      }
      try {
        for (int i = 0; i < 100; ++i) group->all_reduce(values);
        return "nothing happened";
      } catch (const lf::Error& error) {
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return fmt::format("{} {} {}", error.exit() == lf::Exit::kUnavailable, seconds < kSoonSeconds ? "soon" : "late",
                           error.what());
      }
    });
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) {
        EXPECT_EQ(outcomes[rank].signal, SIGKILL);
        continue;
      }
      EXPECT_EQ(outcomes[rank].exit_code, 0) << outcomes[rank].text;
      EXPECT_THAT(outcomes[rank].text, HasSubstr("true soon group g0/dp: all-reduce failed"));
      EXPECT_THAT(outcomes[rank].text, HasSubstr(fmt::format("rank {} is gone", victim)));
    }
  }
}

TEST(group, a_rank_that_says_why_it_goes_down_is_quoted_by_the_others) {
  const auto outcomes = with_ranks(3, [](lf::Rendezvous& rendezvous, int rank) -> std::string {
    auto group = rendezvous.group("dp");
    try {
      if (rank == 1) {
        rendezvous.announce_failure("train.jsonl:7: no such image");
        throw std::runtime_error("unwinding");
      }
      group->barrier();
      return "nothing happened";
    } catch (const lf::Error& error) {
      return error.what();
    }
  });
  EXPECT_EQ(outcomes[1].text, "unwinding");
  for (int rank : {0, 2}) {
    EXPECT_THAT(outcomes[rank].text, HasSubstr("first of all, rank 1: train.jsonl:7: no such image"));
  }
}

TEST(group, a_cancelled_rendezvous_ends_a_wait_although_all_peers_live) {
  ScratchFolder folder;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    auto store = std::make_shared<FileStore>(folder.path());
    lf::Rendezvous rendezvous(config_of(rank, 2), store);
    auto group = rendezvous.group("dp");
    if (rank == 1) {  // lives, and takes no part, until rank 0 has given up
      while (!store->get("rank 0 is out")) std::this_thread::sleep_for(5ms);
      return "waited";
    }
    std::thread watcher([&] {
      std::this_thread::sleep_for(50ms);
      rendezvous.cancel("rank 1 gave no heartbeat for 1 s");
    });
    const std::string text = what_a_barrier_throws(*group);
    watcher.join();
    store->set("rank 0 is out", "1");
    return text;
  });
  EXPECT_THAT(outcomes[0].text, HasSubstr("group g0/dp: barrier failed on rank 0: rank 1 gave no heartbeat for 1 s"));
  EXPECT_EQ(outcomes[1].text, "waited");
}

TEST(group, an_aborted_gathering_throws_on_its_own_rank_and_leaves_no_word_of_failure) {
  const auto outcomes = with_ranks(2, [](lf::Rendezvous& rendezvous, int rank) -> std::string {
    auto loader = rendezvous.group("loader");
    auto dp = rendezvous.group("dp");
    std::string text;
    if (rank == 0) {
      std::thread stopper([&] {
        std::this_thread::sleep_for(50ms);
        loader->abort();
      });
      try {
        loader->all_gather("x");
      } catch (const lf::Error& error) {
        text = error.what();
      }
      stopper.join();
    }
    std::vector<float> value{1.0f};
    dp->all_reduce(value);  // the other groups go on
    dp->barrier();
    return fmt::format("{} {}", value[0], text);
  });
  EXPECT_THAT(outcomes[0].text, HasSubstr("2 group g0/loader: all-gather failed on rank 0: this rank aborted it"));
  EXPECT_EQ(outcomes[1].text, "2 ");
}

TEST(group, a_rank_that_is_late_beyond_the_timeout_is_an_error_and_not_a_hang) {
  ScratchFolder folder;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    auto store = std::make_shared<FileStore>(folder.path());
    auto config = config_of(rank, 2);
    config.timeout = 2s;
    lf::Rendezvous rendezvous(config, store);
    auto group = rendezvous.group("dp");
    if (rank == 1) {
      while (!store->get("rank 0 is out")) std::this_thread::sleep_for(5ms);
      return "waited";
    }
    const std::string text = what_a_barrier_throws(*group);
    store->set("rank 0 is out", "1");
    return text;
  });
  EXPECT_THAT(outcomes[0].text, HasSubstr("group g0/dp: barrier failed"));
  EXPECT_EQ(outcomes[1].text, "waited");
}

TEST(group, a_rank_that_was_stopped_is_named_by_all_that_wait_for_it) {
  ScratchFolder folder;
  const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
    auto store = std::make_shared<FileStore>(folder.path());
    auto config = config_of(rank, 3);
    config.timeout = 2s;
    lf::Rendezvous rendezvous(config, store);
    auto group = rendezvous.group("dp");
    if (rank == 1) {
      store->set("stopping", std::to_string(getpid()));
      raise(SIGSTOP);
      return "went on";
    }
    const std::string text = what_a_barrier_throws(*group);
    store->set(fmt::format("rank {} is out", rank), "1");
    while (!store->get("rank 0 is out") || !store->get("rank 2 is out")) std::this_thread::sleep_for(5ms);
    if (rank == 0) kill(std::stoi(store->get("stopping").value()), SIGCONT);
    return text;
  });
  for (const size_t rank : {0, 2})
    EXPECT_THAT(outcomes[rank].text, HasSubstr("rank 1 did not take part within 2 s, and is silent")) << rank;
  EXPECT_EQ(outcomes[1].text, "went on");
}

TEST(group, a_rank_at_long_work_is_waited_for_beyond_the_timeout) {
  ScratchFolder folder;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    auto config = config_of(rank, 2);
    config.timeout = 1s;
    lf::Rendezvous rendezvous(config, std::make_shared<FileStore>(folder.path()));
    auto group = rendezvous.group("dp");
    if (rank == 0) {
      const auto work = rendezvous.long_work("writing a checkpoint");
      std::this_thread::sleep_for(5s);
    }
    group->barrier();
    return "met";
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "met");
}

TEST(group, a_rank_that_was_stopped_in_the_midst_of_long_work_is_not_waited_for) {
  ScratchFolder folder;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    auto store = std::make_shared<FileStore>(folder.path());
    auto config = config_of(rank, 2);
    config.timeout = 1s;
    lf::Rendezvous rendezvous(config, store);
    auto group = rendezvous.group("dp");
    if (rank == 0) {
      const auto work = rendezvous.long_work("writing a checkpoint");
      store->set("stopping", std::to_string(getpid()));
      raise(SIGSTOP);
      return "went on";
    }
    const std::string text = what_a_barrier_throws(*group);
    kill(std::stoi(store->get("stopping").value()), SIGCONT);
    return text;
  });
  EXPECT_THAT(outcomes[1].text, HasSubstr("rank 0 did not take part within 1 s, and is silent"));
}

TEST(group, a_rank_that_leaves_in_good_order_does_not_disturb_the_others) {
  const auto outcomes = with_ranks(3, [](lf::Rendezvous& rendezvous, int rank) {
    auto group = rendezvous.group("dp");
    for (int i = 0; i < 20; ++i) {
      auto each = rendezvous.group(fmt::format("short{}", i));
      std::vector<float> value{1.0f};
      each->all_reduce(value);
      if (value[0] != 3.0f) return std::string("wrong sum");
    }
    // Rank 0 is done with its part of the broadcast at once; the others are late for it.
    int64_t word = rank == 0 ? 5 : 0;
    if (rank != 0) std::this_thread::sleep_for(100ms);
    group->broadcast_async(&word, sizeof(word), 0).wait();
    return std::to_string(word);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "5");
}

TEST(rendezvous, a_rank_that_never_comes_is_an_error_that_names_the_group_and_the_time) {
  ScratchFolder folder;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    auto config = config_of(rank, 3);
    config.form_timeout = 1500ms;
    lf::Rendezvous rendezvous(config, std::make_shared<FileStore>(folder.path()));
    try {
      rendezvous.group("dp");
    } catch (const lf::Error& error) {
      return error.what();
    }
    return "formed";
  });
  for (const auto& outcome : outcomes) {
    EXPECT_THAT(outcome.text, HasSubstr("group g0/dp"));
    EXPECT_THAT(outcome.text, HasSubstr("rank 2 did not come within 1.5 s"));
  }
}

TEST(rendezvous, a_failure_elsewhere_ends_the_forming_of_a_group) {
  const auto outcomes = with_ranks(3, [](lf::Rendezvous& rendezvous, int rank) -> std::string {
    if (rank == 2) {
      rendezvous.announce_failure("no memory");
      return "told";
    }
    const auto start = std::chrono::steady_clock::now();
    try {
      rendezvous.group("dp");
    } catch (const lf::Error& error) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      return fmt::format("{} {}", seconds < kSoonSeconds ? "soon" : "late", error.what());
    }
    return "formed";
  });
  for (int rank : {0, 1}) {
    EXPECT_THAT(outcomes[rank].text, HasSubstr("soon"));
    EXPECT_THAT(outcomes[rank].text, HasSubstr("rank 2: no memory"));
  }
}

TEST(rendezvous, a_tls_transport_that_encrypts_nothing_is_refused) {
  setenv("GLOO_DEVICE_TRANSPORT", "TCP_TLS", 1);
  try {
    lf::Rendezvous rendezvous(config_of(0, 1), nullptr);
    ADD_FAILURE() << "not refused";
  } catch (const lf::Error& error) {
    EXPECT_EQ(error.exit(), lf::Exit::kConfig);
    EXPECT_THAT(error.what(), HasSubstr("not encrypted: use a private network or WireGuard"));
  }
  unsetenv("GLOO_DEVICE_TRANSPORT");
}

TEST(rendezvous, nothing_listens_beyond_loopback) {
  const auto outcomes = with_ranks(2, [](lf::Rendezvous& rendezvous, int rank) {
    auto group = rendezvous.group("dp");
    // /proc/net/tcp: local address, remote address, state (0A: listening), ..., inode; our sockets by their inodes.
    std::set<std::string> own;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      own.insert(std::filesystem::read_symlink(entry.path(), ignored).string());
    }
    int listening = 0, open = 0;
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      std::ifstream file(table);
      std::string line;
      std::getline(file, line);
      while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string slot, local, remote, state, skip, inode;
        words >> slot >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
        if (state != "0A" || !own.contains("socket:[" + inode + "]")) continue;
        ++listening;
        if (local.rfind("0100007F:", 0) != 0) ++open;
      }
    }
    group->barrier();
    return fmt::format("{} {} rank {}", listening > 0, open, rank);
  });
  EXPECT_EQ(outcomes[0].text, "true 0 rank 0");
  EXPECT_EQ(outcomes[1].text, "true 0 rank 1");
}

TEST(tcp_store, it_serves_the_ranks_on_the_address_it_was_told_and_on_no_other) {
  const uint16_t port = 29000 + static_cast<uint16_t>(getpid() % 5000);
  const auto outcomes = run_ranks(3, [&](int rank) {
    auto store = lf::open_tcp_store({"127.0.0.1", port, rank == 0}, 10s);
    auto config = config_of(rank, 3);
    config.address = lf::local_address_towards("127.0.0.1", port);
    lf::Rendezvous rendezvous(config, store);
    auto group = rendezvous.group("dp");
    const bool absent = !store->get("nothing").has_value();
    const int64_t sum = store->add("counter", 5);
    group->barrier();
    const std::string counter = store->get("counter").value();
    int reachable = 0;
    if (rank == 0) {  // another loopback address: a server on all interfaces would answer there too
      const int other = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_port = htons(port);
      at.sin_addr.s_addr = htonl(0x7f000002);
      reachable = connect(other, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0;
    }
    group->barrier();  // the server leaves last
    return fmt::format("{} {} {} {}", absent, sum % 5, counter, reachable);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "true 0 15 0");
}

TEST(open_store, ranks_meet_at_the_store_that_a_launcher_serves_and_at_a_tcp_one) {
  lf::StoreServer server;
  const std::string unix_place = "unix:" + server.path().string();
  const std::string tcp_place = fmt::format("tcp:127.0.0.1:{}", 20000 + getpid() % 5000);
  for (const std::string& place : {unix_place, tcp_place}) {
    const pid_t launcher = fork();
    if (launcher == 0) {
      for (;;) {
        pollfd ready{server.event_fd(), POLLIN, 0};
        poll(&ready, 1, server.wait_limit_ms());
        server.serve();
      }
    }
    const auto outcomes = run_ranks(3, [&](int rank) {
      server.close_in_child();
      const auto meeting = lf::open_store(place, rank == 0, 10s);
      auto config = config_of(rank, 3);
      config.address = meeting.listen_address;
      lf::Rendezvous rendezvous(config, meeting.store);
      auto group = rendezvous.group("dp");
      std::vector<float> value{static_cast<float>(rank)};
      group->all_reduce(value);
      group->barrier();
      return fmt::format("{} {}", meeting.listen_address, value[0]);
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.text, "127.0.0.1 3") << place;
    kill(launcher, SIGKILL);
    waitpid(launcher, nullptr, 0);
  }
}

TEST(open_store, a_place_that_is_none_is_refused) {
  for (const char* place : {"", "tcp:host", "tcp::1", "tcp:host:99999", "tcp:host:x", "udp:host:1"}) {
    try {
      lf::open_store(place, false, 1s);
      ADD_FAILURE() << place;
    } catch (const lf::Error& error) {
      EXPECT_EQ(error.exit(), lf::Exit::kConfig) << place;
      EXPECT_THAT(error.what(), HasSubstr("expected unix:PATH or tcp:HOST:PORT"));
    }
  }
}

TEST(tcp_store, a_server_that_never_comes_is_one_clear_error_and_a_stop_is_heard_meanwhile) {
  const uint16_t port = 25000 + static_cast<uint16_t>(getpid() % 3000);
  const auto refusal = [&](const lf::StopRequested& stop) {
    try {
      lf::open_tcp_store({"127.0.0.1", port, false}, 300ms, stop);
    } catch (const lf::Error& error) {
      return std::pair(error.exit(), std::string(error.what()));
    }
    return std::pair(lf::Exit::kDone, std::string());
  };
  const auto [exit, text] = refusal({});
  EXPECT_EQ(exit, lf::Exit::kUnavailable);
  EXPECT_EQ(text,
            fmt::format("no store at MASTER_ADDR=127.0.0.1 MASTER_PORT={} within 0.3 s: Connection refused; check "
                        "that rank 0 runs there",
                        port));
  EXPECT_EQ(refusal([] { return true; }).first, lf::Exit::kSavedRunAgain);
}

TEST(tcp_store, a_server_that_is_no_store_is_given_up_in_time) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size);
  try {
    lf::open_tcp_store({"127.0.0.1", ntohs(at.sin_port), false}, 300ms);
    ADD_FAILURE() << "opened";
  } catch (const lf::Error& error) {
    EXPECT_EQ(error.exit(), lf::Exit::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("no store at MASTER_ADDR=127.0.0.1"));
  }
  close(listener);
}

TEST(tcp_store, an_address_that_is_not_of_this_host_is_named) {
  try {
    lf::open_tcp_store({"192.0.2.1", 29511, true}, 1s);  // TEST-NET-1, RFC 5737
    ADD_FAILURE() << "served";
  } catch (const lf::Error& error) {
    EXPECT_EQ(error.exit(), lf::Exit::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("MASTER_ADDR=192.0.2.1"));
  }
}
