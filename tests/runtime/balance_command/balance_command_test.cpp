// `lfrun balance` as a user meets it: what it prints, what it refuses.
#include "balance_command/balance_command.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "balance/cost_model.h"
#include "balance/random.h"
#include "balance/scaling.h"
#include "balance/scenario.h"
#include "core/error.h"

namespace lf {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class BalanceCommand : public ::testing::Test {
 protected:
  BalanceCommand() : folder_(fs::path(testing::TempDir()) / ("balance_command_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~BalanceCommand() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static std::string run(std::vector<std::string> arguments) {
    static PluginSet plugins({std::string(LF_BUILD_DIR) + "/plugins"}, PluginHost{}, false);
    std::ostringstream out;
    const JobReader read_job = [](const fs::path& job, const std::vector<std::string>& settings) {
      return small_job(job, settings);
    };
    EXPECT_EQ(run_balance(arguments, policies_of(plugins, nullptr), read_job, out), 0);
    return out.str();
  }
  // Three samples whose encoder takes 2, 4 and 0 operations, and their decoder as many as they have rows.
  static JobSamples small_job(const fs::path& job, const std::vector<std::string>& settings) {
    if (job.filename() != "small.toml") fail(Exit::kInputMissing, "{} is not there", job.string());
    JobSamples samples;
    samples.terms = {"vision.rows", "language.rows", "language.loss_weight"};
    samples.last_terms = 2;
    const double operations[3][3] = {{2, 25, 1}, {4, 25, 1}, {0, 25, 1}};
    for (const auto& row : operations) {
      samples.samples.emplace_back().text_tokens = static_cast<int64_t>(row[1]);
      samples.operations.insert(samples.operations.end(), std::begin(row), std::end(row));
    }
    samples.max_tokens = settings.empty() ? 50 : 100;
    samples.ranks = 2;
    samples.model = "small";
    return samples;
  }
  static nlohmann::json json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    return nlohmann::json::parse(run(std::move(arguments)));
  }
  static Error error(std::vector<std::string> arguments) {
    try {
      run(std::move(arguments));
    } catch (const Error& error) {
      return error;
    }
    return Error(Exit::kDone, "nothing was thrown");
  }

  fs::path folder_;
};

TEST_F(BalanceCommand, numbers_of_a_small_file_are_those_worked_out_by_hand) {
  // Costs L^2: 100, 64, 36, 16 on two ranks. In any order the best is 100 + 16 against 64 + 36.
  const std::string samples = file("s.csv", "id,text_tokens\na,10\nb,8\nc,6\nd,4\n");
  const nlohmann::json of = json({"--samples", samples, "--ranks", "2", "--cap", "0", "--cost", "1,0,0", "--policy",
                                  "minimax"})["policies"]["minimax"];
  EXPECT_DOUBLE_EQ(of["makespan"], 116);
  EXPECT_DOUBLE_EQ(of["mean"], 108);
  EXPECT_DOUBLE_EQ(of["lower_bound"], 108);
  EXPECT_DOUBLE_EQ(of["gap"], 116.0 / 108 - 1);
  EXPECT_EQ(of["empty_slots"], 0);
  EXPECT_EQ(of["cap_breaches"], 0);
  EXPECT_TRUE(of["plan_ms"].is_number());
  EXPECT_TRUE(of["moved_tokens"].is_number_integer());
}

TEST_F(BalanceCommand, every_policy_is_compared_against_the_same_bound) {
  const nlohmann::json policies =
      json({"--synthetic", "D5", "--per-rank", "50", "--ranks", "8", "--micro-batches", "2"})["policies"];
  ASSERT_EQ(policies.size(), 4u);
  for (const auto& [name, of] : policies.items()) {
    EXPECT_EQ(of["lower_bound"], policies["none"]["lower_bound"]) << name;
    EXPECT_GE(of["makespan"].get<double>(), of["lower_bound"].get<double>()) << name;
    EXPECT_TRUE(name == "none" || of["cap_breaches"] == 0) << name;
  }
  EXPECT_LT(policies["minimax"]["makespan"], policies["none"]["makespan"]);
  EXPECT_EQ(policies["none"]["moved_tokens"], 0);
}

TEST_F(BalanceCommand, the_seed_decides_the_draw) {
  const auto drawn = [](const char* seed) {
    return json({"--synthetic", "D1", "--per-rank", "40", "--ranks", "4", "--seed", seed, "--policy",
                 "none"})["policies"]["none"]["makespan"]
        .get<double>();
  };
  EXPECT_EQ(drawn("3"), drawn("3"));
  EXPECT_NE(drawn("3"), drawn("4"));
}

TEST_F(BalanceCommand, columns_may_stand_in_any_order_and_be_absent) {
  const std::string text = file("t.csv", "text_tokens,id\n10,\"a,b\"\n20,c\n");
  const std::string same = file("u.jsonl", "{\"text_tokens\":10}\n{\"text_tokens\":20,\"vision_patches\":0}\n");
  const std::vector<std::string> rest = {"--ranks", "2", "--cap", "0", "--policy", "none"};
  auto one = rest, other = rest;
  one.insert(one.end(), {"--samples", text});
  other.insert(other.end(), {"--samples", same});
  EXPECT_EQ(json(one)["policies"]["none"]["makespan"], json(other)["policies"]["none"]["makespan"]);
}

TEST_F(BalanceCommand, a_trigger_leaves_alone_what_is_nearly_even) {
  const std::vector<std::string> base = {"--synthetic", "D2",    "--per-rank", "400",      "--ranks",
                                         "4",           "--cap", "0",          "--policy", "minimax"};
  auto held = base;
  held.insert(held.end(), {"--trigger", "5"});
  EXPECT_EQ(json(held)["policies"]["minimax"]["planned_steps"], 0);
  EXPECT_EQ(json(held)["policies"]["minimax"]["moved_tokens"], 0);
  EXPECT_EQ(json(base)["policies"]["minimax"]["planned_steps"], 1);
}

TEST_F(BalanceCommand, a_data_set_is_measured) {
  const std::string text(400, 'x');
  const std::string data =
      file("chat.jsonl", R"({"conversations":[{"from":"human","value":")" + text + R"("},{"from":"gpt","value":")" +
                             text + "\"}]}\n" +
                             R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]})" + "\n");
  const nlohmann::json result =
      json({"--samples", data, "--ranks", "2", "--cap", "0", "--cost", "0,1,0", "--policy", "none"});
  EXPECT_EQ(result["samples"], 2);
  EXPECT_DOUBLE_EQ(result["policies"]["none"]["makespan"], 200);  // 400 bytes at 4 a token, twice
  EXPECT_THAT(result["note"].get<std::string>(), HasSubstr("estimated"));
}

TEST_F(BalanceCommand, samples_that_are_fewer_than_micro_batches_are_planned) {
  const std::string samples = file("few.csv", "text_tokens\n5\n7\n");
  const nlohmann::json of = json({"--samples", samples, "--ranks", "4", "--micro-batches", "2", "--policy", "minimax"});
  EXPECT_EQ(of["policies"]["minimax"]["empty_slots"], 0);  // there are not enough for all
}

TEST_F(BalanceCommand, a_picture_has_a_bar_for_every_rank_before_and_after) {
  const std::string plot = (folder_ / "out.svg").string();
  run({"--synthetic", "D1", "--per-rank", "20", "--ranks", "16", "--plot", plot});
  std::ifstream in(plot);
  std::stringstream text;
  text << in.rdbuf();
  size_t bars = 0;
  for (size_t at = text.str().find("<rect x="); at != std::string::npos; at = text.str().find("<rect x=", at + 1))
    ++bars;
  EXPECT_EQ(bars, 32u);
  EXPECT_THAT(text.str(), HasSubstr("</svg>"));
}

TEST_F(BalanceCommand, efficiency_falls_with_ranks_and_balancing_is_never_below_none) {
  const nlohmann::json points = json({"--synthetic", "D1", "--per-rank", "80", "--micro-batches", "4", "--scaling",
                                      "8..64", "--policy", "none,minimax"})["scaling"];
  ASSERT_EQ(points.size(), 4u);
  for (const nlohmann::json& point : points) {
    const nlohmann::json& policies = point["policies"];
    EXPECT_GE(policies["minimax"]["efficiency"], policies["none"]["efficiency"]) << point["ranks"];
    EXPECT_LE(policies["minimax"]["efficiency"], 1.0);
  }
}

TEST_F(BalanceCommand, what_is_wrong_in_a_file_is_named_by_line) {
  const auto refusal = [&](const std::string& text) {
    const Error wrong = error({"--samples", file("w.csv", text)});
    EXPECT_EQ(wrong.exit(), Exit::kBadData) << text;
    return std::string(wrong.what());
  };
  EXPECT_THAT(refusal(""), HasSubstr("w.csv:1: expected a header"));
  EXPECT_THAT(
      refusal("id,tokens\n"),
      HasSubstr("w.csv:1: expected columns named id, text_tokens, vision_patches, frames and supervised_tokens, "
                "got \"tokens\""));
  EXPECT_THAT(refusal("text_tokens\n5\nx\n"),
              HasSubstr("w.csv:3: text_tokens: expected a whole number from 0, got \"x\""));
  EXPECT_THAT(refusal("text_tokens\n-1\n"), HasSubstr("w.csv:2"));
  EXPECT_THAT(refusal("text_tokens,id\n5\n"), HasSubstr("w.csv:2: expected 2 fields as in the header, got 1"));
  EXPECT_THAT(refusal("text_tokens\n0\n"), HasSubstr("neither text_tokens nor vision_patches"));
  EXPECT_THAT(refusal("text_tokens\n"), HasSubstr("has no samples"));
  EXPECT_EQ(error({"--samples", "nowhere.csv"}).exit(), Exit::kInputMissing);
}

TEST_F(BalanceCommand, wrong_flags_are_usage_errors_that_name_the_flag) {
  const auto usage = [](std::vector<std::string> arguments) {
    const Error wrong = error(std::move(arguments));
    EXPECT_EQ(wrong.exit(), Exit::kUsage) << wrong.what();
    return std::string(wrong.what());
  };
  const std::vector<std::string> good = {"--synthetic", "D1", "--per-rank", "10"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), good.begin(), good.end());
    return more;
  };
  EXPECT_THAT(usage({}), HasSubstr("--samples: expected a file of samples, or --synthetic NAME"));
  EXPECT_THAT(usage(with({"file.csv"})), HasSubstr("expected a file or --synthetic, got both"));
  EXPECT_THAT(usage({"--synthetic", "D9", "--per-rank", "1"}), HasSubstr("got D9"));
  EXPECT_THAT(usage(with({"--ranks", "0"})), HasSubstr("--ranks: expected 1 to 65536, got 0"));
  EXPECT_THAT(usage(with({"--cap", "0.5"})), HasSubstr("--cap: expected 0 or a number from 1, got 0.5"));
  EXPECT_THAT(usage(with({"--objective", "speed"})), HasSubstr("--objective: expected makespan"));
  EXPECT_THAT(usage(with({"--cost", "1,2"})), HasSubstr("--cost"));
  EXPECT_THAT(usage(with({"--scaling", "8-64"})), HasSubstr("--scaling: expected a range such as 8..4096, got 8-64"));
  EXPECT_THAT(usage(with({"--option", "minimax"})), HasSubstr("--option: expected POLICY.KEY=VALUE"));
  EXPECT_THAT(usage(with({"--seed", "-1"})), HasSubstr("--seed: expected a number from 0, got -1"));
  EXPECT_THAT(usage(with({"--colour", "red"})), HasSubstr("colour"));
  EXPECT_EQ(error(with({"--policy", "fastest"})).exit(), Exit::kConfig);
  EXPECT_THAT(error(with({"--option", "minimax.moves=all"})).what(), HasSubstr("expected one of free, few, packs"));
}

TEST_F(BalanceCommand, a_drawn_step_has_20_samples_a_micro_batch_unless_told) {
  EXPECT_EQ(json({"--synthetic", "D1", "--ranks", "4", "--micro-batches", "2", "--policy", "none"})["samples"], 160);
}

TEST_F(BalanceCommand, scaling_draws_from_a_file_what_more_ranks_need) {
  const std::string samples = file("few.csv", "text_tokens\n100\n200\n400\n");
  const nlohmann::json points = json({samples, "--scaling", "8..16", "--policy", "none,minimax"})["scaling"];
  ASSERT_EQ(points.size(), 2u);
  EXPECT_GE(points[1]["policies"]["minimax"]["efficiency"], points[1]["policies"]["none"]["efficiency"]);
}

TEST_F(BalanceCommand, a_models_configuration_gives_its_cost) {
  // 2 layers of width 8: attention 4 * 64, feed-forward 3 * 8 * 16, so 640 parameters a layer.
  // 10 tokens: 2 * (2 * 640 * 10 + 2 * 8 * 100) = 28,800 operations forward, and twice that backward.
  // The head: 2 * 8 * 5 words for each of the 10 tokens.
  const std::string config = file("config.json", R"({"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,
                                                     "intermediate_size":16,"vocab_size":5})");
  const std::string samples = file("one.csv", "text_tokens\n10\n");
  EXPECT_DOUBLE_EQ(json({"--samples", samples, "--ranks", "1", "--model", config, "--flops", "1", "--policy",
                         "none"})["policies"]["none"]["makespan"],
                   3 * (28'800 + 800));
}

TEST_F(BalanceCommand, tokens_that_are_not_learned_from_have_no_logits) {
  // As above, with 4 of the 10 tokens supervised: the head costs 2 * 8 * 5 words for each of these.
  const std::string config = file("config.json", R"({"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,
                                                     "intermediate_size":16,"vocab_size":5})");
  const std::string samples = file("one.csv", "text_tokens,supervised_tokens\n10,4\n");
  EXPECT_DOUBLE_EQ(json({"--samples", samples, "--ranks", "1", "--model", config, "--flops", "1", "--policy",
                         "none"})["policies"]["none"]["makespan"],
                   3 * (28'800 + 320));
  const Error wrong = error({"--samples", file("wrong.csv", "text_tokens,supervised_tokens\n10,11\n")});
  EXPECT_THAT(wrong.what(), HasSubstr("wrong.csv:2: 11 supervised_tokens of 10 text_tokens"));
}

TEST_F(BalanceCommand, samples_longer_than_a_pack_are_left_out_or_cut_as_training_does) {
  const std::string samples = file("long.csv", "text_tokens\n10\n25\n");
  const auto of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {samples, "--ranks", "1", "--pack", "20", "--cost", "0,1,0", "--policy", "none"});
    return json(more);
  };
  EXPECT_DOUBLE_EQ(of({})["policies"]["none"]["makespan"], 10);
  EXPECT_THAT(of({})["note"].get<std::string>(), HasSubstr("1 of 2 samples are left out, being longer than 20 tokens"));
  EXPECT_THAT(of({"--too-long", "cut"})["note"].get<std::string>(), HasSubstr("1 of 2 samples are cut to 20 tokens"));
  const Error none = error({samples, "--ranks", "1", "--pack", "5"});
  EXPECT_THAT(none.what(), HasSubstr("--pack: each of 2 samples is longer than 5 tokens; raise it"));
}

TEST_F(BalanceCommand, a_jobs_samples_cost_what_its_model_states_in_its_layout) {
  // Packs of 50 rows, one micro-batch on each of 2 ranks: two samples of 25 rows, and one.
  const nlohmann::json result = json({"small.toml", "--flops", "2", "--policy", "none,minimax"});
  EXPECT_EQ(result["ranks"], 2);
  EXPECT_EQ(result["samples"], 3);
  EXPECT_DOUBLE_EQ(result["policies"]["none"]["mean"], (2 + 4 + 75 + 3) / 2.0 / 2);
  EXPECT_EQ(result["policies"]["minimax"]["cap_breaches"], 0);
  EXPECT_EQ(json({"small.toml", "--set", "data.max_tokens=100", "--ranks", "1"})["samples"], 3);
  EXPECT_THAT(error({"small.toml", "--cost", "1B"}).what(), HasSubstr("--cost: expected none with a job file"));
  EXPECT_THAT(error({"small.toml", "--too-long", "cut"}).what(), HasSubstr("--set data.too_long=cut"));
  EXPECT_THAT(error({"--synthetic", "D1", "--set", "data.max_tokens=1"}).what(),
              HasSubstr("--set: expected a job file"));
}

TEST_F(BalanceCommand, a_profile_of_another_model_is_refused_by_the_term_that_it_lacks) {
  const auto profile = [&](const char* terms) {
    return file("terms.json", std::string(R"({"fit":{"ranks":2,"steps":9,"terms":[)") + terms + "]}}");
  };
  const char* const rows = R"({"name":"language.rows","seconds_of_a_step":1,"units_of_a_step":100})";
  const Error job = error({"small.toml", "--profile", profile(rows)});
  EXPECT_EQ(job.exit(), Exit::kBadData);
  EXPECT_THAT(job.what(), HasSubstr("fit.terms: expected vision.rows, a cost of this job's model"));
  const Error sizes = error({"--synthetic", "D1", "--profile", profile(rows)});
  EXPECT_THAT(sizes.what(), HasSubstr("expected a term for the decoder's attention"));
  const Error strange =
      error({"--synthetic", "D1", "--profile",
             profile(R"({"name":"language.selected_pairs","seconds_of_a_step":1,"units_of_a_step":100})")});
  EXPECT_THAT(strange.what(), HasSubstr("language.selected_pairs is nothing that text tokens"));
  const Error broken = error({"--synthetic", "D1", "--profile", profile(R"({"name":"language.rows"})")});
  EXPECT_THAT(broken.what(), HasSubstr("fit.terms.seconds_of_a_step: expected a number from 0, got nothing"));
}

// A machine whose parts reach very different shares of a peak, on real sizes (D6): what training would measure of it
// and write, and what the simulator says of the same layout.
TEST_F(BalanceCommand, a_simulation_comes_to_the_step_that_its_profile_was_measured_on) {
  constexpr int32_t kRanks = 4, kMicroBatches = 2;
  constexpr int kSteps = 200;
  constexpr double kNoise = 0.03, kFixed = 0.02, kOther = 0.15;
  const WorkCost cost = named_cost("0.6B+8B");
  const std::vector<CostTerm> terms = {
      {"vision.rows", 1}, {"vision.frame_pairs", 1}, {"language.rows", 1}, {"language.pairs", 1}};
  const double rates[] = {1 / 90e12, 1 / 20e12, 1 / 300e12, 1 / 60e12};  // seconds of an operation
  const Scenario scenario{.replicas = kRanks, .micro_batches = kMicroBatches, .cap = 1.05, .pack = 8192};
  CostModel model(terms, kRanks);
  Random random(1);
  double measured = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<WorkSample> samples = synthetic_samples("D6", 2000, 1000 + step);
    samples.resize(samples_per_step(samples, cost, scenario));
    const BalancePart place = scenario_input(samples, cost, scenario).parts.back();
    std::vector<double> amounts(kRanks * terms.size(), 0.0), seconds(kRanks, 0.0);
    for (size_t i = 0; i < samples.size(); ++i) {
      const WorkParts of = cost.parts(samples[i]);
      const double work[] = {3 * of.encoder_rows, 3 * of.frame_pairs, 3 * of.decoder_rows, 3 * of.pairs};
      for (size_t t = 0; t < terms.size(); ++t) amounts[place.arrival_replica[i] * terms.size() + t] += work[t];
    }
    double slowest = 0;
    for (int32_t r = 0; r < kRanks; ++r) {
      for (size_t t = 0; t < terms.size(); ++t) seconds[r] += rates[t] * amounts[r * terms.size() + t];
      seconds[r] = (seconds[r] + kFixed * kMicroBatches) * (1 + kNoise * random.normal());
      slowest = std::max(slowest, seconds[r]);
    }
    measured += (slowest + kOther) / kSteps;
    model.observe(seconds, amounts, kMicroBatches);
  }
  Profile profile;
  profile.flops_per_second = model.units_per_second();
  profile.fixed_seconds = model.fixed_seconds();
  profile.gradient_bytes = 0;
  profile.latency_seconds = 0;
  profile.noise = model.own_noise();
  profile.other_seconds = kOther;
  profile.measured = MeasuredStep{kRanks, kMicroBatches, measured};
  const nlohmann::json result =
      json({"--synthetic", "D6", "--cost", "0.6B+8B", "--pack", "8192", "--micro-batches", "2", "--scaling", "4..4",
            "--policy", "none", "--profile", file("measured.json", profile_text(profile, model.fit_json(kRanks)))});
  EXPECT_DOUBLE_EQ(result["measured"]["step_seconds"], measured);
  EXPECT_THAT(result["costs"].get<std::string>(), HasSubstr("language.pairs"));
  // The simulator draws 64 other steps: their mean is known to about 2%, the costs to about 1%.
  EXPECT_NEAR(result["scaling"][0]["policies"]["none"]["step_seconds"].get<double>() / measured, 1, 0.05);
}

TEST(Scaling, noise_slows_the_slowest_of_many_equals_by_about_three_deviations_and_one_alone_by_none) {
  EXPECT_NEAR(slowdown_by_noise(std::vector<double>(1024, 5.0), 0.01, 1), 1.032, 0.002);  // expected maximum of normals
  EXPECT_NEAR(slowdown_by_noise({5.0}, 0.01, 1), 1.0, 0.005);
  std::vector<double> uneven(1024, 1.0);
  uneven[3] = 2;
  EXPECT_NEAR(slowdown_by_noise(uneven, 0.01, 1), 1.0, 0.005);  // nobody else comes near
  EXPECT_EQ(slowdown_by_noise(uneven, 0, 1), 1.0);
}

TEST(Scaling, communication_is_the_ring_formula_and_hides_behind_compute) {
  Profile profile;
  profile.gradient_bytes = 100;
  profile.bus_bandwidth = 10;
  profile.latency_seconds = 1;
  profile.overlap = 0.5;
  EXPECT_DOUBLE_EQ(communication_seconds(profile, 1), 0);
  EXPECT_DOUBLE_EQ(communication_seconds(profile, 4), 2 * 0.75 * 10 + 2);
  EXPECT_DOUBLE_EQ(exposed_seconds(profile, 4, 20), 7);
  EXPECT_DOUBLE_EQ(exposed_seconds(profile, 4, 100), 0);
}

TEST_F(BalanceCommand, a_profile_comes_back_as_it_was_written_and_what_is_wrong_in_it_is_named) {
  Profile profile;
  profile.flops_per_second = 1.25e11;
  profile.bus_bandwidth = 3e9;
  const std::string good = file("profile.json", profile_text(profile, R"({"ranks":2,"steps":12,"terms":[]})"));
  EXPECT_EQ(read_profile(good).flops_per_second, 1.25e11);
  EXPECT_EQ(read_profile(good).bus_bandwidth, 3e9);
  const auto refusal = [&](const std::string& text) {
    return std::string(error({"--scaling", "8..8", "--profile", file("wrong.json", text)}).what());
  };
  EXPECT_THAT(refusal("[]"), HasSubstr("wrong.json: expected a JSON object"));
  EXPECT_THAT(refusal(R"({"speed":1})"),
              HasSubstr("wrong.json: speed: expected one of fit, measured, bus_bandwidth, "));
  EXPECT_THAT(refusal(R"({"overlap":-1})"), HasSubstr("overlap: expected a number from 0, got -1"));
  EXPECT_THAT(refusal(R"({"bus_bandwidth":0})"), HasSubstr("bus_bandwidth: expected a number above 0, got 0"));
}

}  // namespace
}  // namespace lf
