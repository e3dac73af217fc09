#include "plugins/lock.h"

#include <gmock/gmock.h>

#include "plugins/inspect.h"
#include "plugins/sha256.h"
#include "runtime/plugins/plugin_folder.h"

namespace lf::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Lock : public PluginFolder {
 protected:
  void lock() const { write_lock(folder_, host()); }
  static std::string judged(const std::filesystem::path& path, LockUse use = LockUse::kIfThere) {
    PluginHost strict = host();
    strict.lock = use;
    return judge_plugin(path, strict).refusal.value_or("");
  }
};

TEST_F(Lock, sha256_is_that_of_the_standard) {
  // FIPS 180-4's own example, and the empty message.
  EXPECT_EQ(sha256_of_file(write("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(write("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Lock, a_folder_as_it_was_locked_is_taken) {
  const auto path = write(good_bytes());
  lock();
  EXPECT_EQ(refusal(path), "");
  EXPECT_EQ(judged(path, LockUse::kRequired), "");
  const auto held = read_lock(folder_);
  ASSERT_TRUE(held && held->size() == 1);
  EXPECT_EQ(held->front().id, "good_00");
  EXPECT_EQ(held->front().sha256, sha256_of_file(path));
}

TEST_F(Lock, no_lock_is_fine_unless_one_is_required) {
  const auto path = write(good_bytes());
  EXPECT_EQ(judged(path), "");
  EXPECT_EQ(judged(path, LockUse::kRequired),
            "expected " + (folder_ / "plugins.lock").string() +
                ", since --locked is given, got none; write it with `lfrun --plugin-dir " + folder_.string() +
                " plugins lock`");
}

TEST_F(Lock, a_file_that_is_not_listed_is_refused) {
  write(good_bytes());
  lock();
  EXPECT_THAT(judged(write(good_bytes("good_01"), "more.lfplugin.so")),
              HasSubstr("got a file that is not listed there"));
}

TEST_F(Lock, another_id_under_a_locked_name_is_refused) {
  write(good_bytes());
  lock();
  EXPECT_THAT(judged(write(good_bytes("good_01"))),
              HasSubstr("expected balancer good_00 1.2 as locked, got balancer good_01 1.2"));
}

TEST_F(Lock, other_bytes_are_refused_when_the_file_is_to_be_opened) {
  const auto path = write(good_bytes());
  lock();
  std::string bytes = good_bytes();
  bytes.back() ^= 1;
  write(bytes);
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("expected sha256 "), HasSubstr(" as locked, got ")));
  PluginSet unprobed({folder_}, host(), false);
  EXPECT_THROW(unprobed.load(PluginKind::kBalancer, "good_00"), Error);
}

// The good plugin says that it opens "part_*.so" by itself; any shared object can be one.
TEST_F(Lock, parts_of_a_plugin_are_locked_with_it_and_other_bytes_of_one_refuse_the_plugin) {
  const auto path = write(good_bytes());
  write(bytes_of("no_manifest"), "part_one.so");
  write(bytes_of("no_manifest"), "other.so");  // none of its parts
  lock();
  const auto held = read_lock(folder_);
  ASSERT_TRUE(held && held->size() == 1 && held->front().parts.size() == 1);
  EXPECT_EQ(held->front().parts[0].file, "part_one.so");
  EXPECT_EQ(held->front().parts[0].sha256, sha256_of_file(folder_ / "part_one.so"));
  EXPECT_EQ(refusal(path), "");
  EXPECT_THAT(inspect_plugin(path, host(), "").text,
              HasSubstr("part         " + (folder_ / "part_one.so").string() + ", sha256 " +
                        held->front().parts[0].sha256 + ", as locked\n"));
  write(bytes_of("no_manifest") + "x", "part_one.so");
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("its part " + (folder_ / "part_one.so").string() + ": expected sha256 "),
                                   HasSubstr(" as locked, got ")));
  PluginSet unprobed({folder_}, host(), false);
  EXPECT_THROW(unprobed.load(PluginKind::kBalancer, "good_00"), Error);
}

TEST_F(Lock, a_part_that_came_after_the_lock_refuses_its_plugin) {
  const auto path = write(good_bytes());
  lock();
  write(bytes_of("no_manifest"), "part_two.so");
  EXPECT_THAT(judged(path), AllOf(HasSubstr("expected its part " + (folder_ / "part_two.so").string() + " in "),
                                  HasSubstr("got a file that is not listed there")));
}

TEST_F(Lock, a_damaged_lock_or_one_that_others_may_write_refuses_what_lies_beside_it) {
  const auto path = write(good_bytes());
  for (const char* text :
       {"", "{", "[]", "{\"plugins\": 1}", "{\"plugins\": [{\"file\": \"a\"}]}",
        R"({"plugins": [{"file": "a", "kind": "b", "id": "c", "version": "1", "sha256": "d", "parts": [7]}]})"}) {
    write(text, "plugins.lock");
    EXPECT_THAT(judged(path), HasSubstr("plugins.lock; write it anew with `lfrun --plugin-dir " + folder_.string() +
                                        " plugins lock`"))
        << text;
  }
  lock();
  EXPECT_EQ(judged(path), "");
  chmod((folder_ / "plugins.lock").c_str(), 0666);
  EXPECT_THAT(judged(path), AllOf(HasSubstr("plugins.lock: "), HasSubstr("got mode 666")));
}

TEST_F(Lock, inspection_judges_the_bytes_too_since_nobody_opens_the_file_behind_it) {
  const auto path = write(good_bytes(), "one.lfplugin.so");
  write_lock(folder_, host());
  EXPECT_TRUE(inspect_plugin(path, host(), "").acceptable);
  write(bytes_of("start_fails"), "one.lfplugin.so");  // the same id and version
  const Inspection other = inspect_plugin(path, host(), "");
  EXPECT_FALSE(other.acceptable);
  EXPECT_THAT(other.text, AllOf(HasSubstr("lock         its bytes are not those locked"),
                                HasSubstr("verdict      refused: expected sha256 ")));
}

TEST_F(Lock, a_folder_with_a_refused_plugin_is_not_locked) {
  write(good_bytes());
  const auto bad = write(bytes_of("other_abi"), "bad.lfplugin.so");
  try {
    lock();
    FAIL() << "locked";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(bad.string() + ": expected plugin ABI"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "plugins.lock"));
}

}  // namespace
}  // namespace lf::test
