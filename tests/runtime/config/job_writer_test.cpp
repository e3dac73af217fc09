#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runtime/config/job_file.h"

namespace lf::test {
namespace {

using testing::HasSubstr;

using JobWriter = JobFile;

TEST_F(JobWriter, a_printed_job_is_read_back_the_same) {
  const auto job = resolve_job({.file = write(kMinimal + R"(
max_bad = 1e-7
[model.options]
"odd key" = ["tab\t", "quote\"", 'del]', 2, 2.5, true, {deep = {er = -1e300}}]
)"),
                                .overrides = {{"optimizer.learning_rate=3"}, {"job.name=\"a\\u007Fb\""}}});
  const std::string printed = print_config(job);
  const auto again = resolve_job({.file = write(printed, "again.toml")});
  EXPECT_EQ(option_json(job.config, ""), option_json(again.config, ""));
  EXPECT_EQ(again.config.optimizer.learning_rate, 3.0);
  EXPECT_EQ(again.config.data.max_bad, 1e-7);
  EXPECT_EQ(again.config.job.name,
            "a\x7F"
            "b");
}

TEST_F(JobWriter, each_value_is_printed_with_its_origin) {
  const auto path = write(kMinimal);
  const std::string printed = print_config(
      resolve_job({.file = path, .overrides = {{"job.seed=5"}, {"launch.processes=3", "-n"}}, .device = "cuda"}));
  EXPECT_THAT(printed, HasSubstr("steps = 10  # " + path.string() + ":2:9\n"));
  EXPECT_THAT(printed, HasSubstr("seed = 5  # --set\n"));
  EXPECT_THAT(printed, HasSubstr("processes = 3  # -n\n"));
  EXPECT_THAT(printed, HasSubstr("name = \"cuda\"  # LF_DEVICE\n"));
  EXPECT_THAT(printed, HasSubstr("micro_batches = 1  # default\n"));
}

TEST_F(JobWriter, options_are_given_as_json_by_dotted_name) {
  const JobConfig config = load(kMinimal + "[model.options]\nwindow = {a = [1]}\n", {"model.freeze=[\"v*\"]"});
  EXPECT_EQ(option_json(config, "model.freeze"), R"(["v*"])");
  EXPECT_EQ(option_json(config, "job.steps"), "10");
  EXPECT_EQ(option_json(config, "model.options"), R"({"window":{"a":[1]}})");
  EXPECT_EQ(option_json(config, "model.options.window.a"), "[1]");
  EXPECT_EQ(option_json(config, "memory"), R"({"recompute":"none"})");
  EXPECT_EQ(option_json(config, "model.frieze"), std::nullopt);
  EXPECT_EQ(option_json(config, "job.steps.x"), std::nullopt);
  const auto all = nlohmann::json::parse(option_json(config, "").value());
  EXPECT_EQ(all["optimizer"]["beta2"], 0.95);
  EXPECT_EQ(all["data"]["path"][0], (folder_ / "train.jsonl").string());
}

TEST_F(JobWriter, a_job_file_of_any_name_is_printed_so_that_it_can_be_read) {
  const std::string printed = print_config(resolve_job({.file = write(kMinimal, "two\nlines \x7F.toml")}));
  const auto again = resolve_job({.file = write(printed, "again.toml")});
  EXPECT_EQ(again.config.job.name, "two_lines \x7F");
  EXPECT_EQ(again.config.job.steps, 10);
}

}  // namespace
}  // namespace lf::test
