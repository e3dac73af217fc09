// C++ names that stand for plain ones, and libraries that are damaged.
#include "vendor/mangled_names.h"

#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "opened.h"

namespace lf::kunlun {
namespace {

using testing::home;

TEST(KunlunNames, only_a_function_of_that_very_name_matches) {
  EXPECT_TRUE(names_function("_Z14bkcl_init_rankPP11BKCLContextiiP12BKCLUniqueId", "bkcl_init_rank"));
  EXPECT_TRUE(names_function("_ZN5baidu3xpu4bkcl14bkcl_init_rankEPPviiS2_", "bkcl_init_rank"));
  EXPECT_FALSE(names_function("bkcl_init_rank", "bkcl_init_rank")) << "that one is found without us";
  EXPECT_FALSE(names_function("_Z17bkcl_init_rank_v2v", "bkcl_init_rank"));
  EXPECT_FALSE(names_function("_Z6createP14bkcl_init_rank", "bkcl_init_rank")) << "a parameter's type";
  EXPECT_FALSE(names_function("_ZN5baidu14bkcl_init_rank4implEv", "bkcl_init_rank")) << "a scope of that name";
  EXPECT_FALSE(names_function("_ZN5baidu14bkcl_init_rankC1Ev", "bkcl_init_rank")) << "a constructor";
  EXPECT_FALSE(names_function("_ZTV14bkcl_init_rank", "bkcl_init_rank"));
  for (const char* broken : {"", "_", "_Z", "_ZN", "_Z99999x", "_ZN5bai", "_Z14"})
    EXPECT_FALSE(names_function(broken, "bkcl_init_rank")) << broken;
}

TEST(KunlunNames, two_that_could_be_meant_are_refused_and_both_are_named) {
  const std::vector<std::string> exported = {"_Z9bkcl_sendPv", "_ZN5baidu9bkcl_sendEPv", "_Z9bkcl_recvPv"};
  EXPECT_EQ(find_mangled(exported, "bkcl_recv"), "_Z9bkcl_recvPv");
  EXPECT_EQ(find_mangled(exported, "bkcl_abort"), std::nullopt);
  try {
    find_mangled(exported, "bkcl_send");
    FAIL() << "nothing was thrown";
  } catch (const sdk::Failure& failure) {
    EXPECT_THAT(failure.what(), ::testing::AllOf(::testing::HasSubstr(exported[0]), ::testing::HasSubstr(exported[1])));
  }
}

TEST(KunlunNames, every_function_is_found_in_libraries_with_cpp_names) {
  for (const char* kind : {"mangled", "spaced"}) {
    const auto exported = exported_functions(home(kind) + "/libbkcl.so");
    for (const char* plain : {"bkcl_init_rank", "bkcl_all_reduce", "bkcl_send", "bkcl_all_to_all_v", "bkcl_comm_abort"})
      EXPECT_TRUE(find_mangled(exported, plain)) << kind << ": " << plain;
  }
}

TEST(KunlunNames, a_library_cut_short_or_with_flipped_bits_is_refused_or_read_never_more) {
  std::ifstream file(home("mangled") + "/libbkcl.so", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(whole.size(), 1000U);
  const auto path = std::filesystem::temp_directory_path() / ("lf_names_" + std::to_string(getpid()));
  const auto read = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      exported_functions(path);
      return true;
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_UNSUPPORTED);
      return false;
    }
  };
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 200; ++i) refused += !read(whole.substr(0, random() % whole.size()));
  EXPECT_EQ(refused, 200) << "the section headers stand at the end, so no shorter file is complete";
  for (int i = 0; i < 500; ++i) {
    std::string damaged = whole;
    for (int flips = 0; flips < 8; ++flips) damaged[random() % 64] ^= static_cast<char>(1 << random() % 8);
    read(damaged);
  }
  EXPECT_TRUE(read(whole));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lf::kunlun
