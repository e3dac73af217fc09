#include <map>
#include <set>
#include <utility>

#include <gmock/gmock.h>

#include "runtime/launch/lfrun_process.h"

namespace lf::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Workers = Lfrun;
using std::chrono::seconds;

TEST_F(Workers, each_gets_its_rank_its_threads_and_the_launchers_store) {
  const Ended ended = run(job_arguments({"-n", "3", "--set", "launch.threads=2"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string n = std::to_string(rank);
    EXPECT_THAT(report(rank),
                AllOf(HasSubstr("command train\n"),
                      HasSubstr("rank " + n + "\nworld_size 3\nlocal_rank " + n + "\nlocal_world_size 3\nstore unix:/"),
                      HasSubstr("threads 2\nomp 2\n"), HasSubstr("env " + n + " 3 " + n + " 3\n")));
  }
  EXPECT_NE(pid_of(0), pid_of(1));
}

TEST_F(Workers, meet_through_the_store) {
  const Ended ended = run(job_arguments({"-n", "4"}), {{"FAKE_CORE", "*:meet"}});
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(report(rank), HasSubstr("sum 6\n"));
}

TEST_F(Workers, the_stores_folder_is_gone_afterwards) {
  std::filesystem::create_directory(folder_ / "tmp");
  ASSERT_EQ(run(job_arguments(), {{"TMPDIR", (folder_ / "tmp").string()}}).code, 0);
  EXPECT_THAT(report(0), HasSubstr("store unix:" + (folder_ / "tmp/lfrun-").string()));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp"));
}

TEST_F(Workers, folders_that_killed_launchers_left_are_removed_by_the_next_and_those_of_live_ones_are_not) {
  const std::filesystem::path tmp = folder_ / "tmp";
  std::filesystem::create_directories(tmp / "lfrun-theirs");  // no launcher's
  std::ofstream(folder_ / "precious") << "kept";
  std::filesystem::create_directories(folder_ / "elsewhere");
  std::ofstream(folder_ / "elsewhere/owner") << "";
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", tmp / "lfrun-links0");
  const auto folders = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(tmp)) names.insert(entry.path().filename());
    for (const char* others : {"lfrun-theirs", "lfrun-links0"}) EXPECT_EQ(names.erase(others), 1U);
    return names;
  };
  const std::map<std::string, std::string> deaf{{"TMPDIR", tmp.string()}, {"FAKE_CORE", "*:deaf"}};
  start(job_arguments(), deaf);
  const pid_t worker = pid_of(0);
  kill(pid_, SIGKILL);
  wait();
  EXPECT_TRUE(gone_within(worker, seconds(5)));
  const std::set<std::string> left = folders();
  ASSERT_EQ(left.size(), 1U);
  std::filesystem::remove(folder_ / "out/rank0.txt");

  start(job_arguments(), deaf);
  pid_of(0);
  const std::set<std::string> live = folders();
  EXPECT_EQ(live.size(), 1U);
  EXPECT_NE(live, left);
  const pid_t first = std::exchange(pid_, -1);
  EXPECT_EQ(run(job_arguments({"--set", "job.output=other"}), {{"TMPDIR", tmp.string()}}).code, 0);
  EXPECT_EQ(folders(), live);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "elsewhere/owner"));
  pid_ = first;
  kill(pid_, SIGKILL);
  wait();
}

TEST_F(Workers, all_that_saved_make_exit_75) {
  EXPECT_EQ(run(job_arguments({"-n", "2"}), {{"FAKE_CORE", "*:exit 75"}}).code, 75);
}

TEST_F(Workers, one_that_fails_takes_the_job_down_with_its_code_and_its_last_lines) {
  const Ended ended = run(job_arguments({"-n", "3"}), {{"FAKE_CORE", "1:say 30;*:deaf"}});
  EXPECT_EQ(ended.code, 65);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("lfrun: rank 1 of 3 (process " + std::to_string(pid_of(1)) +
                              ") ended with exit code 65; the job stops\n"),
                    HasSubstr((folder_ / "runs/job/log/rank1.stderr").string()), HasSubstr("| line 11 of rank 1\n"),
                    HasSubstr("| line 30 of rank 1\n"), Not(HasSubstr("line 10 of rank 1\n"))));
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(gone_within(pid_of(rank), seconds(2))) << rank;
}

TEST_F(Workers, all_that_failed_by_themselves_are_told_with_their_last_lines_and_those_that_were_killed_are_not) {
  const Ended ended = run(job_arguments({"-n", "4"}), {{"FAKE_CORE", "1:say 5;3:say 2;2:deaf;0:exit 69"}});
  EXPECT_EQ(ended.code, 65);
  for (const char* text : {"rank 1 of 4", "| line 5 of rank 1\n", "rank 3 of 4", "| line 2 of rank 3\n",
                           "ended with exit code 65 as well\n", "rank 0 of 4", "ended with exit code 69 as well\n"})
    EXPECT_THAT(ended.err, HasSubstr(text));
  EXPECT_THAT(ended.err, Not(HasSubstr("rank 2 of 4")));
}

TEST_F(Workers, what_all_say_alike_is_told_once) {
  const Ended ended = run(job_arguments({"-n", "4"}), {{"FAKE_CORE", "1:chorus;2:chorus;3:chorus"}});
  EXPECT_EQ(ended.code, 78);
  const size_t told = ended.err.find("what ails us all");
  ASSERT_NE(told, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("what ails us all", told + 1), std::string::npos) << ended.err;
  size_t others = 0;
  for (size_t at = 0; (at = ended.err.find("78 as well, with the same words\n", at)) != std::string::npos; ++at)
    ++others;
  EXPECT_EQ(others, 2u) << ended.err;
}

TEST_F(Workers, only_lines_of_this_run_are_shown) {
  std::filesystem::create_directories(folder_ / "runs/job/log");
  std::ofstream(folder_ / "runs/job/log/rank1.stderr") << "an old story\n";
  const Ended ended = run(job_arguments({"-n", "2"}), {{"FAKE_CORE", "1:say 1"}});
  EXPECT_THAT(ended.err, AllOf(HasSubstr("| line 1 of rank 1"), Not(HasSubstr("an old story"))));
}

TEST_F(Workers, one_killed_by_a_signal_is_named_with_it_and_exit_128_plus_n) {
  const Ended ended = run(job_arguments({"-n", "2"}), {{"FAKE_CORE", "1:signal 9;0:deaf"}});
  EXPECT_EQ(ended.code, 137);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 of 2 (process " + std::to_string(pid_of(1)) + ") was killed by SIGKILL"));
}

TEST_F(Workers, one_killed_from_outside_takes_the_others_down_within_seconds) {
  start(job_arguments({"-n", "4"}), {{"FAKE_CORE", "*:deaf"}});
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 4; ++rank) pids.push_back(pid_of(rank));
  const auto killed = std::chrono::steady_clock::now();
  kill(pids[2], SIGKILL);
  const Ended ended = wait();
  EXPECT_LT(std::chrono::steady_clock::now() - killed, seconds(15));
  EXPECT_EQ(ended.code, 128 + SIGKILL);
  EXPECT_THAT(ended.err, HasSubstr("rank 2 of 4"));
  for (const pid_t pid : pids) EXPECT_TRUE(gone_within(pid, seconds(2)));
}

TEST_F(Workers, the_one_that_failed_is_blamed_and_not_the_peer_that_noticed_first) {
  const Ended ended = run(job_arguments({"-n", "2"}), {{"FAKE_CORE", "0:exit 69;1:after 0"}});
  EXPECT_EQ(ended.code, 65);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 of 2"));
}

TEST_F(Workers, the_first_stop_signal_of_each_kind_lets_them_save_and_exit_75) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    start(job_arguments({"-n", "2"}), {{"FAKE_CORE", "*:save_when_asked"}});
    report(0);
    report(1);
    kill(pid_, signal);
    const Ended ended = wait();
    EXPECT_EQ(ended.code, 75) << signal;
    EXPECT_THAT(ended.err, HasSubstr("finishing the step and saving"));
    for (int rank = 0; rank < 2; ++rank)
      std::filesystem::remove(folder_ / "out" / ("rank" + std::to_string(rank) + ".txt"));
  }
}

TEST_F(Workers, save_also_where_nobody_reads_what_the_launcher_says_of_it) {
  nobody_reads_stderr_ = true;  // `lfrun job.toml 2>&1 | tee log`, and Ctrl-C has ended tee
  start(job_arguments({"-n", "2"}), {{"FAKE_CORE", "*:save_when_asked"}});
  for (const int rank : {0, 1}) report(rank);
  ASSERT_EQ(kill(pid_, SIGTERM), 0);
  EXPECT_EQ(wait().code, 75);
}

TEST_F(Workers, go_on_at_a_signal_that_was_ignored_when_they_were_started) {
  ignored_signal_ = SIGHUP;  // nohup
  start(job_arguments({"-n", "2"}), {{"FAKE_CORE", "*:save_when_asked"}});
  for (const int rank : {0, 1}) report(rank);
  ASSERT_EQ(kill(-pid_, SIGHUP), 0);
  ASSERT_EQ(kill(pid_, SIGTERM), 0);
  const Ended ended = wait();
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("SIGTERM: finishing the step"), Not(HasSubstr("SIGHUP"))));
}

TEST_F(Workers, ctrl_c_in_a_terminal_reaches_everybody_and_still_lets_them_save) {
  start(job_arguments({"-n", "2"}), {{"FAKE_CORE", "*:save_when_asked"}});
  report(0);
  report(1);
  kill(-pid_, SIGINT);
  EXPECT_EQ(wait().code, 75);
}

TEST_F(Workers, the_second_ctrl_c_stops_at_once) {
  start(job_arguments({"-n", "2"}), {{"FAKE_CORE", "*:deaf"}});
  const pid_t first = pid_of(0), second = pid_of(1);
  kill(pid_, SIGINT);
  while (text_of(folder_ / "stderr").find("finishing") == std::string::npos) usleep(2000);
  kill(pid_, SIGINT);
  const Ended ended = wait();
  EXPECT_EQ(ended.code, 128 + SIGINT);
  EXPECT_TRUE(gone_within(first, seconds(2)));
  EXPECT_TRUE(gone_within(second, seconds(2)));
}

TEST_F(Workers, nobody_outlives_a_launcher_that_is_killed) {
  start(job_arguments({"-n", "3"}), {{"FAKE_CORE", "*:deaf"}});
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 3; ++rank) pids.push_back(pid_of(rank));
  kill(pid_, SIGKILL);
  wait();
  for (const pid_t pid : pids) EXPECT_TRUE(gone_within(pid, seconds(5))) << pid;
}

TEST_F(Workers, a_peers_closed_socket_kills_nobody) {
  EXPECT_EQ(run(job_arguments(), {{"FAKE_CORE", "0:signal " + std::to_string(SIGPIPE)}}).code, SIGPIPE)
      << "what it returned";
  EXPECT_EQ(
      run(job_arguments(), {{"FAKE_CORE", "0:signal " + std::to_string(SIGPIPE)}, {"RANK", "0"}, {"WORLD_SIZE", "1"}})
          .code,
      SIGPIPE);
}

TEST_F(Workers, see_an_error_and_no_signal_where_a_file_reaches_its_limit) {
  for (const char* rank : {"", "0"}) {
    std::map<std::string, std::string> environment{{"FAKE_CORE", "0:outgrow"}};
    if (*rank != '\0') environment.insert({{"RANK", rank}, {"WORLD_SIZE", "1"}});
    EXPECT_EQ(run(job_arguments(), environment).code, EFBIG) << "as one worker: " << rank;
  }
}

TEST_F(Workers, start_where_standard_descriptors_are_closed) {
  for (const std::vector<int>& closed : std::vector<std::vector<int>>{{0}, {1, 2}, {0, 1}, {0, 1, 2}}) {
    closed_ = closed;
    EXPECT_EQ(run(job_arguments({"-n", "2"}), {{"FAKE_CORE", "*:meet"}}).code, 0) << closed.size();
  }
}

TEST_F(Workers, are_not_started_where_a_stop_comes_before_them_and_exit_75) {
  std::filesystem::create_directory(folder_ / "plugins");
  std::filesystem::copy(LF_BUILD_DIR "/test_plugins/device_hangs.lfplugin.so", folder_ / "plugins");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    start(job_arguments({"--plugin-dir", "plugins", "--set", "device.name=hangs"}));
    const std::string pid = std::to_string(pid_);
    while (text_of("/proc/" + pid + "/task/" + pid + "/children").empty()) usleep(1000);  // the probe of that plugin
    const pid_t probe = std::stoi(text_of("/proc/" + pid + "/task/" + pid + "/children"));
    kill(pid_, signal);
    const Ended ended = wait();
    EXPECT_EQ(ended.code, 75);
    EXPECT_EQ(ended.err, std::string("lfrun: SIG") + sigabbrev_np(signal) +
                             ": stopped before anything had begun; the same command starts the run\n");
    EXPECT_TRUE(gone_within(probe, seconds(5)));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  }
}

TEST_F(Workers, a_temporary_folder_that_is_not_there_is_exit_73) {
  const Ended ended = run(job_arguments(), {{"TMPDIR", "/nowhere/at/all"}});
  EXPECT_EQ(ended.code, 73);
  EXPECT_THAT(ended.err, HasSubstr("TMPDIR: expected a folder"));
}

TEST_F(Workers, a_run_directory_that_cannot_be_made_is_exit_73) {
  std::ofstream(folder_ / "runs") << "a file";
  const Ended ended = run(job_arguments());
  EXPECT_EQ(ended.code, 73);
  EXPECT_THAT(ended.err, HasSubstr((folder_ / "runs/job").string() + ": cannot be created"));
}

class OneWorker : public Lfrun {
 protected:
  const std::map<std::string, std::string> torchrun_ = {{"RANK", "1"},
                                                        {"WORLD_SIZE", "4"},
                                                        {"LOCAL_RANK", "1"},
                                                        {"LOCAL_WORLD_SIZE", "2"},
                                                        {"MASTER_ADDR", "10.0.0.1"},
                                                        {"MASTER_PORT", "29400"}};
};

TEST_F(OneWorker, is_what_torchrun_started_and_nothing_is_forked) {
  start(job_arguments(), torchrun_);
  const pid_t pid = pid_;
  const Ended ended = wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(pid_of(1), pid);
  EXPECT_THAT(report(1),
              HasSubstr("rank 1\nworld_size 4\nlocal_rank 1\nlocal_world_size 2\nstore tcp:10.0.0.1:29400\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(OneWorker, leaves_the_choice_of_a_fresh_directory_to_the_core) {
  ASSERT_EQ(run(job_arguments({"--fresh"}), torchrun_).code, 0);
  EXPECT_THAT(report(1), HasSubstr("flags 1\n"));
  EXPECT_THAT(report(1), Not(HasSubstr("set job.output")));
}

TEST_F(OneWorker, saves_at_the_first_signal) {
  auto environment = torchrun_;
  environment["FAKE_CORE"] = "*:save_when_asked";
  start(job_arguments(), environment);
  report(1);
  kill(pid_, SIGTERM);
  kill(pid_, SIGTERM);  // the same wish, delivered twice
  EXPECT_EQ(wait().code, 75);
}

TEST_F(OneWorker, may_not_be_asked_to_start_workers) {
  const Ended ended = run(job_arguments({"-n", "2"}), torchrun_);
  EXPECT_EQ(ended.code, 64);
  EXPECT_THAT(ended.err, HasSubstr("-n starts workers, but the environment says that this is worker 1 of 4"));
}

TEST_F(OneWorker, of_a_broken_environment_is_exit_64) {
  auto environment = torchrun_;
  environment["RANK"] = "4";
  const Ended ended = run(job_arguments(), environment);
  EXPECT_EQ(ended.code, 64);
  EXPECT_THAT(ended.err, HasSubstr("RANK: expected an integer in [0, 3], got \"4\""));
}

}  // namespace
}  // namespace lf::test
