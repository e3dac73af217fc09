#include <cstdio>
#include <thread>

#include <gmock/gmock.h>

#include "runtime/launch/lfrun_process.h"

namespace lf::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Commands = Lfrun;

TEST_F(Commands, lfrun_links_neither_libtorch_nor_a_vendors_library) {
  FILE* pipe = popen("ldd " LF_BUILD_DIR "/bin/lfrun", "r");
  ASSERT_NE(pipe, nullptr);
  std::string libraries(1 << 16, '\0');
  libraries.resize(fread(libraries.data(), 1, libraries.size(), pipe));
  pclose(pipe);
  EXPECT_THAT(libraries, HasSubstr("libc.so.6"));
  for (const char* unwanted : {"libtorch", "libc10", "libcuda", "libnccl"})
    EXPECT_THAT(libraries, Not(HasSubstr(unwanted)));
}

TEST_F(Commands, help_tells_usage_and_every_option_and_needs_no_core) {
  std::filesystem::create_directories(folder_ / "alone/bin");
  std::filesystem::copy(LF_BUILD_DIR "/bin/lfrun", folder_ / "alone/bin/lfrun");
  start({"--help"}, {}, (folder_ / "alone/bin/lfrun").string());
  const Ended ended = wait();
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("lfrun check JOB.toml"), HasSubstr("[optimizer]"), HasSubstr("  learning_rate ")));
}

TEST_F(Commands, help_of_a_command_is_its_own) {
  EXPECT_THAT(run({"check", "--help"}).out,
              AllOf(StartsWith("lfrun check JOB.toml"), HasSubstr("-n N"), Not(HasSubstr("plugins verify"))));
  EXPECT_THAT(run({"plugins", "verify", "--help"}).out,
              AllOf(StartsWith("lfrun plugins"), HasSubstr("--only TEXT"), Not(HasSubstr("-n N"))));
  EXPECT_THAT(run({"options", "--help"}).out, AllOf(StartsWith("lfrun options"), HasSubstr("--markdown")));
  EXPECT_THAT(run({"job.toml", "--help"}).out, HasSubstr("lfrun JOB.toml"));
}

TEST_F(Commands, output_that_cannot_be_written_is_an_error) {
  start({"--help"}, {}, LF_BUILD_DIR "/test_core/bin/lfrun", "/dev/full");
  EXPECT_EQ(wait().code, 74);
}

TEST_F(Commands, a_bad_command_line_is_one_line_and_exit_64) {
  const Ended ended = run({"--plugin-dri", "x"});
  EXPECT_EQ(ended.code, 64);
  EXPECT_EQ(ended.err,
            "lfrun: option --plugin-dri is unknown; did you mean --plugin-dir?; `lfrun --help` shows the usage\n");
  EXPECT_EQ(run({}).code, 64);
}

TEST_F(Commands, an_empty_text_is_named_as_such) {
  for (const auto& [words, told] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{""}, "training takes one job file, got an empty text"},
           {{"check", ""}, "check takes one job file, got an empty text"},
           {{"plugins", "verify", ""}, "plugins verify takes files, got an empty text"},
           {{job_.string(), "--plugin-dir", ""}, "--plugin-dir takes a folder of plugins, got an empty text"},
           {{job_.string(), "-n"}, "-n takes a number of workers in [1, 4096], got nothing"}}) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.code, 64) << told;
    EXPECT_THAT(ended.err, StartsWith("lfrun: " + told));
  }
}

TEST_F(Commands, two_numbers_of_workers_are_a_contradiction_in_either_order) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-n", "2", "--set", "launch.processes=3"}, {"--set", "launch.processes = 3", "-n2"}}) {
    const Ended ended = run(job_arguments(words));
    EXPECT_EQ(ended.code, 64);
    EXPECT_THAT(ended.err, StartsWith("lfrun: -n 2 contradicts --set launch.processes=3; leave one of them out"));
  }
  EXPECT_EQ(run(job_arguments({"-n", "2", "--set", "launch.processes=2"})).code, 0);
}

TEST_F(Commands, a_working_directory_that_was_removed_is_told_as_such_with_66) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"check", "job.toml"},
                                                {"job.toml", "--print-config"},
                                                {"job.toml"},
                                                {"parity", "x"},
                                                {"balance", "x"}}) {
    removes_working_directory_ = true;
    const Ended ended = run(words);
    EXPECT_EQ(ended.code, 66);
    EXPECT_THAT(ended.err, StartsWith("the working directory cannot be found: No such file or directory;"));
  }
}

TEST_F(Commands, a_mistyped_command_is_not_taken_for_a_job_file) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"chek"}, {"chek", job_.string()}}) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.code, 64);
    EXPECT_EQ(ended.err,
              "lfrun: chek is neither a job file nor a command; did you mean check?; `lfrun --help` shows the usage\n");
  }
  EXPECT_THAT(run({"help"}).err, HasSubstr("did you mean --help?"));
  EXPECT_EQ(run({"absent"}).code, 66);
}

TEST_F(Commands, a_job_that_is_no_toml_is_refused_by_check_without_a_core) {
  std::ofstream(job_, std::ios::app) << "= nothing\n";
  EXPECT_EQ(run({"check", job_.string()}).code, 78);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/rank0.txt"));
}

TEST_F(Commands, mistakes_in_options_paths_and_plugins_are_told_together) {
  std::filesystem::remove(folder_ / "train.jsonl");
  const Ended ended = run(job_arguments({"--set", "model.family=absent", "--set", "optimizer.beta1=2"}));
  EXPECT_EQ(ended.code, 78);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("optimizer.beta1 must be in [0, 1)"), HasSubstr("train.jsonl does not exist"),
                               HasSubstr("--set: model plugin absent: expected one in ")));
}

TEST_F(Commands, a_bad_job_file_tells_all_its_mistakes_and_exit_78) {
  std::ofstream(job_, std::ios::app) << "max_tokenz = 1\nmicro_batches = 0\n";
  const Ended ended = run(job_arguments());
  EXPECT_EQ(ended.code, 78);
  EXPECT_EQ(ended.err, job_.string() + ":8:1: data.max_tokenz is unknown; did you mean data.max_tokens?\n" +
                           job_.string() +
                           ":9:17: data.micro_batches must be in [1, 1000000] (micro-batches), got 0\n");
}

TEST_F(Commands, missing_input_is_exit_66) {
  std::filesystem::remove(folder_ / "train.jsonl");
  const Ended ended = run(job_arguments());
  EXPECT_EQ(ended.code, 66);
  EXPECT_THAT(ended.err, HasSubstr("data.path: " + (folder_ / "train.jsonl").string() + " does not exist"));
  EXPECT_EQ(run({"absent.toml"}).code, 66);
}

TEST_F(Commands, all_missing_plugins_are_told_and_exit_78) {
  const Ended ended = run(job_arguments({"--set", "model.family=absent", "--set", "balance.policy=absent_too"}));
  EXPECT_EQ(ended.code, 78);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("model plugin absent: expected one in "), HasSubstr("others there: toy; name its folder"),
                    HasSubstr("\n--set: balancer plugin absent_too: expected one in ")));
}

TEST_F(Commands, a_plugin_that_crashes_on_probe_is_one_line_and_exit_78_before_any_worker_starts) {
  std::filesystem::create_directory(folder_ / "plugins");
  std::filesystem::copy(LF_BUILD_DIR "/test_plugins/crashes_in_constructor.lfplugin.so", folder_ / "plugins");
  const Ended ended = run(job_arguments({"--plugin-dir", "plugins", "--set", "balance.policy=good_00"}));
  EXPECT_EQ(ended.code, 78);
  EXPECT_EQ(ended.err, "--set: " + (folder_ / "plugins/crashes_in_constructor.lfplugin.so").string() +
                           ": crashed on probe (signal 11, SIGSEGV) while it was being opened\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

TEST_F(Commands, an_absent_core_is_named_and_exit_69) {
  std::filesystem::create_directories(folder_ / "alone/bin");
  std::filesystem::copy(LF_BUILD_DIR "/bin/lfrun", folder_ / "alone/bin/lfrun");
  start(job_arguments(), {}, (folder_ / "alone/bin/lfrun").string());
  const Ended ended = wait();
  EXPECT_EQ(ended.code, 69);
  EXPECT_THAT(ended.err,
              StartsWith((folder_ / "alone/lib/liblfcore.so").string() + ": the core of lfrun is not there"));
  std::filesystem::create_directories(folder_ / "alone/lib");
  std::ofstream(folder_ / "alone/lib/liblfcore.so") << "no library";
  start(job_arguments(), {}, (folder_ / "alone/bin/lfrun").string());
  EXPECT_THAT(wait().err, HasSubstr("cannot be opened"));
}

TEST_F(Commands, check_asks_the_core_in_this_process_with_the_job_its_overrides_and_its_world) {
  auto arguments = job_arguments({"--set", "job.seed=5", "-n", "3"});
  arguments.insert(arguments.begin(), "check");
  const Ended ended = run(arguments, {{"FAKE_CORE", "0:exit 7"}});
  EXPECT_EQ(ended.code, 7) << ended.err;
  EXPECT_THAT(report(0), AllOf(HasSubstr("command check\njob_file " + job_.string() + "\n"),
                               HasSubstr("set job.seed=5\nset launch.processes=3\n"),
                               HasSubstr("plugin_dir " + idle_plugins() + "\n"), HasSubstr("world_size 3\n"),
                               HasSubstr("store \n")));
}

TEST_F(Commands, check_takes_no_more_threads_than_there_are_cores_and_warns_of_what_a_run_would_take) {
  auto arguments = job_arguments({"--set", "launch.threads=4096"});
  arguments.insert(arguments.begin(), "check");
  const Ended ended = run(arguments);
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.err, StartsWith("lfrun: warning: 4096 threads for each of 1 worker on this host of "));
  const std::string asked = report(0);
  const int threads = std::stoi(asked.substr(asked.find("\nthreads ") + 9));
  EXPECT_LE(threads, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_THAT(asked, HasSubstr("\nomp " + std::to_string(threads) + "\n"));
}

TEST_F(Commands, a_run_directory_that_may_not_be_written_is_73_as_in_check) {
  // Where not even root makes folders.
  const Ended ended = run(job_arguments({"--set", "job.output=/sys/lfrun_test"}));
  EXPECT_EQ(ended.code, 73);
  EXPECT_THAT(ended.err, HasSubstr("/sys/lfrun_test: cannot be created: "));
}

TEST_F(Commands, the_other_commands_hand_their_words_to_the_core) {
  EXPECT_EQ(run({"parity", "fixtures", "odd"}, {{"FAKE_CORE", "0:exit 1"}}).code, 1);
  EXPECT_THAT(report(0), HasSubstr("command parity\njob_file -\nargument "));
  EXPECT_THAT(report(0), HasSubstr("argument fixtures\nargument odd\n"));
  EXPECT_EQ(run({"export", "--plugin-dir", "p", "ckpt", "out"}).code, 0);
  EXPECT_THAT(report(0), HasSubstr("command export"));
  EXPECT_THAT(report(0), HasSubstr("plugin_dir " + (folder_ / "p").string() + "\nargument ckpt\nargument out\n"));
  EXPECT_EQ(run({"balance", "--samples", "s.jsonl", "--ranks=4", "--micro-batches", "2"}).code, 0);
  EXPECT_THAT(report(0),
              HasSubstr("argument --samples\nargument s.jsonl\nargument --ranks=4\nargument --micro-batches\n"
                        "argument 2\n"));
}

TEST_F(Commands, the_environment_chooses_the_device_for_the_core_too) {
  Ended ended = run(job_arguments(), {{"LF_DEVICE", "absent"}});
  EXPECT_EQ(ended.code, 69);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("device absent"), HasSubstr(idle_plugins()), HasSubstr("there are cpu")));
  ended = run(job_arguments({"--set", "device.name=absent"}), {{"LF_DEVICE", "cpu"}});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(report(0), HasSubstr("device cpu\n"));
}

// As in LF_DEVICE=$CARD where nobody has set CARD.
TEST_F(Commands, a_device_variable_that_is_empty_is_refused_with_78_by_every_command_that_heeds_it) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--print-config"}}) {
    const Ended ended = run(job_arguments(more), {{"LF_DEVICE", ""}});
    EXPECT_EQ(ended.code, 78);
    EXPECT_THAT(ended.err, HasSubstr("LF_DEVICE: expected the id of a device plugin, or auto, got nothing"));
  }
  const Ended parity = run({"parity", "fixtures"}, {{"LF_DEVICE", ""}});
  EXPECT_EQ(parity.code, 78);
  EXPECT_THAT(parity.err, HasSubstr("LF_DEVICE: expected the id of a device plugin, or auto, got nothing"));
}

TEST_F(Commands, every_command_tells_the_core_of_a_lock_that_is_demanded_and_what_else_plugins_must_go_with) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"check", job_.string()}, {"parity", "x"}, {"export", "x", "y"}, {"balance", "x"}}) {
    for (const bool locked : {false, true}) {
      std::vector<std::string> arguments = {"--plugin-dir", idle_plugins()};
      if (locked) arguments.push_back("--locked");
      arguments.insert(arguments.end(), words.begin(), words.end());
      start(arguments, {{"LD_LIBRARY_PATH", "/one:/two"}});
      EXPECT_EQ(wait().code, 0) << words[0];
      EXPECT_THAT(report(0), AllOf(HasSubstr(locked ? "locked yes\n" : "locked no\n"),
                                   HasSubstr("core_file " LF_BUILD_DIR "/test_core/lib/liblfcore.so\n"),
                                   HasSubstr("library_path /one:/two\n")))
          << words[0];
      std::filesystem::remove(folder_ / "out/rank0.txt");
    }
  }
  EXPECT_EQ(run(job_arguments({"--locked"})).code, 78);  // before any worker starts
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/rank0.txt"));
}

TEST_F(Commands, print_config_prints_a_job_file_and_starts_nothing) {
  const Ended ended = run(job_arguments({"--print-config", "-n", "4"}));
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(StartsWith("[job]\n"), HasSubstr("processes = 4  # -n\n")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

TEST_F(Commands, plugins_are_listed_without_running_them_and_refusals_have_reasons) {
  std::filesystem::create_directory(folder_ / "plugins");
  for (const char* name : {"good_00", "crashes_in_constructor", "other_abi"})
    std::filesystem::copy(std::string(LF_BUILD_DIR "/test_plugins/") + name + ".lfplugin.so", folder_ / "plugins");
  const Ended ended = run({"plugins", "list", "--plugin-dir", "plugins"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(StartsWith("KIND      ID       VERSION  ABI  LIBTORCH  FILE\n"),
                               HasSubstr("balancer  good_00  1.2      0.1  none      " + folder_.string()),
                               HasSubstr("crashes_in_constructor.lfplugin.so\n"),
                               HasSubstr("refused: " + (folder_ / "plugins/other_abi.lfplugin.so").string() +
                                         ": expected plugin ABI")));
}

TEST_F(Commands, plugins_verify_runs_the_conformance_kit_in_a_child) {
  const std::string good = LF_BUILD_DIR "/plugins/none.lfplugin.so";
  const std::string bad = LF_BUILD_DIR "/test_plugins/crashes_in_entry.lfplugin.so";
  EXPECT_EQ(run({"plugins", "verify", "--only", "planned", good}).code, 0);
  const Ended ended = run({"plugins", "verify", "--only", "a_single_sample", good, bad});
  EXPECT_EQ(ended.code, 78);
  EXPECT_EQ(ended.out, good + ": conforms: 1 passed, 0 failed, 0 skipped of 1 cases\n" + bad +
                           ": refused: crashed on probe (signal 11, SIGSEGV) in its entry\n");
}

TEST_F(Commands, a_plugin_that_is_not_there_is_exit_66) {
  for (const char* command : {"inspect", "verify"}) {
    const Ended ended = run({"plugins", command, "/nosuch"});
    EXPECT_EQ(ended.code, 66);
    EXPECT_THAT(ended.err, StartsWith("/nosuch: expected the file of a plugin, got nothing there"));
  }
}

TEST_F(Commands, plugins_inspect_says_how_a_file_is_linked_without_running_it) {
  const Ended ended = run({"plugins", "inspect", LF_BUILD_DIR "/test_plugins/crashes_in_constructor.lfplugin.so"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("plugin       balancer good_00 1.2, ABI 0.1\n"),
                               HasSubstr("lane         none: no LibTorch"), HasSubstr("exports      lf_plugin_entry\n"),
                               HasSubstr("libc.so.6 => /"), HasSubstr("lock         no plugins.lock\n")));
}

TEST_F(Commands, a_locked_folder_holds_what_it_held) {
  std::filesystem::create_directory(folder_ / "plugins");
  const auto put = [&](const std::string& built, const std::string& name) {
    std::filesystem::copy(LF_BUILD_DIR "/test_plugins/" + built + ".lfplugin.so",
                          folder_ / "plugins" / (name + ".lfplugin.so"),
                          std::filesystem::copy_options::overwrite_existing);
  };
  put("good_00", "one");
  EXPECT_THAT(
      run({"plugins", "list", "--plugin-dir", "plugins", "--locked"}).out,
      HasSubstr("expected " + (folder_ / "plugins/plugins.lock").string() + ", since --locked is given, got none"));
  EXPECT_EQ(run({"plugins", "lock", "--plugin-dir", "plugins"}).out,
            (folder_ / "plugins/plugins.lock").string() + ": 1 plugins locked\n");
  EXPECT_THAT(run({"plugins", "list", "--plugin-dir", "plugins", "--locked"}).out, Not(HasSubstr("refused")));
  put("start_fails", "one");  // the same id and version, other bytes
  const Ended ended = run({"plugins", "verify", "plugins/one.lfplugin.so"});
  EXPECT_EQ(ended.code, 78);
  EXPECT_THAT(ended.out, HasSubstr("as locked, got "));
  put("good_00", "another");
  EXPECT_THAT(run({"plugins", "list", "--plugin-dir", "plugins"}).out,
              HasSubstr("got a file that is not listed there"));
}

TEST_F(Commands, plugins_are_not_looked_for_in_the_working_directory_or_along_library_paths) {
  std::filesystem::copy(idle_plugins(), folder_, std::filesystem::copy_options::recursive);
  std::filesystem::create_directory(folder_ / "empty");
  start({"--plugin-dir", (folder_ / "empty").string(), job_.string()}, {{"LD_LIBRARY_PATH", folder_.string()}});
  const Ended ended = wait();
  EXPECT_EQ(ended.code, 69);  // the device is missed first
  EXPECT_THAT(ended.err, HasSubstr("model plugin toy: expected one in " + (folder_ / "empty").string() + ", got none"));
}

TEST_F(Commands, starting_over_takes_a_new_directory_and_leaves_the_old_one) {
  std::filesystem::create_directories(folder_ / "runs/job");
  EXPECT_EQ(run(job_arguments({"--fresh"})).code, 0);
  EXPECT_THAT(report(0), HasSubstr("output " + (folder_ / "runs/job-2").string() + "\n"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "runs/job"));
}

}  // namespace
}  // namespace lf::test
