#include "load/sample_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "load/common_error.h"

namespace lf {
namespace {

constexpr uint64_t kWindowPerRank = 32;
constexpr uint64_t kChunk = 4;  // samples of one task: a text sample takes about 0.1 ms

}  // namespace

GatheredStream::GatheredStream(Sources sources, uint64_t position, uint64_t end)
    : sources_(std::move(sources)),
      fetched_(position),
      end_(end),
      window_(kWindowPerRank * static_cast<uint64_t>(sources_.exchange.size())) {}

void GatheredStream::expect(uint64_t samples_of_a_step) {
  window_ = std::max(kWindowPerRank * static_cast<uint64_t>(sources_.exchange.size()), samples_of_a_step);
}

const JudgedSample* GatheredStream::peek() {
  if (ready_.empty()) fetch();
  return ready_.empty() ? nullptr : &ready_.front();
}

JudgedSample GatheredStream::pop() {
  JudgedSample out = std::move(ready_.front());
  ready_.pop_front();
  return out;
}

void GatheredStream::fetch() {
  const auto ranks = static_cast<uint64_t>(sources_.exchange.size());
  uint64_t last = fetched_ + window_;
  if (end_ != 0) last = std::min(last, std::max(end_, fetched_));
  if (last == fetched_ || stopped_) return;
  const std::vector<std::string> shares =
      gather_or_fail(sources_.exchange, {"sample", static_cast<int64_t>(fetched_)}, [&] {
        const std::string share = judge_share(fetched_, last);
        // Ranks are asked at different moments: what one says here ends the stream on all.
        const bool stop = asked_to_stop();
        WireWriter mine;
        mine.put(static_cast<uint8_t>(stop));
        return mine.take() + (stop ? std::string() : share);
      });
  std::vector<WireReader> readers(shares.begin(), shares.end());
  for (WireReader& reader : readers) stopped_ |= reader.get<uint8_t>() != 0;
  if (stopped_) return;
  for (uint64_t position = fetched_; position < last; ++position) {
    ready_.push_back(get_judged(readers[position % ranks], sources_.model.components().size()));
    if (ready_.back().position != position || ready_.back().index != sources_.order.at(position))
      fail(Exit::kBug,
           "loader: rank {} sees sample {} of the data set at {}, this rank {}; are the data sets the same?",
           position % ranks, ready_.back().index, position, sources_.order.at(position));
  }
  fetched_ = last;
}

// Of the positions that are this rank's modulo the number of ranks.
std::string GatheredStream::judge_share(uint64_t first, uint64_t last) {
  const auto ranks = static_cast<uint64_t>(sources_.exchange.size()),
             mine = static_cast<uint64_t>(sources_.exchange.rank());
  std::vector<uint64_t> positions;
  for (uint64_t position = first; position < last; ++position)
    if (position % ranks == mine) positions.push_back(position);

  std::vector<std::future<std::string>> chunks;
  for (size_t at = 0; at < positions.size(); at += kChunk) {
    const size_t to = std::min(at + kChunk, positions.size());
    std::vector<uint64_t> chunk(positions.begin() + static_cast<std::ptrdiff_t>(at),
                                positions.begin() + static_cast<std::ptrdiff_t>(to));
    chunks.push_back(sources_.workers.submit(true, [this, chunk = std::move(chunk)] {
      WireWriter out;
      if (asked_to_stop()) return out.take();  // nobody will read it
      for (const uint64_t position : chunk)
        put(out, judge(sources_.dataset, sources_.model, sources_.options, position, sources_.order.at(position)));
      return out.take();
    }));
  }
  for (auto& chunk : chunks) chunk.wait();  // all of them, before any throws: tasks use what is here
  std::string share;
  for (auto& chunk : chunks) share += chunk.get();
  return share;
}

}  // namespace lf
