// Promises of lf/plugin_api/collective.h, alone and between two processes.
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "conformance/card.h"

namespace lf::kit {
namespace {

using Api = lf_collective_api;

constexpr uint64_t kElements = 1000;

struct Group {
  Group(Card& owner, int32_t rank, int32_t size, const std::string& id, int64_t timeout_ms = 8000) : card(owner) {
    api = card.bench.table<Api>(LF_COLLECTIVE_INTERFACE);
    auto config = sdk::with_header<lf_communicator_config>();
    config.rank = rank;
    config.size = size;
    config.id = id.data();
    config.id_bytes = id.size();
    config.timeout_ms = timeout_ms;
    config.name = sdk::str("kit");
    card.bench.ask<&Api::create>(api, card.device, static_cast<const lf_communicator_config*>(&config), &handle)
        .must_succeed();
  }
  ~Group() {
    try {
      card.bench.ask<&Api::free>(api, handle);
    } catch (const std::exception&) {
      card.bench.crumb().leave();
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Answer all_reduce(const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction = LF_REDUCE_SUM) {
    return card.bench.ask<&Api::all_reduce>(api, handle, in, out, n, dtype, reduction, lf_stream{});
  }

  Card& card;
  const Api* api = nullptr;
  lf_communicator handle = nullptr;
};

std::string new_id(Bench& b) {
  std::string id;
  const Answer answer = b.ask<&Api::new_id>(b.table<Api>(LF_COLLECTIVE_INTERFACE), sdk::string_sink(id));
  if (answer.code == LF_E_UNSUPPORTED) throw Skip(answer.message);  // the vendor's library is not there, or not whole
  answer.must_succeed();
  expect(!id.empty() && id.size() <= 4096, "lf_collective_api.new_id: expected up to 4096 bytes, got {}", id.size());
  return id;
}

std::vector<uint8_t> floats(float first, float step, uint64_t n = kElements) {
  std::vector<uint8_t> bytes(n * sizeof(float));
  for (uint64_t i = 0; i < n; ++i) {
    const float value = first + step * static_cast<float>(i);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

void ids_differ(Bench& b) {
  Card card(b);
  expect(new_id(b) != new_id(b), "lf_collective_api.new_id: expected two different ids, got one twice");
}

void alone_everything_is_a_copy(Bench& b) {
  Card card(b);
  Group group(card, 0, 1, new_id(b));
  const auto sent = floats(1, 0.5f);
  Block in(card, sent.size()), out(card, sent.size());
  card.upload(in.at(), sent);
  const auto came_back = [&](const char* what) {
    card.synchronize();
    expect_same(card.download(out.at(), sent.size()), sent, what);
    card.fill(out.at(), 0, sent.size());
    card.synchronize();
  };
  const void* from = in.at();
  const uint64_t zero = 0, n = kElements;
  group.all_reduce(from, out.at(), n, LF_DTYPE_F32).must_succeed();
  came_back("all_reduce of one rank");
  b.ask<&Api::reduce_scatter>(group.api, group.handle, from, out.at(), n, int32_t{LF_DTYPE_F32}, int32_t{LF_REDUCE_SUM},
                              lf_stream{})
      .must_succeed();
  came_back("reduce_scatter of one rank");
  b.ask<&Api::all_gather>(group.api, group.handle, from, out.at(), n, int32_t{LF_DTYPE_F32}, lf_stream{})
      .must_succeed();
  came_back("all_gather of one rank");
  b.ask<&Api::broadcast>(group.api, group.handle, from, out.at(), n, int32_t{LF_DTYPE_F32}, 0, lf_stream{})
      .must_succeed();
  came_back("broadcast of one rank");
  b.ask<&Api::all_to_all>(group.api, group.handle, from, &n, &zero, out.at(), &n, &zero, int32_t{LF_DTYPE_F32},
                          lf_stream{})
      .must_succeed();
  came_back("all_to_all of one rank");
}

void state_is_good(Bench& b) {
  Card card(b);
  Group group(card, 0, 1, new_id(b));
  b.ask<&Api::state>(group.api, group.handle).must_succeed();
}

void abort_is_survived(Bench& b) {
  Card card(b);
  Group group(card, 0, 1, new_id(b));
  b.ask<&Api::abort>(group.api, group.handle).may_fail();
  Block in(card, 4096), out(card, 4096);
  group.all_reduce(in.at(), out.at(), 16, LF_DTYPE_F32).must_fail();
}

void bad_ranks_are_refused(Bench& b) {
  Card card(b);
  const std::string id = new_id(b);
  for (const auto& [rank, size] : {std::pair{1, 1}, std::pair{-1, 1}, std::pair{0, 0}}) {
    auto config = sdk::with_header<lf_communicator_config>();
    config.rank = rank;
    config.size = size;
    config.id = id.data();
    config.id_bytes = id.size();
    config.timeout_ms = 1000;
    lf_communicator made = nullptr;
    b.ask<&Api::create>(b.table<Api>(LF_COLLECTIVE_INTERFACE), card.device,
                        static_cast<const lf_communicator_config*>(&config), &made)
        .must_fail();
  }
}

void unknown_types_are_refused(Bench& b) {
  Card card(b);
  Group group(card, 0, 1, new_id(b));
  Block in(card, 4096), out(card, 4096);
  group.all_reduce(in.at(), out.at(), 16, 4711).must_fail();
  group.all_reduce(in.at(), out.at(), 16, LF_DTYPE_F32, 4711).must_fail();
}

// Two processes: this one is rank 0 on card 0, its child rank 1 on card 1. The child's verdict comes by its exit code
// and a pipe.
class Pipe {
 public:
  Pipe() {
    if (pipe(ends_) != 0) throw Skip("no pipe");
  }
  void send(std::string_view text) {
    if (write(ends_[1], text.data(), text.size()) < 0) throw Skip("the pipe is closed");
    close(ends_[1]);
  }
  std::string receive() {  // until the writer closes
    close(ends_[1]);
    std::string text;
    char block[1024];
    for (ssize_t n; (n = read(ends_[0], block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(n));
    return text;
  }

 private:
  int ends_[2];
};

using Body = std::function<void(Group&, int32_t rank)>;

constexpr int kSkippedCode = 3;

[[noreturn]] void run_rank_1(Bench& b, Pipe& id, Pipe& said, const Body& body, int64_t timeout_ms) {
  int code = 0;
  std::string text;
  try {
    Card card(b, 1);
    Group group(card, 1, 2, id.receive(), timeout_ms);
    body(group, 1);
  } catch (const Skip& skip) {
    code = kSkippedCode;
    text = skip.what();
  } catch (const std::exception& error) {
    code = 1;
    text = error.what();
  }
  said.send(text);
  _exit(code);
}

void two_ranks(Bench& b, const Body& body, int64_t timeout_ms = 8000) {
  Pipe id, said;
  const pid_t child = fork();  // before the plugin is started
  if (child == 0) run_rank_1(b, id, said, body, timeout_ms);
  std::string wrong_here, skipped_here;
  {
    Card card(b);
    uint32_t count = 0;
    std::string reason;
    card.ask<&lf_device_api::probe>(&count, sdk::string_sink(reason)).must_succeed();
    if (count >= 2) {
      const std::string made = new_id(b);
      id.send(made);
      try {
        Group group(card, 0, 2, made, timeout_ms);
        body(group, 0);
      } catch (const Skip& skip) {
        skipped_here = skip.what();
      } catch (const std::exception& error) {  // rank 1 may know better why
        wrong_here = error.what();
      }
    } else {
      id.send("");
    }
  }
  const std::string wrong_there = said.receive();
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkippedCode) throw Skip(wrong_there);
  expect(wrong_here.empty(), "rank 0 of 2: {}", wrong_here);
  if (!skipped_here.empty()) throw Skip(skipped_here);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank 1 of 2: {}",
         wrong_there.empty() ? "ended early" : wrong_there);
}

void sums(Bench& b, int32_t reduction) {
  two_ranks(b, [&](Group& group, int32_t rank) {
    Card& card = group.card;
    // Whole numbers: their sum is exact whatever the order.
    const auto sent = floats(rank == 0 ? 1.0f : 1000.0f, rank == 0 ? 1.0f : 2.0f);
    const auto wanted = reduction == LF_REDUCE_SUM ? floats(1001, 3) : floats(1000, 2);
    Block in(card, sent.size()), out(card, sent.size());
    card.upload(in.at(), sent);
    group.all_reduce(in.at(), out.at(), kElements, LF_DTYPE_F32, reduction).must_succeed();
    card.synchronize();
    expect_same(card.download(out.at(), sent.size()), wanted, "all_reduce of two ranks");
    expect_same(card.download(in.at(), sent.size()), sent, "the input of all_reduce");
    group.all_reduce(in.at(), in.at(), kElements, LF_DTYPE_F32, reduction).must_succeed();
    card.synchronize();
    expect_same(card.download(in.at(), sent.size()), wanted, "all_reduce in place");
  });
}

void gathers(Bench& b) {
  two_ranks(b, [&](Group& group, int32_t rank) {
    Card& card = group.card;
    const auto first = floats(0, 1), second = floats(5000, 1);
    auto both = first;
    both.insert(both.end(), second.begin(), second.end());
    Block in(card, first.size()), out(card, both.size());
    card.upload(in.at(), rank == 0 ? first : second);
    const void* from = in.at();
    card.bench
        .ask<&Api::all_gather>(group.api, group.handle, from, out.at(), kElements, int32_t{LF_DTYPE_F32}, lf_stream{})
        .must_succeed();
    card.synchronize();
    expect_same(card.download(out.at(), both.size()), both, "all_gather of two ranks");
  });
}

void scatters(Bench& b) {
  two_ranks(b, [&](Group& group, int32_t rank) {
    Card& card = group.card;
    const auto sent = floats(rank == 0 ? 0.0f : 10000.0f, 1, 2 * kElements);
    Block in(card, sent.size()), out(card, sent.size() / 2);
    card.upload(in.at(), sent);
    const void* from = in.at();
    card.bench
        .ask<&Api::reduce_scatter>(group.api, group.handle, from, out.at(), kElements, int32_t{LF_DTYPE_F32},
                                   int32_t{LF_REDUCE_SUM}, lf_stream{})
        .must_succeed();
    card.synchronize();
    expect_same(card.download(out.at(), sent.size() / 2),
                floats(10000.0f + 2.0f * static_cast<float>(rank) * kElements, 2), "reduce_scatter of two ranks");
  });
}

void sends(Bench& b) {
  two_ranks(b, [&](Group& group, int32_t rank) {
    Card& card = group.card;
    const auto message = floats(3, 7);
    Block block(card, message.size());
    if (rank == 0) {
      card.upload(block.at(), message);
      card.bench
          .ask<&Api::send>(group.api, group.handle, static_cast<const void*>(block.at()), kElements,
                           int32_t{LF_DTYPE_F32}, 1, lf_stream{})
          .must_succeed();
      card.synchronize();
      return;
    }
    card.bench.ask<&Api::receive>(group.api, group.handle, block.at(), kElements, int32_t{LF_DTYPE_F32}, 0, lf_stream{})
        .must_succeed();
    card.synchronize();
    expect_same(card.download(block.at(), message.size()), message, "what rank 0 sent");
  });
}

void broadcasts(Bench& b) {
  two_ranks(b, [&](Group& group, int32_t rank) {
    Card& card = group.card;
    const auto mine = floats(rank == 0 ? 3.0f : 7000.0f, 2), roots = floats(7000, 2);
    Block in(card, mine.size()), out(card, mine.size());
    card.upload(in.at(), mine);
    const auto from_rank_1 = [&](void* to, const char* what) {
      card.bench
          .ask<&Api::broadcast>(group.api, group.handle, static_cast<const void*>(in.at()), to, kElements,
                                int32_t{LF_DTYPE_F32}, 1, lf_stream{})
          .must_succeed();
      card.synchronize();
      expect_same(card.download(to, mine.size()), roots, what);
    };
    from_rank_1(out.at(), "broadcast of rank 1");
    expect_same(card.download(in.at(), mine.size()), mine, "the input of broadcast");
    from_rank_1(in.at(), "broadcast of rank 1 in place");
  });
}

// Parts in elements: what a rank sends to rank 0 and 1, and where they begin, of different sizes, with gaps between.
struct Parts {
  uint64_t counts[2], begins[2];
};

void exchanges(Bench& b, const std::array<Parts, 2>& sent, const std::array<Parts, 2>& received) {
  two_ranks(b, [&](Group& group, int32_t rank) {
    Card& card = group.card;
    const Parts &out_parts = sent[rank], &in_parts = received[rank];
    const auto mine = floats(rank == 0 ? 0.0f : 10000.0f, 1), untouched = floats(-1, 0);
    Block in(card, mine.size()), out(card, mine.size());
    card.upload(in.at(), mine);
    card.upload(out.at(), untouched);
    const Answer answer = card.bench.ask<&Api::all_to_all>(
        group.api, group.handle, static_cast<const void*>(in.at()), &out_parts.counts[0], &out_parts.begins[0],
        out.at(), &in_parts.counts[0], &in_parts.begins[0], int32_t{LF_DTYPE_F32}, lf_stream{});
    if (answer.code == LF_E_UNSUPPORTED) throw Skip(answer.message);
    answer.must_succeed();
    card.synchronize();
    auto wanted = untouched;
    for (size_t peer = 0; peer < 2; ++peer) {
      const float first = (peer == 0 ? 0.0f : 10000.0f) + static_cast<float>(sent[peer].begins[rank]);
      const auto part = floats(first, 1, in_parts.counts[peer]);
      std::copy(part.begin(), part.end(), wanted.begin() + static_cast<int64_t>(in_parts.begins[peer] * sizeof(float)));
    }
    expect_same(card.download(out.at(), mine.size()), wanted, "all_to_all of two ranks");
  });
}

void exchanges_uneven_parts(Bench& b) {
  exchanges(b, {Parts{{3, 700}, {10, 100}}, Parts{{5, 1}, {0, 900}}},
            {Parts{{3, 5}, {0, 400}}, Parts{{700, 1}, {200, 7}}});
}

void exchanges_where_a_rank_has_nothing(Bench& b) {
  exchanges(b, {Parts{{3, 0}, {10, 0}}, Parts{{0, 0}, {0, 0}}}, {Parts{{3, 0}, {20, 0}}, Parts{{0, 0}, {0, 0}}});
}

constexpr int64_t kLongerThanAnyCase = 600'000;  // so that it is abort which ends the waiting

void abort_wakes_a_waiter(Bench& b) {
  two_ranks(
      b,
      [&](Group& group, int32_t rank) {
        Card& card = group.card;
        {
          Group alone(card, 0, 1, new_id(card.bench));
          const Answer answer = card.bench.ask<&Api::abort>(alone.api, alone.handle);
          if (answer.code == LF_E_UNSUPPORTED) throw Skip(answer.message);
        }
        Block block(card, kElements * sizeof(float));
        card.upload(block.at(), floats(1, 1));
        group.all_reduce(block.at(), block.at(), kElements, LF_DTYPE_F32).must_succeed();
        card.synchronize();
        if (rank == 1) _exit(0);  // without a word, as the dead are
        std::atomic<bool> in_flight = false;
        std::thread waiter([&] {  // not through Bench::ask: its breadcrumb is one for the whole process
          lf_err err = sdk::make_err();
          card.api->bind_thread(card.device, &err);
          in_flight = true;
          group.api->all_reduce(group.handle, block.at(), block.at(), kElements, LF_DTYPE_F32, LF_REDUCE_SUM,
                                lf_stream{}, &err);
          card.api->synchronize(card.device, &err);
        });
        while (!in_flight) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that it waits, most likely
        const Answer aborted = card.bench.ask<&Api::abort>(group.api, group.handle);
        card.bench.crumb().enter("lf_collective_api.all_reduce or synchronize of another thread, after abort");
        waiter.join();
        card.bench.crumb().leave();
        aborted.must_succeed();
        group.all_reduce(block.at(), block.at(), kElements, LF_DTYPE_F32).must_fail();
        const auto bytes = pattern(kElements);
        card.upload(block.at(), bytes);
        expect_same(card.download(block.at(), bytes.size()), bytes, "the card's memory after abort");
      },
      kLongerThanAnyCase);
}

}  // namespace

std::vector<Case> collective_cases() {
  return {
      {"ids_of_communicators_differ", ids_differ},
      {"collectives_of_one_rank_are_copies", alone_everything_is_a_copy},
      {"a_fresh_communicator_is_well", state_is_good},
      {"after_abort_collectives_are_refused", abort_is_survived},
      {"ranks_out_of_range_are_refused", bad_ranks_are_refused},
      {"unknown_types_and_reductions_are_refused", unknown_types_are_refused},
      {"two_ranks_add_up", [](Bench& b) { sums(b, LF_REDUCE_SUM); }},
      {"two_ranks_find_the_largest", [](Bench& b) { sums(b, LF_REDUCE_MAX); }},
      {"two_ranks_gather", gathers},
      {"two_ranks_reduce_and_scatter", scatters},
      {"one_rank_receives_what_the_other_sends", sends},
      {"two_ranks_have_what_one_broadcasts", broadcasts},
      {"two_ranks_exchange_parts_of_all_sizes", exchanges_uneven_parts},
      {"two_ranks_exchange_where_one_has_nothing", exchanges_where_a_rank_has_nothing},
      {"abort_wakes_a_rank_whose_peer_is_dead", abort_wakes_a_waiter},
  };
}

}  // namespace lf::kit
