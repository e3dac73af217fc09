// What the dynamic linker would do with a plugin is known, and judged, before it does.
#include "plugins/linkage.h"

#include <cstring>

#include <gmock/gmock.h>

#include "plugins/dependencies.h"
#include "plugins/inspect.h"
#include "plugins/processor.h"
#include "runtime/plugins/plugin_folder.h"

namespace lf::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

using LinkageOf = PluginFolder;

std::filesystem::path built(const std::string& name) {
  return std::filesystem::path(LF_BUILD_DIR) / "test_plugins" / (name + ".lfplugin.so");
}

TEST_F(LinkageOf, a_relative_search_path_is_refused_since_it_leads_to_the_working_directory) {
  EXPECT_THAT(refusal_of("relative_runpath"),
              HasSubstr("got \"libraries\", which is looked for in the working directory"));
  EXPECT_THAT(refusal_of("relative_rpath"), HasSubstr("got \"\", which is looked for in the working directory"));
}

TEST_F(LinkageOf, a_relative_path_is_refused_wherever_it_stands) {
  EXPECT_THAT(refusal_of("late_relative_runpath"), HasSubstr("got \"relative\", which is looked for in the working"));
  EXPECT_THAT(refusal_of("like_origin_runpath"), HasSubstr("got \"$ORIGINAL/libraries\""));
  EXPECT_THAT(refusal_of("needs_late_path"), HasSubstr("expected needed libraries by name, got \"aaaa"));
  EXPECT_THAT(refusal_of("filters_relative"), HasSubstr("by name, got \"folder/libother.so\""));
}

// The dynamic linker goes by the segments, and so must whoever judges what it will do.
TEST_F(LinkageOf, sections_that_tell_of_another_linkage_are_not_believed) {
  std::string bytes = bytes_of("relative_runpath");
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    char* const place = bytes.data() + header.e_shoff + i * sizeof section;
    std::memcpy(&section, place, sizeof section);
    if (section.sh_type != SHT_DYNAMIC) continue;
    section.sh_size = 0;
    std::memcpy(place, &section, sizeof section);
  }
  EXPECT_THAT(refusal(write(bytes)), HasSubstr("got \"libraries\", which is looked for in the working directory"));
}

TEST_F(LinkageOf, libtorch_that_the_manifest_does_not_state_is_refused_unopened) {
  EXPECT_THAT(refusal_of("hides_torch"),
              HasSubstr("expected no LibTorch, as its manifest says \"none\", got a need for it"));
}

TEST_F(LinkageOf, symbols_are_told_by_who_defines_them) {
  const auto path = built("missing_symbol");
  const OpenFile file = open_trusted(path);
  const Symbols symbols = read_symbols(ElfFile(file));
  EXPECT_THAT(symbols.exported, testing::ElementsAre("lf_plugin_entry"));
  EXPECT_THAT(symbols.undefined, Contains(AllOf(Field(&Symbols::Undefined::name, HasSubstr("nobody_defines_this")),
                                                Field(&Symbols::Undefined::version, ""))));
  EXPECT_THAT(symbols.undefined, Contains(Field(&Symbols::Undefined::version, HasSubstr("GLIBC_2"))));
}

// What ld.so itself says of our own plugins: every library at the same place.
TEST_F(LinkageOf, dependencies_are_found_where_the_dynamic_linker_finds_them) {
  for (const std::filesystem::path& file :
       {built("needs_vendor_a"), built("needs_vendor_late"), std::filesystem::path(LF_BUILD_DIR "/bin/lfrun")}) {
    std::string said(1 << 16, '\0');
    FILE* pipe = popen(("ldd " + file.string()).c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    said.resize(fread(said.data(), 1, said.size(), pipe));
    pclose(pipe);
    const std::vector<Dependency> found = dependencies_of(file, "");
    EXPECT_GE(found.size(), 2u);
    for (const Dependency& dependency : found) {
      const size_t at = said.find("\t" + dependency.name + " => ");
      ASSERT_NE(at, said.npos) << dependency.name << " in\n" << said;
      const size_t begin = said.find("=> ", at) + 3, end = said.find(" (", begin);
      EXPECT_EQ(dependency.path, std::filesystem::canonical(said.substr(begin, end - begin)));
    }
  }
}

TEST_F(LinkageOf, code_for_this_processor_is_found_in_its_own_folder_first_as_the_dynamic_linker_does) {
  if (x86_level_here() < 2) GTEST_SKIP() << "an x86-64-v1 processor has no folder of its own";
  const auto path = write(bytes_of("needs_vendor_a"), "some.lfplugin.so");
  const auto folder = folder_ / "vendor_a/glibc-hwcaps/x86-64-v2";
  std::filesystem::create_directories(folder);
  for (const auto& to : {folder_ / "vendor_a", folder})
    std::filesystem::copy(built("x").parent_path() / "vendor_a/libbkcl.so", to / "libbkcl.so");
  EXPECT_THAT(dependencies_of(path, ""), Contains(Field(&Dependency::path, folder / "libbkcl.so")));
  FILE* pipe = popen(("ldd " + path.string()).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said(1 << 16, '\0');
  said.resize(fread(said.data(), 1, said.size(), pipe));
  pclose(pipe);
  EXPECT_THAT(said, HasSubstr("libbkcl.so => " + (folder / "libbkcl.so").string()));
}

TEST_F(LinkageOf, a_missing_library_is_told_with_who_needs_it) {
  const auto path = write(bytes_of("needs_vendor_a"), "lonely.lfplugin.so");  // away from vendor_a
  EXPECT_THAT(dependencies_of(path, ""), Contains(AllOf(Field(&Dependency::name, "libbkcl.so"),
                                                        Field(&Dependency::path, std::filesystem::path()))));
  EXPECT_THAT(inspect_plugin(path, host(), "").text, HasSubstr("libbkcl.so MISSING (needed by lonely.lfplugin.so)"));
}

TEST_F(LinkageOf, library_paths_of_the_environment_come_before_a_runpath_as_the_linker_has_it) {
  const auto other = std::filesystem::path(LF_BUILD_DIR) / "test_plugins/vendor_b";
  EXPECT_THAT(dependencies_of(built("needs_vendor_a"), other.string()),
              Contains(Field(&Dependency::path, std::filesystem::canonical(other / "libbkcl.so"))));
  EXPECT_THAT(inspect_plugin(built("needs_vendor_a"), host(), other.string()).text,
              HasSubstr("LD_LIBRARY_PATH is set"));
}

TEST_F(LinkageOf, two_files_for_one_vendor_library_are_a_conflict_that_names_both) {
  const auto first = built("needs_vendor_a"), second = built("needs_vendor_b");
  const std::string said = vendor_conflict({first, built("good_00"), second}, "").value_or("");
  const auto folder = std::filesystem::canonical(std::filesystem::path(LF_BUILD_DIR) / "test_plugins");
  EXPECT_EQ(said, "expected one libbkcl.so in the process, got two: " + (folder / "vendor_a/libbkcl.so").string() +
                      " (for needs_vendor_a.lfplugin.so) and " + (folder / "vendor_b/libbkcl.so").string() +
                      " (for needs_vendor_b.lfplugin.so); point both at one installation");
  EXPECT_NE(vendor_conflict({built("needs_vendor_late"), second}, ""), std::nullopt);
  EXPECT_EQ(vendor_conflict({first, first}, ""), std::nullopt);
  EXPECT_EQ(vendor_conflict({built("good_00"), first}, ""), std::nullopt);
}

TEST_F(LinkageOf, inspection_reads_and_never_runs) {
  const Inspection crashing = inspect_plugin(write(bytes_of("crashes_in_constructor")), host(), "");
  EXPECT_TRUE(crashing.acceptable);
  EXPECT_THAT(crashing.text,
              AllOf(HasSubstr("exports      lf_plugin_entry"), HasSubstr("C library"), HasSubstr("floors       "),
                    HasSubstr("GLIBC_2."), HasSubstr("compiled     as C++, libstdc++ cxx11"),
                    HasSubstr("verdict      acceptable")));
  const Inspection other = inspect_plugin(write(bytes_of("other_torch")), host(), "");
  EXPECT_FALSE(other.acceptable);
  EXPECT_THAT(other.text, AllOf(HasSubstr("lane         exact: LibTorch 1.2.3+cu999, not this lfrun's 2.11.0+cu130"),
                                HasSubstr("verdict      refused: expected a plugin for LibTorch 2.11.0+cu130")));
  const Inspection text = inspect_plugin(write("#!/bin/sh\n" + std::string(100, 'x')), host(), "");
  EXPECT_THAT(text.text, AllOf(HasSubstr("refused: expected an ELF shared object, got a script"), HasSubstr("sha256")));
}

}  // namespace
}  // namespace lf::test
