#include "comm/group.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/error.h"

namespace lf {
namespace {

class LocalGroup final : public Group {
 public:
  explicit LocalGroup(std::string name) : name_(std::move(name)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }
  Ticket all_reduce_async(void*, int64_t, int32_t, int32_t) override { return Ticket(); }
  Ticket all_to_all_async(const void* in, std::span<const int64_t> send_bytes, void* out,
                          std::span<const int64_t> receive_bytes) override {
    if (send_bytes.size() != 1 || receive_bytes.size() != 1 || send_bytes[0] != receive_bytes[0]) {
      fail(Exit::kBug, "group {}: all-to-all in a group of one must send itself what it receives", name_);
    }
    copy(in, out, send_bytes[0]);
    return Ticket();
  }
  Ticket all_gather_async(const void* in, void* out, int64_t bytes) override {
    copy(in, out, bytes);
    return Ticket();
  }
  Ticket broadcast_async(void*, int64_t, int) override { return Ticket(); }
  void barrier() override {}

 private:
  static void copy(const void* in, void* out, int64_t bytes) {
    if (bytes > 0 && in != out) std::memcpy(out, in, static_cast<size_t>(bytes));
  }
  std::string name_;
};

}  // namespace

// One round carries the lengths and the first bytes; only when somebody has more does a second one follow.
std::vector<std::string> Group::all_gather(const std::string& mine) {
  constexpr size_t kFirst = 2048;
  if (size() == 1) return {mine};
  const size_t ranks = static_cast<size_t>(size());
  const size_t piece = sizeof(uint64_t) + kFirst;
  std::string head(piece, '\0'), heads(piece * ranks, '\0');
  const uint64_t length = mine.size();
  std::memcpy(head.data(), &length, sizeof(length));
  std::memcpy(head.data() + sizeof(length), mine.data(), std::min(mine.size(), kFirst));
  all_gather_async(head.data(), heads.data(), static_cast<int64_t>(piece)).wait();

  std::vector<uint64_t> lengths(ranks);
  std::vector<std::string> all(ranks);
  uint64_t longest = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const char* at = heads.data() + r * piece;
    std::memcpy(&lengths[r], at, sizeof(uint64_t));
    longest = std::max(longest, lengths[r]);
    all[r].assign(at + sizeof(uint64_t), std::min<uint64_t>(lengths[r], kFirst));
  }
  if (longest <= kFirst) return all;

  const size_t rest = longest - kFirst;
  std::string tail(rest, '\0'), tails(rest * ranks, '\0');
  if (mine.size() > kFirst) std::memcpy(tail.data(), mine.data() + kFirst, mine.size() - kFirst);
  all_gather_async(tail.data(), tails.data(), static_cast<int64_t>(rest)).wait();
  for (size_t r = 0; r < ranks; ++r) {
    if (lengths[r] > kFirst) all[r].append(tails, r * rest, lengths[r] - kFirst);
  }
  return all;
}

// The lengths first, then every message once, straight to who it is for.
std::vector<std::string> Group::all_to_all(const std::vector<std::string>& to) {
  if (to.size() != static_cast<size_t>(size()))
    fail(Exit::kBug, "group {}: {} messages for {} ranks", name(), to.size(), size());
  if (size() == 1) return to;
  const std::vector<int64_t> one(to.size(), sizeof(int64_t));
  std::vector<int64_t> send, receive(to.size());
  std::string out;
  for (const std::string& message : to) {
    send.push_back(static_cast<int64_t>(message.size()));
    out += message;
  }
  all_to_all_async(send.data(), one, receive.data(), one).wait();
  std::string in(static_cast<size_t>(std::accumulate(receive.begin(), receive.end(), int64_t{0})), '\0');
  all_to_all_async(out.data(), send, in.data(), receive).wait();
  std::vector<std::string> from;
  size_t at = 0;
  for (const int64_t bytes : receive) {
    from.push_back(in.substr(at, static_cast<size_t>(bytes)));
    at += static_cast<size_t>(bytes);
  }
  return from;
}

void Group::all_reduce(std::span<float> values, int32_t reduction) {
  all_reduce_async(values.data(), static_cast<int64_t>(values.size()), LF_DTYPE_F32, reduction).wait();
}

void Group::all_reduce(std::span<double> values, int32_t reduction) {
  all_reduce_async(values.data(), static_cast<int64_t>(values.size()), LF_DTYPE_F64, reduction).wait();
}

std::unique_ptr<Group> local_group(std::string name) { return std::make_unique<LocalGroup>(std::move(name)); }

}  // namespace lf
