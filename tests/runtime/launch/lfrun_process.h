// lfrun beside the fake core, run as a person would, with a job of idle plugins in a folder of its own.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lf::test {

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

struct Ended {
  int code = -1;  // 128+n by signal
  std::string out, err;
};

class Lfrun : public testing::Test {
 protected:
  Lfrun() {
    std::string name = testing::TempDir() + "lf_launch_XXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(name.data()));
    std::ofstream(folder_ / "config.json") << "{}";
    std::ofstream(folder_ / "train.jsonl") << "";
    job_ = folder_ / "job.toml";
    std::ofstream(job_) << "[job]\nsteps = 1\n[model]\nfamily = \"toy\"\nconfig = \"config.json\"\n[data]\npath = "
                           "\"train.jsonl\"\n";
    std::filesystem::create_directory(folder_ / "out");
  }
  ~Lfrun() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  static std::string idle_plugins() { return LF_BUILD_DIR "/test_plugins_idle"; }
  std::vector<std::string> job_arguments(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--plugin-dir", idle_plugins(), job_.string()});
    return more;
  }

  // Starts it in folder_, in a process group of its own, with nothing in the environment but what is given.
  void start(const std::vector<std::string>& arguments, std::map<std::string, std::string> environment = {},
             const std::string& program = LF_BUILD_DIR "/test_core/bin/lfrun", const char* out_file = nullptr) {
    environment.emplace("PATH", "/usr/bin:/bin");
    environment.emplace("FAKE_OUT", (folder_ / "out").string());
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
    std::vector<char*> argv{const_cast<char*>("lfrun")}, envp;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    for (const std::string& variable : variables) envp.push_back(const_cast<char*>(variable.c_str()));
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    const std::string out = out_file != nullptr ? out_file : (folder_ / "stdout").string();
    const std::string err = (folder_ / "stderr").string();
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      setpgid(0, 0);
      if (chdir(folder_.c_str()) != 0) _exit(127);
      if (removes_working_directory_ && (mkdir("gone", 0700) != 0 || chdir("gone") != 0 || rmdir("../gone") != 0))
        _exit(127);
      dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      if (nobody_reads_stderr_) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) _exit(127);
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
      }
      for (const int descriptor : closed_) close(descriptor);
      if (ignored_signal_ != 0) signal(ignored_signal_, SIG_IGN);
      execve(program.c_str(), argv.data(), envp.data());
      _exit(127);
    }
  }

  Ended wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), text_of(folder_ / "stdout"),
            text_of(folder_ / "stderr")};
  }

  Ended run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {}) {
    start(arguments, environment);
    return wait();
  }

  // What the fake core of a rank was asked, once it is running.
  std::string report(int rank) const {
    const auto file = folder_ / "out" / ("rank" + std::to_string(rank) + ".txt");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!std::filesystem::exists(file)) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "rank " << rank << " never started; stderr: " << text_of(folder_ / "stderr");
        return "";
      }
      usleep(2000);
    }
    return text_of(file);
  }

  pid_t pid_of(int rank) const {
    const std::string text = report(rank);
    const size_t at = text.find("\npid ");
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + 5));
  }

  static bool gone_within(pid_t pid, std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (kill(pid, 0) == 0) {
      // A process that ended and that nobody waited for yet is gone, too.
      const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
      if (const size_t paren = stat.rfind(')'); paren != std::string::npos && stat.substr(paren, 3) == ") Z")
        return true;
      if (std::chrono::steady_clock::now() > deadline) return false;
      usleep(2000);
    }
    return true;
  }

  std::filesystem::path folder_, job_;
  pid_t pid_ = -1;
  bool removes_working_directory_ = false;
  std::vector<int> closed_;           // of the standard descriptors, as by 2>&-
  bool nobody_reads_stderr_ = false;  // as of a pipe whose reader has gone
  int ignored_signal_ = 0;            // that it is started with, as nohup does
};

}  // namespace lf::test
