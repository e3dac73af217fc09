// `lfrun balance` as a user meets it: what it prints, what it refuses.
#include "balance_command/balance_command.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "balance/cost_model.h"
#include "balance/random.h"
#include "balance/scaling.h"
#include "balance/scenario.h"
#include "core/error.h"

namespace lf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
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
    samples.gradient_bytes = 1000;
    samples.policy = "minimax";
    samples.policy_options = R"({"within":0.5})";
    if (settings == std::vector<std::string>{"balance.options={moves=\"all\"}"})
      samples.policy_options = R"({"moves":"all"})";
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

TEST_F(BalanceCommand, a_data_set_of_every_format_is_measured) {
  const std::string forty(40, 'x');
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"sharegpt", R"({"conversations":[{"from":"gpt","value":")" + forty + "\"}]}\n"},
      {"messages", R"({"messages":[{"role":"assistant","content":")" + forty + "\"}]}\n"},
      {"text", R"({"text":")" + forty + "\"}\n"}};
  for (const auto& [format, line] : lines) {
    const nlohmann::json result = json(
        {file(format + ".jsonl", line + line), "--ranks", "1", "--cap", "0", "--cost", "0,1,0", "--policy", "none"});
    EXPECT_EQ(result["samples"], 2) << format;
    EXPECT_DOUBLE_EQ(result["policies"]["none"]["makespan"], 20) << format;  // 40 bytes at 4 a token, twice
  }
  fs::create_directories(folder_ / "arm/meta");
  file("arm/meta/info.json", R"({"codebase_version":"v3.0","total_frames":6,"features":{"observation.images.top":
       {"dtype":"video"},"observation.images.wrist":{"dtype":"image"},"action":{"dtype":"float32"}}})");
  const nlohmann::json robot =
      json({(folder_ / "arm").string(), "--ranks", "2", "--cap", "0", "--cost", "0,1,0", "--policy", "none"});
  EXPECT_EQ(robot["samples"], 6);
  EXPECT_DOUBLE_EQ(robot["policies"]["none"]["makespan"], 3 * (64 + 2 * 256 / 4));
  EXPECT_THAT(robot["note"].get<std::string>(), HasSubstr("frames of robot directories are all alike"));
}

TEST_F(BalanceCommand, a_data_set_of_nothing_usable_is_refused_with_the_first_reason) {
  const std::string data = file("blind.jsonl", R"({"messages":[{"role":"user","content":[{"type":"image","path":)"
                                               R"("no.png"}]},{"role":"assistant","content":"a"}]})"
                                               "\n");
  const Error wrong = error({data, "--ranks", "1"});
  EXPECT_EQ(wrong.exit(), Exit::kBadData);
  EXPECT_THAT(wrong.what(), AllOf(HasSubstr("got 1 that are of no use"), HasSubstr("no.png")));
}

TEST_F(BalanceCommand, what_can_only_be_read_once_is_refused_and_not_waited_for) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error({pipe}).what(), HasSubstr("expected a file or a folder, got what is neither"));
  EXPECT_THAT(error({file("all.tar", "0001.json")}).what(), HasSubstr("got an archive, which training reads once"));
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
              HasSubstr("w.csv:3: text_tokens: expected a whole number from 0 to 1099511627776, got \"x\""));
  EXPECT_THAT(refusal("text_tokens\n-1\n"), HasSubstr("w.csv:2"));
  EXPECT_THAT(refusal("text_tokens,id\n5\n"), HasSubstr("w.csv:2: expected 2 fields as in the header, got 1"));
  EXPECT_THAT(refusal("text_tokens,id,text_tokens\n5,a,7\n"),
              HasSubstr("w.csv:1: expected each column once, got text_tokens twice; remove one"));
  EXPECT_THAT(refusal("text_tokens\n1099511627777\n"), HasSubstr("from 0 to 1099511627776, got \"1099511627777\""));
  EXPECT_THAT(refusal("text_tokens\nNaN\n"), HasSubstr("w.csv:2: text_tokens: expected a whole number"));
  EXPECT_THAT(refusal("text_tokens\n1e308\n"), HasSubstr("got \"1e308\""));
  EXPECT_THAT(refusal(std::string("\x7f\0ELF\x01", 6) + std::string(500, '\xfe')),
              AllOf(HasSubstr("got \"\\x7f\\x00ELF\\x01\\xfe"), HasSubstr("\\xfe...\"")));
  EXPECT_THAT(refusal("text_tokens\n0\n"), HasSubstr("neither text_tokens nor vision_patches"));
  EXPECT_THAT(refusal("text_tokens\n"), HasSubstr("expected at least one sample, got none"));
  EXPECT_EQ(error({"--samples", "nowhere.csv"}).exit(), Exit::kInputMissing);
  EXPECT_THAT(error({"--samples", "/dev/null"}).what(), HasSubstr("expected a file or a folder, got what is neither"));
}

TEST_F(BalanceCommand, what_is_wrong_in_lines_of_features_is_named_by_line) {
  const auto refusal = [&](const std::string& text) {
    const Error wrong = error({"--samples", file("w.jsonl", text)});
    EXPECT_EQ(wrong.exit(), Exit::kBadData) << text;
    return std::string(wrong.what());
  };
  const std::string good = "{\"text_tokens\":5}\n";
  EXPECT_THAT(refusal(good + "{\"text_tokens\":"), HasSubstr("w.jsonl:2: expected an object with id, text_tokens"));
  EXPECT_THAT(refusal(good + "[5]\n"), HasSubstr("got \"[5]\""));
  EXPECT_THAT(refusal(good + "{\"text_tokens\":5,\"text_tokens\":6}\n"),
              HasSubstr("w.jsonl:2: expected each key once, got \"text_tokens\" twice"));
  EXPECT_THAT(refusal(good + "{\"text_tokens\":-1}"), HasSubstr("from 0 to 1099511627776, got \"-1\""));
  EXPECT_THAT(refusal(good + "{\"text_tokens\":null}"), HasSubstr("got \"null\""));
  EXPECT_THAT(refusal(good + "{\"text_tokens\":5,\"tokens\":6}"), HasSubstr("got \"tokens\"; rename or remove it"));
  // Neither features nor a data set: what may be there is said, and not an option of a job.
  for (const char* const text : {"{\"text_tokens\":NaN}\n", "{\"id\":\"a\"}\n", "id\ttext_tokens\n1\t5\n"})
    EXPECT_THAT(refusal(text), AllOf(HasSubstr("--samples: "), HasSubstr("whose objects have text_tokens"),
                                     Not(HasSubstr("data.path"))));
}

TEST_F(BalanceCommand, marks_and_line_ends_of_other_systems_change_nothing) {
  const std::vector<std::string> written = {
      file("plain.csv", "id,text_tokens\na,10\nb,20\n"),
      file("windows.csv", "\xEF\xBB\xBFid,text_tokens\r\na,10\r\n\r\nb,20\r\n"),
      file("UPPER.CSV", "text_tokens,id\n10,a\n20,b"),
      file("plain.jsonl", "{\"text_tokens\":10}\n{\"text_tokens\":20}\n"),
      file("windows.jsonl", "\xEF\xBB\xBF{\"text_tokens\":10}\r\n \r\n\r\n{\"text_tokens\":20}\r\n")};
  for (const std::string& name : written) {
    const nlohmann::json result = json({name, "--ranks", "1", "--cost", "0,1,0", "--policy", "none"});
    EXPECT_EQ(result["samples"], 2) << name;
    EXPECT_DOUBLE_EQ(result["policies"]["none"]["makespan"], 30) << name;
  }
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
  for (const char* const flag : {"ranks", "micro-batches", "seed", "image-max-pixels"})
    for (const char* const word : {"abc", "1.5", "1e3", "0x10"})
      EXPECT_THAT(usage(with({std::string("--") + flag, word})),
                  HasSubstr(fmt::format("--{}: expected a whole number, got {}", flag, word)));
  for (const char* const flag : {"cap", "trigger", "flops"})
    EXPECT_THAT(usage(with({std::string("--") + flag, "fast"})),
                HasSubstr(fmt::format("--{}: expected a number, got fast", flag)));
  EXPECT_THAT(usage(with({"--ranks", "99999999999"})), HasSubstr("--ranks: expected at most 2147483647, got 999"));
  for (const char* const number : {"nan", "inf", "-1"})
    EXPECT_THAT(usage(with({"--cap", number})), HasSubstr("--cap: expected 0 or a number from 1, got"));
  for (const char* const number : {"nan", "inf", "0", "-1"})
    EXPECT_THAT(usage(with({"--flops", number})), HasSubstr("--flops: expected a number above 0, got"));
  for (const char* const number : {"nan", "-1"})
    EXPECT_THAT(usage(with({"--trigger", number})), HasSubstr("--trigger: expected a number from 0, got"));
  for (const char* const flag : {"--plot", "--profile", "--model", "--policy", "--ranks", "--scaling"})
    EXPECT_THAT(usage(with({flag, ""})), HasSubstr(fmt::format("{}: expected a value, got nothing", flag)));
  for (const char* const numbers : {"1,2,nan", "inf,1,1", "-1,1,1", "0,0,1", "1,2,3,4", "1,,2", "1,2,3x"})
    EXPECT_THAT(usage(with({"--cost", numbers})), HasSubstr("--cost: expected a model's name or three numbers A,B,C"));
  EXPECT_THAT(usage(with({"--policy", "none,minimax,none"})), HasSubstr("--policy: expected each policy once"));
  for (const char* const setting : {"minimax.=3", ".moves=few", "minimax"})
    EXPECT_THAT(usage(with({"--option", setting})), HasSubstr("--option: expected POLICY.KEY=VALUE"));
  EXPECT_EQ(error(with({"--policy", "fastest"})).exit(), Exit::kConfig);
  EXPECT_THAT(error(with({"--option", "minimax.moves=all"})).what(), HasSubstr("expected one of free, few, packs"));
}

TEST_F(BalanceCommand, flags_that_would_be_left_unheard_beside_others_are_refused) {
  const auto usage = [](std::vector<std::string> arguments) {
    const Error wrong = error(std::move(arguments));
    EXPECT_EQ(wrong.exit(), Exit::kUsage) << wrong.what();
    return std::string(wrong.what());
  };
  const std::string profile = file("fit.json", R"({"fit":{"ranks":2,"steps":9,"terms":[]}})");
  EXPECT_THAT(usage({"--scaling", "8..16", "--ranks", "4"}), HasSubstr("--ranks: expected none with --scaling"));
  EXPECT_THAT(usage({"--synthetic", "D1", "--cost", "1,2,3", "--flops", "5"}),
              HasSubstr("--flops: expected none where --cost gives seconds"));
  EXPECT_THAT(usage({"--synthetic", "D1", "--cost", "8B", "--model", "x"}), HasSubstr("--model or --cost, got both"));
  EXPECT_THAT(usage({"small.toml", "--cost", "8B"}), HasSubstr("--cost: expected none with a job file"));
  EXPECT_THAT(usage({"small.toml", "--pack", "40"}), HasSubstr("--pack: expected none with a job file"));
  // The costs of a profile are of the model that was trained, and 8B is only a default.
  EXPECT_THAT(usage({"--synthetic", "D1", "--profile", profile}), HasSubstr("--profile: expected --model (or --cost)"));
}

TEST_F(BalanceCommand, what_no_machine_could_hold_is_refused_by_the_flag_that_asks_for_it) {
  const auto usage = [](std::vector<std::string> arguments) {
    const Error wrong = error(std::move(arguments));
    EXPECT_EQ(wrong.exit(), Exit::kUsage) << wrong.what();
    return std::string(wrong.what());
  };
  EXPECT_THAT(usage({"--scaling", "8..65536", "--micro-batches", "64"}),
              HasSubstr("--scaling: expected at most 1048576 micro-batches in a step, got 65536 ranks x 64"));
  EXPECT_THAT(usage({"--synthetic", "D1", "--ranks", "65536", "--micro-batches", "64"}),
              HasSubstr("--ranks: expected"));
  EXPECT_THAT(usage({"--synthetic", "D1", "--per-rank", "10000000"}), HasSubstr("at most 33554432 samples in a step"));
  EXPECT_THAT(usage({"--synthetic", "D1", "--per-rank", "1000000000000"}), HasSubstr("--per-rank: expected 0 to"));
  const std::string film = file("film.csv", "id,vision_patches,frames\nfilm,1099511627776,1099511627776\n");
  EXPECT_THAT(usage({film, "--frames-apart"}), HasSubstr("--frames-apart: expected at most 33554432 frames"));
  EXPECT_THAT(usage({"--synthetic", "D1", "--cost", "1e308,1,1"}), HasSubstr("expected finite numbers: lower --cost"));
  EXPECT_THAT(usage({"--synthetic", "D1", "--flops", "1e-300"}), HasSubstr("raise --flops"));
}

TEST_F(BalanceCommand, a_limit_that_no_plan_keeps_names_the_flag_that_sets_it) {
  // 40, 40 and 40 tokens on two ranks: 80 on one of them, above 1.05 times the mean of 60.
  const std::string samples = file("three.csv", "text_tokens\n40\n40\n40\n");
  const Error wrong = error({samples, "--ranks", "2", "--policy", "minimax"});
  EXPECT_EQ(wrong.exit(), Exit::kConfig);
  EXPECT_THAT(wrong.what(),
              HasSubstr("120 under a limit of 63 each; raise data.max_tokens (here --cap; 0 is no limit)"));
  EXPECT_EQ(json({samples, "--ranks", "2", "--policy", "minimax", "--cap", "1e308"})["samples"], 3);
}

TEST_F(BalanceCommand, a_place_where_no_picture_can_be_written_is_refused_before_anything_is_planned) {
  std::ostringstream out;
  const PolicyMaker none_asked = [](const std::string&, const std::string&) -> Policy {
    throw Error(Exit::kBug, "a policy was asked");
  };
  for (const std::string& place : {(folder_ / "nowhere/x.svg").string(), folder_.string()}) {
    const std::vector<std::string> arguments = {"--synthetic", "D1", "--plot", place};
    try {
      run_balance(arguments, none_asked, {}, out);
      ADD_FAILURE() << place;
    } catch (const Error& wrong) {
      EXPECT_EQ(wrong.exit(), Exit::kCannotCreate) << wrong.what();
      EXPECT_THAT(wrong.what(), HasSubstr("--plot: " + place + " cannot be written: "));
    }
  }
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(error({"--synthetic", "D1", "--plot", "/dev/full"}).exit(), Exit::kCannotCreate);
}

TEST_F(BalanceCommand, pictures_without_an_encoder_to_cost_them_are_told) {
  const std::string samples = file("seen.csv", "text_tokens,vision_patches\n10,1024\n");
  const auto note = [](std::vector<std::string> arguments) {
    return json(std::move(arguments))["note"].get<std::string>();
  };
  EXPECT_THAT(note({samples}), HasSubstr("8B has no encoder"));
  EXPECT_THAT(note({"--synthetic", "D4"}), HasSubstr("8B has no encoder"));
  EXPECT_EQ(note({samples, "--cost", "0.6B+8B"}), "");
  EXPECT_EQ(note({"--synthetic", "D1"}), "");
  EXPECT_THAT(note({samples, "--scaling", "2..2", "--policy", "none"}),
              HasSubstr("every step draws 20 samples a rank from them, with replacement"));
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

TEST_F(BalanceCommand, a_jobs_own_policy_is_asked_with_the_jobs_own_settings) {
  EXPECT_THAT(error({"small.toml", "--set", "balance.options={moves=\"all\"}"}).what(),
              HasSubstr("balancer minimax: balance.options: moves: expected one of free, few, packs"));
  // A flag stands above the job's setting, and beside its others.
  EXPECT_THAT(error({"small.toml", "--option", "minimax.within=2"}).what(),
              HasSubstr("within: expected a number from 0.0 to 1.0, got 2"));
  EXPECT_EQ(json({"small.toml", "--option", "minimax.moves=few"})["policies"].size(), 4u);
  EXPECT_EQ(json({"small.toml", "--policy", "none"})["policies"].size(), 1u);
}

TEST_F(BalanceCommand, a_profile_of_another_size_of_the_jobs_model_is_told) {
  // The small job trains 1000 bytes; half or twice as many may be words of another width.
  const auto note = [&](const char* bytes) {
    const std::string profile = file("sized.json", std::string(R"({"gradient_bytes":)") + bytes + "}");
    return json({"small.toml", "--profile", profile, "--policy", "none"})["note"].get<std::string>();
  };
  EXPECT_EQ(note("1000"), "");
  EXPECT_EQ(note("2000"), "");
  EXPECT_THAT(note("5000"), HasSubstr("a run that reduced 5e+03 bytes of gradients and this job trains 1e+03"));
  EXPECT_THAT(note("200"), HasSubstr("communication is the profile's"));
}

TEST_F(BalanceCommand, a_profile_of_another_model_is_refused_by_the_term_that_it_lacks) {
  const auto profile = [&](const char* terms) {
    return file("terms.json", std::string(R"({"fit":{"ranks":2,"steps":9,"terms":[)") + terms + "]}}");
  };
  const char* const rows = R"({"name":"language.rows","seconds_of_a_step":1,"units_of_a_step":100})";
  const Error job = error({"small.toml", "--profile", profile(rows)});
  EXPECT_EQ(job.exit(), Exit::kBadData);
  EXPECT_THAT(job.what(), HasSubstr("fit.terms: expected vision.rows, a cost of this job's model"));
  const Error sizes = error({"--synthetic", "D1", "--cost", "8B", "--profile", profile(rows)});
  EXPECT_THAT(sizes.what(), HasSubstr("expected a term for the decoder's attention"));
  const Error strange =
      error({"--synthetic", "D1", "--cost", "8B", "--profile",
             profile(R"({"name":"language.selected_pairs","seconds_of_a_step":1,"units_of_a_step":100})")});
  EXPECT_THAT(strange.what(), HasSubstr("language.selected_pairs is nothing that text tokens"));
  const Error broken =
      error({"--synthetic", "D1", "--cost", "8B", "--profile", profile(R"({"name":"language.rows"})")});
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
              HasSubstr("wrong.json: speed: expected one of fit, measured, flops_per_second, "));
  EXPECT_THAT(refusal(R"({"overlap":-1})"), HasSubstr("overlap: expected a number from 0 to 1, got -1"));
  EXPECT_THAT(refusal(R"({"overlap":50})"), HasSubstr("overlap: expected a number from 0 to 1, got 50"));
  EXPECT_THAT(refusal(R"({"noise":1e308})"), HasSubstr("noise: expected a number from 0 to 100, got 1e+308"));
  EXPECT_THAT(refusal(R"({"noise":NaN})"), HasSubstr("wrong.json: expected a JSON object, got what is no JSON"));
  EXPECT_THAT(refusal(R"({"fit":{"ranks":1e30,"steps":1,"terms":[]}})"),
              HasSubstr("fit.ranks: expected a number from 0 to"));
  EXPECT_THAT(error({"--scaling", "8..8", "--profile", folder_.string()}).what(), HasSubstr("--profile: "));
  EXPECT_EQ(error({"--scaling", "8..8", "--profile", folder_.string()}).exit(), Exit::kInputMissing);
  EXPECT_THAT(refusal(R"({"bus_bandwidth":0})"), HasSubstr("bus_bandwidth: expected a number above 0, got 0"));
}

}  // namespace
}  // namespace lf
