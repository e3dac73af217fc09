#include "conformance/balance_problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "conformance/bench.h"

namespace lf::kit {
namespace {

// Its sequence is fixed by the standard, unlike that of the distributions.
using Random = std::mt19937;

double uniform(Random& random) { return (static_cast<double>(random()) + 0.5) / 4294967296.0; }

double draw_seconds(Random& random, Costs costs) {
  switch (costs) {
    case Costs::kEqual:
      return 1;
    case Costs::kZero:
      return 0;
    case Costs::kLongTail:
      return std::pow(uniform(random), -0.8) - 1 + 0.01;
    case Costs::kUniform:
      return 0.1 + uniform(random);
  }
  return 1;
}

void add_atom(Part& part, uint64_t sample, double seconds, size_t place, int32_t micro_batches) {
  const auto rows = static_cast<int64_t>(1 + std::min(seconds, 1e4) * 50);
  part.sample.push_back(sample);
  part.seconds.push_back(seconds);
  part.rows.push_back(rows);
  part.bytes.push_back(rows * 8);
  part.arrival_replica.push_back(static_cast<int32_t>(place) / micro_batches);
  part.arrival_micro_batch.push_back(static_cast<int32_t>(place) % micro_batches);
}

size_t place_of(const Problem& problem, int32_t replica, int32_t micro_batch) {
  return static_cast<size_t>(replica) * static_cast<size_t>(problem.micro_batches) + static_cast<size_t>(micro_batch);
}

int64_t fullest_arrival(const Problem& problem, const Part& part) {
  std::vector<int64_t> rows(place_of(problem, problem.replicas, 0), 0);
  for (size_t i = 0; i < part.rows.size(); ++i)
    rows[place_of(problem, part.arrival_replica[i], part.arrival_micro_batch[i])] += part.rows[i];
  return *std::max_element(rows.begin(), rows.end());
}

}  // namespace

size_t Problem::atoms() const {
  size_t n = 0;
  for (const Part& part : parts) n += part.sample.size();
  return n;
}

Problem draw(const Drawing& drawing, uint32_t seed) {
  Random random(seed);
  Problem problem;
  problem.replicas = drawing.replicas;
  problem.micro_batches = drawing.micro_batches;
  problem.objective = drawing.objective;
  problem.samples = drawing.samples;
  if (drawing.slow_replica) {
    problem.speed.assign(static_cast<size_t>(drawing.replicas), 1.0);
    problem.speed.back() = 0.5;
  }
  const size_t places = place_of(problem, problem.replicas, 0);
  Part vision, language;
  vision.name = "vision";
  vision.tied = drawing.tied;
  language.name = "language";
  for (uint64_t s = 0; s < drawing.samples; ++s) {
    // At least one in each place where there are enough, as the loader deals them.
    const size_t place = s < places ? s : random() % places;
    add_atom(language, s, draw_seconds(random, drawing.costs), place, problem.micro_batches);
    if (drawing.vision)
      for (uint32_t n = random() % 4; n > 0; --n)
        add_atom(vision, s, draw_seconds(random, drawing.costs), place, problem.micro_batches);
  }
  for (Part* part : {&vision, &language})
    if (drawing.limits && !part->rows.empty()) {
      const int64_t needed = fullest_arrival(problem, *part);
      part->row_limit = drawing.tight ? needed : needed + needed / 4;
    }
  if (drawing.vision) problem.parts.push_back(std::move(vision));
  problem.parts.push_back(std::move(language));
  return problem;
}

Problem permute(const Problem& problem, uint32_t seed) {
  std::vector<uint64_t> order(problem.samples);  // new index -> old one
  std::iota(order.begin(), order.end(), uint64_t{0});
  Random random(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  Problem result = problem;
  for (size_t p = 0; p < problem.parts.size(); ++p) {
    const Part& from = problem.parts[p];
    Part& to = result.parts[p];
    to.sample.clear(), to.seconds.clear(), to.rows.clear(), to.bytes.clear();
    to.arrival_replica.clear(), to.arrival_micro_batch.clear();
    for (uint64_t now = 0; now < order.size(); ++now)
      for (size_t i = 0; i < from.sample.size(); ++i) {
        if (from.sample[i] != order[now]) continue;
        to.sample.push_back(now);
        to.seconds.push_back(from.seconds[i]);
        to.rows.push_back(from.rows[i]);
        to.bytes.push_back(from.bytes[i]);
        to.arrival_replica.push_back(from.arrival_replica[i]);
        to.arrival_micro_batch.push_back(from.arrival_micro_batch[i]);
      }
  }
  return result;
}

void expect_valid(const Problem& problem, const Plan& plan) {
  const size_t places = place_of(problem, problem.replicas, 0);
  const lf_assignment* next = plan.data();
  const lf_assignment* of_samples = plan.data() + plan.size() - problem.samples;
  for (const Part& part : problem.parts) {
    std::vector<std::vector<int32_t>> orders(places);
    std::vector<int64_t> rows(places, 0);
    for (size_t i = 0; i < part.sample.size(); ++i) {
      const lf_assignment& a = next[i];
      expect(
          a.replica >= 0 && a.replica < problem.replicas && a.micro_batch >= 0 && a.micro_batch < problem.micro_batches,
          "plan: atom {} of {} is at replica {}, micro-batch {}; expected a place among {} x {}", i, part.name,
          a.replica, a.micro_batch, problem.replicas, problem.micro_batches);
      const size_t place = place_of(problem, a.replica, a.micro_batch);
      orders[place].push_back(a.order);
      rows[place] += part.rows[i];
      if (part.tied)
        expect(
            a.replica == of_samples[part.sample[i]].replica && a.micro_batch == of_samples[part.sample[i]].micro_batch,
            "plan: atom {} of {} is apart from its sample {}", i, part.name, part.sample[i]);
    }
    for (size_t place = 0; place < places; ++place) {
      std::sort(orders[place].begin(), orders[place].end());
      for (size_t k = 0; k < orders[place].size(); ++k)
        expect(orders[place][k] == static_cast<int32_t>(k),
               "plan: expected each order of 0 to {} once in a place of {}, got {}", orders[place].size() - 1,
               part.name, orders[place][k]);
      expect(part.row_limit == 0 || rows[place] <= part.row_limit,
             "plan: {} rows of {} in replica {}, micro-batch {}, above the limit of {}", rows[place], part.name,
             place / static_cast<size_t>(problem.micro_batches), place % static_cast<size_t>(problem.micro_batches),
             part.row_limit);
      expect(&part != &problem.parts.back() || problem.samples < places || !orders[place].empty(),
             "plan: a place is empty, and {} samples are enough for {} places", problem.samples, places);
    }
    next += part.sample.size();
  }
}

double slowest_replica(const Problem& problem, const Plan& plan) {
  std::vector<double> seconds(static_cast<size_t>(problem.replicas), 0);
  const lf_assignment* next = plan.data();
  for (const Part& part : problem.parts)
    for (const double own : part.seconds) seconds[static_cast<size_t>((next++)->replica)] += own;
  for (size_t r = 0; r < problem.speed.size(); ++r) seconds[r] /= problem.speed[r];
  return *std::max_element(seconds.begin(), seconds.end());
}

BorrowedInput::BorrowedInput(const Problem& problem) : input_(sdk::with_header<lf_balance_input>()) {
  for (const Part& part : problem.parts) {
    auto made = sdk::with_header<lf_balance_part>();
    made.name = sdk::str(part.name);
    made.replicas = problem.replicas;
    made.micro_batches = problem.micro_batches;
    made.tied = part.tied;
    made.row_limit = part.row_limit;
    made.speed = problem.speed.empty() ? nullptr : problem.speed.data();
    made.n_atoms = part.sample.size();
    made.sample = part.sample.data();
    made.seconds = part.seconds.data();
    made.rows = part.rows.data();
    made.bytes = part.bytes.data();
    made.arrival_replica = part.arrival_replica.data();
    made.arrival_micro_batch = part.arrival_micro_batch.data();
    parts_.push_back(made);
  }
  input_.objective = problem.objective;
  input_.n_parts = static_cast<uint32_t>(parts_.size());
  input_.parts = parts_.data();
  input_.n_samples = problem.samples;
  input_.deadline_us = 1'000'000;
}

}  // namespace lf::kit
