// Which of the usual places is taken, over empty files of the vendor's names.
#include "vendor/installation.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace lf::kunlun {
namespace {

namespace fs = std::filesystem;

class KunlunInstallation : public ::testing::Test {
 protected:
  KunlunInstallation() {
    std::string name = ::testing::TempDir() + "lf_kunlun_XXXXXX";
    system_ = fs::canonical(mkdtemp(name.data()));
  }
  ~KunlunInstallation() override { fs::remove_all(system_); }

  void put(const std::string& file) const {
    fs::create_directories((system_ / file).parent_path());
    std::ofstream(system_ / file) << "of the vendor's";
  }

  std::optional<Installation> found(const std::optional<std::string>& home = std::nullopt) {
    return find_installation(
        [&](const char* name) { return std::string(name) == "LF_KUNLUN_HOME" ? home : std::nullopt; }, searched_,
        system_);
  }

  fs::path system_;
  std::string searched_;
};

TEST_F(KunlunInstallation, runtime_and_collectives_in_sibling_folders_are_one_installation) {
  for (const auto& [runtime, collectives, root] :
       {std::tuple("opt/xre/so/libxpurt.so", "opt/xccl/so/libbkcl.so", "opt"),
        std::tuple("usr/local/xpu/so/libxpurt.so.2", "usr/local/xccl/so/libbkcl.so", "usr/local")}) {
    put(runtime);
    put(collectives);
    const auto installation = found();
    ASSERT_TRUE(installation);
    EXPECT_EQ(installation->root, system_ / root);
    EXPECT_EQ(installation->runtime, system_ / runtime);
    EXPECT_EQ(installation->collectives, system_ / collectives);
    fs::remove_all(system_ / "opt");
  }
}

TEST_F(KunlunInstallation, one_with_collectives_comes_before_an_earlier_one_without) {
  put("usr/local/xpu/so/libxpurt.so");
  put("opt/xre/so/libxpurt.so");
  put("opt/xccl/so/libbkcl.so");
  EXPECT_EQ(found().value().root, system_ / "opt");
}

TEST_F(KunlunInstallation, a_runtime_alone_is_taken_where_no_place_has_both_and_the_places_are_named) {
  put("usr/local/xpu/so/libxpurt.so");
  put("opt/xccl/so/libbkcl.so");  // of another installation: the two are never mixed
  const auto installation = found();
  ASSERT_TRUE(installation);
  EXPECT_EQ(installation->root, system_ / "usr/local/xpu");
  EXPECT_EQ(installation->collectives, fs::path());
  EXPECT_EQ(installation->without_collectives,
            (system_ / "usr/local/xpu").string() + ", " + (system_ / "usr/local").string());
}

TEST_F(KunlunInstallation, a_named_home_is_the_only_place) {
  put("opt/xre/so/libxpurt.so");
  put("home/xcudart/lib/libxpurt.so");
  EXPECT_EQ(found((system_ / "home").string()).value().runtime, system_ / "home/xcudart/lib/libxpurt.so");
  EXPECT_FALSE(found((system_ / "nowhere").string()));
  EXPECT_EQ(searched_, "LF_KUNLUN_HOME names a folder without libxpurt.so: " + (system_ / "nowhere").string());
}

TEST_F(KunlunInstallation, nothing_found_names_every_place) {
  EXPECT_FALSE(found());
  for (const char* place : {"usr/local/xpu", "usr/local", "opt/xre", "opt"})
    EXPECT_THAT(searched_, ::testing::HasSubstr((system_ / place).string()));
}

}  // namespace
}  // namespace lf::kunlun
