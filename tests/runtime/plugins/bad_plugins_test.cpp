// Each way to be a bad plugin ends in one line that says what is wrong, and this process lives.
#include <cstring>

#include <elf.h>
#include <gmock/gmock.h>

#include "plugins/inspect.h"
#include "plugins/parts.h"
#include "runtime/plugins/plugin_folder.h"

namespace lf::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

using BadPlugins = PluginFolder;

std::string patched(std::string bytes, size_t at, const void* with, size_t size) {
  std::memcpy(bytes.data() + at, with, size);
  return bytes;
}

TEST_F(BadPlugins, one_for_another_architecture_is_named_as_such) {
  const uint16_t arm = EM_AARCH64, unknown = 4711;
  EXPECT_EQ(refusal(write(patched(good_bytes(), offsetof(Elf64_Ehdr, e_machine), &arm, 2))),
            "expected a plugin for x86-64, got one for 64-bit ARM; build it for this machine");
  EXPECT_THAT(refusal(write(patched(good_bytes(), offsetof(Elf64_Ehdr, e_machine), &unknown, 2))),
              HasSubstr("ELF machine 4711"));
}

TEST_F(BadPlugins, a_32_bit_file_is_named_as_such) {
  const unsigned char narrow = ELFCLASS32;
  EXPECT_EQ(refusal(write(patched(good_bytes(), EI_CLASS, &narrow, 1))),
            "expected a 64-bit ELF file, got a 32-bit one; build it for x86-64");
}

TEST_F(BadPlugins, an_executable_type_of_elf_file_is_refused) {
  const uint16_t executable = ET_EXEC;
  EXPECT_THAT(refusal(write(patched(good_bytes(), offsetof(Elf64_Ehdr, e_type), &executable, 2))),
              HasSubstr("expected a shared object, got ELF type 2"));
}

TEST_F(BadPlugins, a_script_an_empty_file_and_a_text_are_refused) {
  EXPECT_EQ(refusal(write("#!/bin/sh\n" + std::string(100, 'x'))), "expected an ELF shared object, got a script");
  EXPECT_EQ(refusal(write("")), "expected an ELF shared object, got 0 bytes of something else");
  EXPECT_EQ(refusal(write(std::string(1000, 'x'))), "expected an ELF shared object, got something else");
}

TEST_F(BadPlugins, one_for_another_abi_is_refused_unopened) {
  EXPECT_EQ(refusal_of("other_abi"), "expected plugin ABI 0.1, got 9.4; rebuild it against this lfrun's plugin_api");
}

TEST_F(BadPlugins, one_for_another_libtorch_is_refused_unopened) {
  EXPECT_THAT(refusal_of("other_torch"),
              HasSubstr("expected a plugin for LibTorch 2.11.0+cu130, got one for 1.2.3+cu999"));
}

TEST_F(BadPlugins, one_with_libtorch_whose_strings_are_laid_out_otherwise_is_refused_unopened) {
  EXPECT_EQ(refusal_of("other_strings"),
            "expected C++ compiled as libstdc++ cxx11, as LibTorch is, got libstdc++ cxx98; rebuild it so, or without "
            "LibTorch");
  EXPECT_EQ(refusal_of("own_strings"), "");
}

TEST_F(BadPlugins, one_compiled_for_a_later_processor_is_refused_unopened) {
  const auto file = write(bytes_of("needs_v4"), "needs_v4.lfplugin.so");
  PluginHost older = host();
  older.x86_level = 3;
  EXPECT_EQ(judge_plugin(file, older).refusal.value_or("taken"),
            "expected code for this processor, x86-64-v3, got code for x86-64-v4; rebuild it with -march=x86-64-v3");
  PluginHost same = host();
  same.x86_level = 4;
  EXPECT_EQ(judge_plugin(file, same).refusal.value_or("taken"), "taken");
  EXPECT_THAT(inspect_plugin(file, same, "").text, HasSubstr("processor    x86-64-v4 or later\n"));
  older.x86_level = 1;
  EXPECT_EQ(judge_plugin(write(bytes_of("good_00"), "good.lfplugin.so"), older).refusal.value_or("taken"), "taken");
}

TEST_F(BadPlugins, one_that_needs_a_host_ability_of_the_future_is_refused_unopened) {
  EXPECT_THAT(refusal_of("requires_more"), HasSubstr("requires lf.telepathy/1"));
}

// It would run in the same process.
TEST_F(BadPlugins, one_with_a_part_that_would_be_refused_as_a_plugin_is_refused_unopened) {
  const auto path = write(good_bytes());
  const auto part = write(bytes_of("no_manifest"), "part_one.so");
  const std::string named = "its part " + part.string() + ": ";
  EXPECT_EQ(refusal(path), "");
  chmod(part.c_str(), 0666);
  EXPECT_THAT(refusal(path), AllOf(StartsWith(named), HasSubstr("got mode 666")));
  write("#!/bin/sh\n" + std::string(100, 'x'), "part_one.so");
  EXPECT_EQ(refusal(path), named + "expected an ELF shared object, got a script");
  write(bytes_of("relative_runpath"), "part_one.so");
  EXPECT_THAT(refusal(path), AllOf(StartsWith(named), HasSubstr("got \"libraries\", which is looked for")));
  std::filesystem::remove(part);
  std::filesystem::create_symlink("some.lfplugin.so", part);
  EXPECT_THAT(refusal(path), AllOf(StartsWith(named), HasSubstr("got a symbolic link")));
}

TEST_F(BadPlugins, one_whose_parts_are_named_beyond_its_folder_or_by_a_pattern_of_folders_is_refused) {
  EXPECT_THAT(refusal_of("part_anywhere"), HasSubstr("paths from the plugin's folder, with a pattern in the last "
                                                     "component alone, got \"/tmp/*.so\""));
  for (const char* taken : {"a.so", "../lib/a.so", "a_*.so", "../lib/a_[0-9].so"})
    EXPECT_TRUE(is_part_pattern(taken)) << taken;
  for (const char* refused : {"", "/a.so", "..", "../", "*/a.so", "a?/b.so", "lib/."})
    EXPECT_FALSE(is_part_pattern(refused)) << refused;
}

TEST_F(BadPlugins, an_ordinary_shared_object_is_refused) {
  EXPECT_THAT(refusal_of("no_manifest"), HasSubstr("expected a plugin manifest (section .note.lfplugin)"));
}

TEST_F(BadPlugins, a_missing_symbol_is_named) {
  EXPECT_THAT(refusal_of("missing_symbol"), AllOf(StartsWith("cannot be opened: "), HasSubstr("undefined symbol: "),
                                                  HasSubstr("lf_test_nobody_defines_this")));
}

TEST_F(BadPlugins, one_without_the_entry_is_refused) {
  EXPECT_EQ(refusal_of("no_entry"),
            "expected one exported symbol lf_plugin_entry, got none; build it with lf_add_plugin");
}

TEST_F(BadPlugins, an_entry_that_returns_null_is_refused) {
  EXPECT_THAT(refusal_of("null_entry"), StartsWith("lf_plugin_entry returned nothing for ABI 0.1"));
}

TEST_F(BadPlugins, a_descriptor_that_is_not_what_the_manifest_says_is_refused) {
  EXPECT_THAT(refusal_of("wrong_magic"), HasSubstr("expected a descriptor with magic 0x314c504c, got 0xbadbad"));
  EXPECT_THAT(refusal_of("wrong_kind"), HasSubstr("expected the kind of the manifest (balancer, 3), got 2"));
  EXPECT_THAT(refusal_of("wrong_id"), HasSubstr("expected the id of the manifest (good_00), got somebody_else"));
  EXPECT_THAT(refusal_of("no_interface"),
              HasSubstr("expected interface lf.balancer/1, which its manifest offers, got nothing"));
}

TEST_F(BadPlugins, an_exception_on_probe_is_told_on_one_line) {
  EXPECT_EQ(refusal_of("throws_in_entry"), "threw an exception on probe: no luck today");
#ifndef __SANITIZE_ADDRESS__  // whose own dlopen lets no exception through
  EXPECT_THAT(refusal_of("throws_in_constructor"), HasSubstr("no luck"));
#endif
}

#ifdef LF_TEST_HAS_STATIC_RUNTIME
// Whether such an exception can be caught or ends the process depends on the two runtimes.
TEST_F(BadPlugins, an_exception_of_another_cpp_runtime_is_contained_by_the_child) {
  EXPECT_THAT(refusal_of("throws_static"),
              AnyOf("crashed on probe (signal 6, SIGABRT) in its entry", StartsWith("threw an exception on probe")));
}
#endif

TEST_F(BadPlugins, a_crash_on_probe_is_told_with_its_signal_and_place) {
  EXPECT_EQ(refusal_of("crashes_in_entry"), "crashed on probe (signal 11, SIGSEGV) in its entry");
  EXPECT_EQ(refusal_of("crashes_in_constructor"), "crashed on probe (signal 11, SIGSEGV) while it was being opened");
}

TEST_F(BadPlugins, one_that_ends_the_process_is_refused) {
  EXPECT_EQ(refusal_of("exits_in_constructor"), "ended the process with code 0 on probe while it was being opened");
}

TEST_F(BadPlugins, one_that_hangs_is_given_up) {
  using std::chrono::milliseconds;
  EXPECT_EQ(refusal_of("hangs_in_entry", milliseconds(200)),
            "did not answer within 0.2 s in its entry; it waits for something that is not there");
  EXPECT_THAT(refusal_of("hangs_in_constructor", milliseconds(200)), HasSubstr("while it was being opened"));
}

TEST_F(BadPlugins, a_file_replaced_after_it_was_judged_is_not_opened) {
  const auto path = write(good_bytes());
  const Candidate judged = judge_plugin(path, host());
  write(bytes_of("crashes_in_constructor"), "other");
  std::filesystem::rename(folder_ / "other", path);
  EXPECT_THAT(probe_plugin(judged, std::chrono::seconds(10)).value_or(""), EndsWith("start again"));
}

}  // namespace
}  // namespace lf::test
