#include "conformance/bench.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <dirent.h>
#include <unistd.h>

#include "plugins/refusal.h"

namespace lf::kit {

void Answer::must_succeed() const { expect(ok(), "{}: expected success, got error {}: {}", function, code, message); }

void Answer::must_fail(std::initializer_list<int32_t> codes) const {
  if (codes.size() == 0) {
    expect(!ok(), "{}: expected a refusal, got success", function);
  } else {
    expect(std::find(codes.begin(), codes.end(), code) != codes.end(), "{}: expected error {}, got {}: {}", function,
           fmt::join(codes, " or "), ok() ? std::string("success") : fmt::to_string(code), message);
  }
  may_fail();
}

void Answer::may_fail() const {
  expect(ok() || !message.empty(), "{}: expected a text in lf_err with error {}, got none", function, code);
}

Answer Bench::answer(std::string_view function, int32_t code, const lf_err& err) {
  expect(err.size == sizeof(lf_err), "{}: expected lf_err.size as the caller set it, got {}", function, err.size);
  expect(std::memchr(err.message, 0, sizeof err.message) != nullptr, "{}: expected a message that ends, got {} bytes",
         function, sizeof err.message);
  return {function, code, one_line(err.message)};
}

void Bench::start() {
  const Answer answer = ask<&lf_plugin::start>(plugin_, host_.table());
  answer.must_succeed();
  started_ = true;
}

void Bench::stop() {
  if (!started_) return;
  started_ = false;
  ask<&lf_plugin::stop>(plugin_).must_succeed();
}

const void* Bench::interface(std::string_view id) {
  crumb_.enter("lf_plugin.get_interface");
  const void* found = plugin_->get_interface(sdk::str(id));
  crumb_.leave();
  return found;
}

namespace {

size_t threads_here() {
  size_t n = 0;
  if (DIR* folder = opendir("/proc/self/task")) {
    while (const dirent* entry = readdir(folder)) n += entry->d_name[0] != '.';
    closedir(folder);
  }
  return n;
}

}  // namespace

std::vector<Case> common_cases() {
  return {
      {"the_descriptor_is_for_this_abi",
       [](Bench& b) {
         expect(b.plugin()->h.major == LF_ABI_MAJOR, "expected a descriptor of ABI major {}, got {}", LF_ABI_MAJOR,
                b.plugin()->h.major);
         expect(b.plugin()->h.size % 8 == 0, "expected a size that is a multiple of 8, got {}", b.plugin()->h.size);
       }},
      {"the_version_is_that_of_the_manifest",
       [](Bench& b) {
         expect(sdk::view(b.plugin()->version) == b.manifest().version, "expected version {} of the manifest, got {}",
                b.manifest().version, one_line(sdk::view(b.plugin()->version)));
       }},
      {"an_unknown_interface_is_null",
       [](Bench& b) {
         for (const std::string_view id : {"lf.telepathy/1", "", "lf.", "lf.device/999"})
           expect(b.interface(id) == nullptr, "get_interface(\"{}\"): expected null, got a table", id);
       }},
      {"an_interface_id_needs_no_terminating_nul",
       [](Bench& b) {
         for (const std::string& id : b.manifest().interfaces) {
           const std::string longer = id + "0";
           expect(b.interface(std::string_view(longer).substr(0, id.size())) != nullptr,
                  "get_interface: expected the table of {}, got null where the text goes on behind it", id);
           expect(b.interface(longer) == nullptr, "get_interface(\"{}\"): expected null, got a table", longer);
         }
       }},
      {"a_table_is_the_same_at_every_call",
       [](Bench& b) {
         for (const std::string& id : b.manifest().interfaces)
           expect(b.interface(id) == b.interface(id), "{}: expected one table, got two", id);
       }},
      {"every_table_states_its_size",
       [](Bench& b) {
         for (const std::string& id : b.manifest().interfaces) {
           const auto* head = b.table<lf_hdr>(id);
           expect(head->size >= sizeof(lf_hdr) + 8 && head->size % 8 == 0 && head->size < 65536,
                  "{}: expected the size of a table, got {}", id, head->size);
         }
       }},
      {"start_and_stop_succeed",
       [](Bench& b) {
         b.start();
         b.stop();
       }},
      {"stop_leaves_no_thread",
       [](Bench& b) {
         const size_t before = threads_here();
         b.start();
         b.stop();
         expect(threads_here() <= before, "expected {} threads after stop, got {}", before, threads_here());
       }},
  };
}

}  // namespace lf::kit
