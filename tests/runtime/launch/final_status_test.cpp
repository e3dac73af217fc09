#include "launch/final_status.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/scratch_folder.h"

namespace lf {
namespace {

using nlohmann::json;

json status_after(const std::string& text, pid_t leader, bool not_the_leaders = false) {
  test::ScratchFolder folder;
  std::ofstream(folder.path() / "status.json") << text;
  write_final_status(folder.path(), leader, "failed: killed", not_the_leaders);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "status.json.part"));
  return json::parse(std::ifstream(folder.path() / "status.json"), nullptr, false);
}

TEST(FinalStatus, a_run_whose_leader_was_killed_is_no_longer_running_and_keeps_its_numbers) {
  const json status =
      status_after(R"({"state": "running", "process": 7, "step": 3, "updated": "2020-01-01T00:00:00Z"})", 7);
  EXPECT_EQ(status.at("state"), "failed: killed");
  EXPECT_EQ(status.at("step"), 3);
  EXPECT_NE(status.at("updated"), "2020-01-01T00:00:00Z");
}

TEST(FinalStatus, another_runs_word_and_a_last_word_stay) {
  EXPECT_EQ(status_after(R"({"state": "running", "process": 8})", 7).at("state"), "running");
  EXPECT_EQ(status_after(R"({"state": "done", "process": 7})", 7).at("state"), "done");
  EXPECT_EQ(status_after(R"({"state": "failed: no disk", "process": 7})", 7).at("state"), "failed: no disk");
  EXPECT_EQ(status_after(R"({"state": "failed: a peer is gone", "process": 7})", 7, true).at("state"),
            "failed: killed");
  EXPECT_EQ(status_after(R"({"state": "done", "process": 7})", 7, true).at("state"), "done");
  EXPECT_TRUE(status_after("no json", 7).is_discarded());
  test::ScratchFolder empty;
  write_final_status(empty.path(), 7, "failed", true);
  EXPECT_TRUE(std::filesystem::is_empty(empty.path()));
}

}  // namespace
}  // namespace lf
