#include "children.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lf::testing {
namespace {

int status_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

std::string read_all(int pipe) {
  std::string bytes(1 << 16, '\0');
  size_t filled = 0;
  for (ssize_t n; (n = read(pipe, bytes.data() + filled, bytes.size() - filled)) > 0;) filled += n;
  bytes.resize(filled);
  return bytes;
}

}  // namespace

std::vector<int> run_ranks(int size, const Environment& environment, const std::function<void(const Rank&)>& body,
                           int seconds) {
  std::vector<std::array<int, 2>> pipes(size);
  for (auto& ends : pipes)
    if (pipe(ends.data()) != 0) std::abort();
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const auto share = [&](const std::string& mine) {
      if (rank != 0) {
        close(pipes[rank][1]);  // else the end of the message would never come
        return read_all(pipes[rank][0]);
      }
      for (int peer = 1; peer < size; ++peer)
        if (write(pipes[peer][1], mine.data(), mine.size()) != static_cast<ssize_t>(mine.size())) std::abort();
      for (const auto& ends : pipes) close(ends[1]);
      return mine;
    };
    for (int peer = 0; rank != 0 && peer < size; ++peer)
      if (peer != rank) close(pipes[peer][1]);
    body(Rank{rank, size, share});
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  for (const auto& ends : pipes)
    for (const int end : ends) close(end);
  std::vector<int> ends(size, -1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    while (waitpid(children[rank], &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      kill(children[rank], SIGKILL);
      waitpid(children[rank], &status, 0);
      status = -1;
      break;
    }
    ends[rank] = status == -1 ? -1 : status_of(status);
  }
  return ends;
}

void run_alone(const Environment& environment, const std::function<void()>& body) {
  EXPECT_EQ(run_ranks(1, environment, [&](const Rank&) { body(); }), std::vector<int>{0})
      << "how the process ended; what it found wrong stands above";
}

}  // namespace lf::testing
