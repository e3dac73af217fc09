#include <dlfcn.h>
#include <gmock/gmock.h>

#include "lf/plugin_api/balancer.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/library.h"
#include "runtime/plugins/plugin_folder.h"

namespace lf::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PluginSetTest : public PluginFolder {
 protected:
  PluginSet set() const { return PluginSet({folder_}, host()); }

  // The refusal of what was asked for: exit 78 on one line.
  template <typename Act>
  static std::string refused(Act&& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::kConfig);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "not refused";
    return "";
  }
  std::string refused_load(const std::string& id = "good_00") {
    return refused([&] { set().load(PluginKind::kBalancer, id); });
  }
};

TEST_F(PluginSetTest, a_good_plugin_is_loaded_started_and_asked_for_its_table) {
  const auto path = write(good_bytes());
  PluginSet plugins = set();
  Plugin& plugin = plugins.load(PluginKind::kBalancer, "good_00");
  EXPECT_EQ(plugin.id(), "good_00");
  EXPECT_EQ(plugin.path(), path);
  EXPECT_EQ(&plugins.load(PluginKind::kBalancer, "good_00"), &plugin);
  const lf_host lent = sdk::with_header<lf_host>();
  plugin.start(&lent);
  const auto* table = plugin.interface<lf_balancer_api>(LF_BALANCER_INTERFACE);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->h.size, sizeof(lf_balancer_api));
  EXPECT_EQ(plugin.interface<void>("lf.other/1"), nullptr);
}

// The linker opens by path: what it mapped is compared with the file that was checked, before any function is called.
TEST_F(PluginSetTest, a_file_swapped_between_its_check_and_its_opening_is_refused) {
  const auto path = write(good_bytes("good_81"));
  const auto other = write(good_bytes("good_82"), "other");
  const Candidate candidate = judge_plugin(path, host());
  ASSERT_FALSE(candidate.refusal) << *candidate.refusal;
  std::string reached;
  try {
    open_plugin(candidate, [&](OpenStage stage) {
      reached += static_cast<char>(stage);
      if (stage == OpenStage::kOpening) std::filesystem::rename(other, path);
    });
    ADD_FAILURE() << "not refused";
  } catch (const std::exception& refusal) {
    EXPECT_THAT(refusal.what(), HasSubstr("is not the file that was checked"));
  }
  EXPECT_EQ(reached, "o");
}

TEST_F(PluginSetTest, a_plugin_stays_mapped_when_the_set_is_gone) {
  const auto path = write(good_bytes("good_77"));
  const lf_balancer_api* table = nullptr;
  {
    PluginSet plugins = set();
    table = plugins.load(PluginKind::kBalancer, "good_77").interface<lf_balancer_api>(LF_BALANCER_INTERFACE);
  }
  EXPECT_EQ(table->h.size, sizeof(lf_balancer_api));
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(handle, nullptr);
  if (handle != nullptr) dlclose(handle);
}

TEST_F(PluginSetTest, an_absent_plugin_is_answered_with_where_was_looked_and_what_there_is) {
  write(good_bytes("good_01"), "a.lfplugin.so");
  write(good_bytes("good_02"), "b.lfplugin.so");
  EXPECT_EQ(
      refused_load("other"),
      "balancer plugin other: expected one in " + folder_.string() +
          ", got none; others there: good_01, good_02; name its folder by --plugin-dir, or build it (in a source tree: "
          "make build)");
  EXPECT_THAT(refused([&] { set().load(PluginKind::kModel, "good_01"); }), HasSubstr("no other of that kind is there"));
}

TEST_F(PluginSetTest, a_refused_file_of_the_wanted_name_is_the_answer) {
  write(bytes_of("other_abi"), "anything.lfplugin.so");
  EXPECT_EQ(refused_load(), (folder_ / "anything.lfplugin.so").string() +
                                ": expected plugin ABI 0.1, got 9.4; rebuild it against this lfrun's plugin_api");
  std::filesystem::remove(folder_ / "anything.lfplugin.so");
  write(good_bytes().substr(0, 1000), "good_00.lfplugin.so");
  EXPECT_THAT(refused_load(), AllOf(HasSubstr("good_00.lfplugin.so: expected a whole ELF file")));
}

TEST_F(PluginSetTest, two_plugins_with_one_id_are_refused_and_both_are_named) {
  const auto first = write(good_bytes(), "first.lfplugin.so"), second = write(good_bytes(), "second.lfplugin.so");
  EXPECT_THAT(refused_load(), AllOf(HasSubstr(first.string()), HasSubstr(second.string()), HasSubstr("got two")));
}

TEST_F(PluginSetTest, a_plugin_that_brings_another_copy_of_a_loaded_vendors_library_is_refused_and_both_are_named) {
  const std::filesystem::path built = std::filesystem::path(LF_BUILD_DIR) / "test_plugins";
  for (const char* home : {"vendor_a", "vendor_b"}) std::filesystem::copy(built / home, folder_ / home);
  write(bytes_of("device_vendored"), "device_vendored.lfplugin.so");
  write(bytes_of("needs_vendor_b"), "needs_vendor_b.lfplugin.so");
  PluginSet plugins = set();
  EXPECT_EQ(plugins.load(PluginKind::kDevice, "vendored").id(), "vendored");
  EXPECT_EQ(refused([&] { plugins.load(PluginKind::kBalancer, "good_00"); }),
            "expected one libbkcl.so in the process, got two: " + (folder_ / "vendor_a/libbkcl.so").string() +
                " (for device_vendored.lfplugin.so) and " + (folder_ / "vendor_b/libbkcl.so").string() +
                " (for needs_vendor_b.lfplugin.so); point both at one installation");
  PluginHost of_core = host();
  of_core.core = folder_ / "needs_vendor_b.lfplugin.so";  // any file that needs the other copy
  EXPECT_THAT(refused([&] { PluginSet({folder_}, of_core).load(PluginKind::kDevice, "vendored"); }),
              HasSubstr("expected one libbkcl.so in the process, got two"));
}

TEST_F(PluginSetTest, the_same_folder_named_twice_is_one_plugin) {
  write(good_bytes());
  std::filesystem::create_directory_symlink(folder_, folder_ / "again");
  PluginSet plugins({folder_, folder_ / "again", folder_}, host());
  EXPECT_EQ(plugins.candidates().size(), 1u);
  EXPECT_EQ(plugins.load(PluginKind::kBalancer, "good_00").id(), "good_00");
}

TEST_F(PluginSetTest, bad_neighbours_do_not_keep_a_good_plugin_from_loading) {
  for (const char* bad : {"crashes_in_constructor", "other_torch", "no_manifest"}) {
    std::string bytes = bytes_of(bad);
    for (size_t at; (at = bytes.find("good_00")) != std::string::npos;) bytes.replace(at, 7, "baddie_");
    write(bytes, std::string(bad) + ".lfplugin.so");
  }
  write("", "empty.lfplugin.so");
  write(good_bytes());
  PluginSet plugins = set();
  EXPECT_EQ(plugins.candidates().size(), 5u);
  EXPECT_EQ(plugins.load(PluginKind::kBalancer, "good_00").id(), "good_00");
}

TEST_F(PluginSetTest, a_crash_on_probe_refuses_the_load_and_this_process_lives) {
  const auto path = write(bytes_of("crashes_in_constructor"));
  EXPECT_EQ(refused_load(), path.string() + ": crashed on probe (signal 11, SIGSEGV) while it was being opened");
}

TEST_F(PluginSetTest, a_start_that_fails_is_told_in_the_plugins_words) {
  const auto path = write(bytes_of("start_fails"));
  PluginSet plugins = set();
  Plugin& plugin = plugins.load(PluginKind::kBalancer, "good_00");
  const lf_host lent = sdk::with_header<lf_host>();
  try {
    plugin.start(&lent);
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kUnavailable);
    EXPECT_EQ(std::string(error.what()), path.string() + ": start: expected a card, got none");
  }
}

TEST_F(PluginSetTest, a_folder_that_is_not_there_is_refused) {
  EXPECT_THAT(refused([&] { PluginSet({folder_ / "absent"}, host()); }),
              HasSubstr("absent: expected a folder of plugins"));
}

TEST_F(PluginSetTest, twenty_plugins_are_listed) {
  for (int i = 10; i < 30; ++i) write(good_bytes("good_" + std::to_string(i)), std::to_string(i) + ".lfplugin.so");
  const auto start = std::chrono::steady_clock::now();
  const auto listed = list_plugins({folder_}, host());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("20 plugins listed in %.2f ms\n", took.count());
  ASSERT_EQ(listed.size(), 20u);
  for (const Candidate& candidate : listed) EXPECT_EQ(candidate.refusal, std::nullopt);
}

}  // namespace
}  // namespace lf::test
