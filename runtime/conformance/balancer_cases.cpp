// Promises of lf/plugin_api/balancer.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "conformance/balance_problem.h"
#include "conformance/bench.h"

namespace lf::kit {
namespace {

using Api = lf_balancer_api;

class Policy {
 public:
  explicit Policy(Bench& b, std::string_view options = "{}") : bench(b) {
    api = bench.table<Api>(LF_BALANCER_INTERFACE);
    bench.ask<&Api::create>(api, bench.host().table(), sdk::str(options), &handle).must_succeed();
  }
  ~Policy() {
    try {
      bench.ask<&Api::destroy>(api, handle);
    } catch (const std::exception&) {
      bench.crumb().leave();
    }
  }
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  Answer ask(const Problem& problem, Plan& plan) {
    const BorrowedInput input(problem);
    plan.assign(problem.atoms() + kGuard, kUntouched);
    auto report = sdk::with_header<lf_balance_report>();
    const Answer answer = bench.ask<&Api::plan>(api, handle, input.get(), plan.data(), &report);
    for (size_t i = problem.atoms(); i < plan.size(); ++i)
      expect(std::memcmp(&plan[i], &kUntouched, sizeof kUntouched) == 0,
             "lf_balancer_api.plan: expected {} assignments, got one written behind them", problem.atoms());
    plan.resize(problem.atoms());
    return answer;
  }
  Plan plan(const Problem& problem) {
    Plan plan;
    ask(problem, plan).must_succeed();
    expect_valid(problem, plan);
    return plan;
  }

  Bench& bench;
  const Api* api = nullptr;
  lf_balancer handle = nullptr;

 private:
  static constexpr size_t kGuard = 4;
  static constexpr lf_assignment kUntouched = {0x5A5A5A5A, 0x5A5A5A5A, 0x5A5A5A5A, 0x5A5A5A5A};
};

bool same(const Plan& a, const Plan& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

void plans(Bench& b, const Drawing& drawing, uint32_t seeds = 5) {
  b.start();
  Policy policy(b);
  for (uint32_t seed = 1; seed <= seeds; ++seed) policy.plan(draw(drawing, seed));
}

void offers_required(Bench& b) {
  const auto* api = b.table<Api>(LF_BALANCER_INTERFACE);
  expect(b.has<&Api::create>(api) && b.has<&Api::destroy>(api) && b.has<&Api::plan>(api),
         "expected create, destroy and plan, got a null among them");
}

void unknown_options_are_refused(Bench& b) {
  b.start();
  const auto* api = b.table<Api>(LF_BALANCER_INTERFACE);
  lf_balancer handle = nullptr;
  for (const char* options : {R"({"no_such_option_anywhere": 1})", "{", "[]", "nonsense"})
    b.ask<&Api::create>(api, b.host().table(), sdk::str(options), &handle).must_fail();
}

void no_options_are_fine(Bench& b) {
  b.start();
  Policy none(b, ""), empty(b, "{}");
}

void the_same_input_gives_the_same_plan(Bench& b) {
  b.start();
  Policy policy(b);
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    const Problem problem = draw({.samples = 120}, seed);
    const Plan first = policy.plan(problem);
    policy.plan(draw({.samples = 50}, 99 + seed));  // what was asked between must not matter
    expect(same(first, policy.plan(problem)), "plan: expected the same plan for the same input, got another one");
  }
}

void two_instances_agree(Bench& b) {
  b.start();
  Policy first(b);
  first.plan(draw({.samples = 64}, 5));
  Policy second(b);  // another rank's
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    const Problem problem = draw({.samples = 120}, seed);
    expect(same(first.plan(problem), second.plan(problem)), "plan: expected one plan from two instances, got two");
  }
}

void threads_agree(Bench& b) {
  b.start();
  Policy policy(b);
  const Problem problem = draw({.samples = 300}, 3);
  const Plan wanted = policy.plan(problem);
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  b.crumb().enter("lf_balancer_api.plan on 4 threads");
  for (std::string& said : wrong)
    threads.emplace_back([&] {  // not through Bench::ask: its breadcrumb is one for the whole process
      const BorrowedInput input(problem);
      Plan plan(problem.atoms());
      auto report = sdk::with_header<lf_balance_report>();
      lf_err err = sdk::make_err();
      for (int i = 0; i < 5; ++i) {
        if (policy.api->plan(policy.handle, input.get(), plan.data(), &report, &err) != LF_OK)
          said = err.message;
        else if (!same(plan, wanted))
          said = "another plan";
      }
    });
  for (std::thread& thread : threads) thread.join();
  b.crumb().leave();
  for (const std::string& said : wrong) expect(said.empty(), "plan from 4 threads at once: {}", said);
}

void the_input_is_left_alone(Bench& b) {
  b.start();
  Policy policy(b);
  const Problem problem = draw({.samples = 100, .limits = true, .vision = true}, 11);
  const Problem copy = problem;
  policy.plan(problem);
  expect(copy == problem, "plan: expected the input as it was, got it changed");
}

// The order of samples says nothing: with them in another order the plan is as good.
void permuted_samples_are_balanced_as_well(Bench& b) {
  b.start();
  Policy policy(b);
  constexpr double kTies = 1.1;  // the order decides between equals, no more
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    const Problem problem = draw({.samples = 400, .objective = LF_OBJECTIVE_MAKESPAN}, seed);
    const Problem shuffled = permute(problem, seed);
    const double first = slowest_replica(problem, policy.plan(problem));
    const double second = slowest_replica(shuffled, policy.plan(shuffled));
    expect(
        second <= kTies * first && first <= kTies * second,
        "the slowest replica takes {:.4f} s, and {:.4f} s with the samples in another order; expected about the same",
        first, second);
  }
}

// A clock may have failed, a cost model too: a refusal or any valid plan is right, a crash or a wild place is not.
void strange_seconds_do_no_harm(Bench& b, double seconds) {
  b.start();
  Policy policy(b);
  Problem problem = draw({.samples = 60}, 21);
  for (Part& part : problem.parts)
    for (size_t i = 0; i < part.seconds.size(); i += 3) part.seconds[i] = seconds;
  Plan plan;
  const Answer answer = policy.ask(problem, plan);
  answer.may_fail();
  if (answer.ok()) expect_valid(problem, plan);
}

void unknown_objectives(Bench& b) {
  b.start();
  Policy policy(b);
  Problem problem = draw({.samples = 20}, 4);
  problem.objective = 4711;
  Plan plan;
  const Answer answer = policy.ask(problem, plan);
  answer.may_fail();
  if (answer.ok()) expect_valid(problem, plan);
}

void older_report_is_not_overrun(Bench& b) {
  b.start();
  Policy policy(b);
  const Problem problem = draw({.samples = 40}, 2);
  const BorrowedInput input(problem);
  Plan plan(problem.atoms());
  struct {
    lf_balance_report report;
    uint8_t behind[64];
  } memory;
  std::memset(&memory, 0xA5, sizeof memory);
  memory.report = sdk::with_header<lf_balance_report>();
  b.ask<&Api::plan>(policy.api, policy.handle, input.get(), plan.data(), &memory.report).must_succeed();
  for (const uint8_t byte : memory.behind) expect(byte == 0xA5, "plan: wrote behind the report that it was given");
}

// The newer host's input is longer: only what the policy knows of it is read.
void newer_input_is_read(Bench& b) {
  b.start();
  Policy policy(b);
  const Problem problem = draw({.samples = 40}, 2);
  const BorrowedInput input(problem);
  struct {
    lf_balance_input known;
    uint64_t member = 77;
  } newer{*input.get()};
  newer.known.h.size = sizeof newer;
  Plan plan(problem.atoms());
  auto report = sdk::with_header<lf_balance_report>();
  b.ask<&Api::plan>(policy.api, policy.handle, static_cast<const lf_balance_input*>(&newer.known), plan.data(), &report)
      .must_succeed();
  expect(same(plan, policy.plan(problem)), "plan: expected the same plan with a longer input, got another one");
}

void large_steps(Bench& b) {
  b.start();
  Policy policy(b);
  policy.plan(draw({.samples = 20000, .replicas = 64, .micro_batches = 8, .limits = true}, 8));
}

}  // namespace

std::vector<Case> balancer_cases() {
  std::vector<Case> cases = {
      {"required_functions_are_there", offers_required},
      {"unknown_options_are_refused", unknown_options_are_refused},
      {"no_options_are_fine", no_options_are_fine},
      {"the_same_input_gives_the_same_plan", the_same_input_gives_the_same_plan},
      {"two_instances_make_the_same_plan", two_instances_agree},
      {"threads_make_the_same_plan_at_once", threads_agree},
      {"the_input_is_left_alone", the_input_is_left_alone},
      {"permuted_samples_are_balanced_as_well", permuted_samples_are_balanced_as_well},
      {"an_unknown_objective_does_no_harm", unknown_objectives},
      {"the_report_of_an_older_host_is_not_overrun", older_report_is_not_overrun},
      {"the_input_of_a_newer_host_is_read", newer_input_is_read},
      {"20000_samples_on_512_places_are_planned", large_steps},
  };
  const auto drawn = [&](const char* name, Drawing drawing) {
    cases.push_back({name, [drawing](Bench& b) { plans(b, drawing); }});
  };
  drawn("a_step_of_no_samples_is_planned", {.samples = 0});
  drawn("a_single_sample_is_planned", {.samples = 1});
  drawn("one_rank_with_one_micro_batch_gets_everything", {.samples = 30, .replicas = 1, .micro_batches = 1});
  drawn("one_rank_with_many_micro_batches_fills_them", {.samples = 30, .replicas = 1, .micro_batches = 6});
  drawn("fewer_samples_than_places_are_planned", {.samples = 5, .replicas = 4, .micro_batches = 3});
  drawn("as_many_samples_as_places_leave_none_empty", {.samples = 12, .replicas = 4, .micro_batches = 3});
  drawn("many_samples_leave_no_place_empty", {.samples = 150, .replicas = 4, .micro_batches = 3});
  drawn("equal_costs_are_planned", {.samples = 64, .costs = Costs::kEqual});
  drawn("costs_of_zero_are_planned", {.samples = 64, .costs = Costs::kZero});
  drawn("a_long_tail_of_costs_is_planned", {.samples = 200, .costs = Costs::kLongTail});
  drawn("limits_are_never_exceeded", {.samples = 80, .limits = true});
  drawn("limits_that_the_arrival_just_keeps_are_kept",
        {.samples = 80, .costs = Costs::kLongTail, .limits = true, .tight = true});
  drawn("tied_atoms_go_with_their_sample", {.samples = 60, .vision = true});
  drawn("untied_atoms_have_places_of_their_own", {.samples = 60, .vision = true, .tied = false});
  drawn("limits_of_tied_parts_are_kept", {.samples = 60, .limits = true, .vision = true});
  drawn("slower_replicas_are_planned_for", {.samples = 60, .slow_replica = true});
  drawn("objective_makespan_is_planned", {.samples = 60, .vision = true, .objective = LF_OBJECTIVE_MAKESPAN});
  drawn("objective_lockstep_is_planned", {.samples = 60, .vision = true, .objective = LF_OBJECTIVE_LOCKSTEP});
  drawn("objective_two_stage_is_planned", {.samples = 60, .vision = true, .objective = LF_OBJECTIVE_TWO_STAGE});
  drawn("objective_sum_is_planned", {.samples = 60, .vision = true, .objective = LF_OBJECTIVE_SUM});
  const std::pair<const char*, double> strange[] = {
      {"seconds_that_are_not_a_number_do_no_harm", std::numeric_limits<double>::quiet_NaN()},
      {"infinite_seconds_do_no_harm", std::numeric_limits<double>::infinity()},
      {"negative_seconds_do_no_harm", -1.0},
      {"huge_seconds_do_no_harm", 1e300},
  };
  for (const auto& [name, seconds] : strange)
    cases.push_back({name, [seconds = seconds](Bench& b) { strange_seconds_do_no_harm(b, seconds); }});
  return cases;
}

}  // namespace lf::kit
