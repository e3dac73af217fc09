// Ranks of a test: forked processes that report a line each, under a hard limit of time.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lf::test {

struct RankOutcome {
  int signal = 0;      // that ended it
  int exit_code = 0;   // 0: `work` returned; 1: it threw, and `text` is what
  std::string text;    // what `work` returned
  double seconds = 0;  // until it ended
};

// Forks `ranks` children before any of them has a thread; each runs work(rank). All are killed after `limit_seconds`.
inline std::vector<RankOutcome> run_ranks(int ranks, const std::function<std::string(int)>& work,
                                          double limit_seconds = 30) {
  struct Child {
    pid_t pid;
    int pipe;
    bool open;
  };
  std::vector<Child> children;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    const pid_t pid = fork();
    if (pid == 0) {
      signal(SIGPIPE, SIG_IGN);  // as in a worker: a peer that dies closes its sockets
      close(ends[0]);
      std::string text;
      int code = 0;
      try {
        text = work(rank);
      } catch (const std::exception& error) {
        text = error.what();
        code = 1;
      }
      for (size_t at = 0; at < text.size();) {
        const ssize_t n = write(ends[1], text.data() + at, text.size() - at);
        if (n <= 0) break;
        at += static_cast<size_t>(n);
      }
      _exit(code);
    }
    close(ends[1]);
    children.push_back({pid, ends[0], true});
  }

  std::vector<RankOutcome> outcomes(children.size());
  size_t open = children.size();
  while (open > 0) {
    if (elapsed() > limit_seconds) {
      for (const Child& child : children) kill(child.pid, SIGKILL);
    }
    std::vector<pollfd> polled;
    for (const Child& child : children) polled.push_back({child.open ? child.pipe : -1, POLLIN, 0});
    poll(polled.data(), polled.size(), 50);
    for (size_t i = 0; i < children.size(); ++i) {
      if (polled[i].revents == 0) continue;
      char bytes[4096];
      const ssize_t n = read(children[i].pipe, bytes, sizeof(bytes));
      if (n > 0) {
        outcomes[i].text.append(bytes, static_cast<size_t>(n));
        continue;
      }
      close(children[i].pipe);
      children[i].open = false;
      --open;
      int status = 0;
      waitpid(children[i].pid, &status, 0);
      outcomes[i].seconds = elapsed();
      outcomes[i].exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      outcomes[i].signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
  }
  return outcomes;
}

}  // namespace lf::test
