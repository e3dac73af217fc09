// What the runtime lends to plugins: the lf_host table, and the extensions that further modules add to it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "lf/plugin_api/host.h"

namespace lf {

// One per process in practice; outlives every plugin that was started with it. Extensions and options are set before
// the first plugin starts and never change afterwards; cancel() may come from any thread.
class Host {
 public:
  Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const lf_host* table() const { return &table_; }

  // `table` and `state` outlive the host. The functions of an extension find `state` by Host::state_of.
  void offer(const std::string& extension_id, const void* table, void* state);
  // Answers lf_host.option: the JSON of a dotted name, or an empty string where there is none.
  void answer_options(std::function<std::string(std::string_view dotted_name)> answer);

  // What plugins' lines for the log become. Set before the first model is opened.
  void word_log(std::function<std::string(const std::string& line)> words) { words_ = std::move(words); }

  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  static Host& of(const lf_host* table) { return *static_cast<Host*>(table->context); }
  template <typename State>
  static State& state_of(const lf_host* table, const char* extension_id) {
    return *static_cast<State*>(of(table).extensions_.at(extension_id).state);
  }

 private:
  struct Extension {
    const void* table;
    void* state;
  };
  lf_host table_;
  std::map<std::string, Extension, std::less<>> extensions_;
  std::function<std::string(std::string_view)> options_;
  std::function<std::string(const std::string&)> words_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace lf
