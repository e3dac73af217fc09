// A folder of plugins for one test, filled from those that tests/support/bad_plugins builds.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/error.h"
#include "plugins/plugins.h"

namespace lf::test {

class PluginFolder : public testing::Test {
 protected:
  PluginFolder() {
    std::string name = testing::TempDir() + "lf_plugins_XXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(name.data()));
  }
  ~PluginFolder() override { std::filesystem::remove_all(folder_); }

  static std::string bytes_of(const std::string& built) {
    std::ifstream file(std::filesystem::path(LF_BUILD_DIR) / "test_plugins" / (built + ".lfplugin.so"),
                       std::ios::binary);
    EXPECT_TRUE(file) << built << " is not built";
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The good plugin under another id of seven characters, in the manifest and in the descriptor.
  static std::string good_bytes(const std::string& id = "good_00") {
    std::string bytes = bytes_of("good_00");
    int replaced = 0;
    for (size_t at = 0; (at = bytes.find("good_00", at)) != std::string::npos; at += id.size(), ++replaced)
      bytes.replace(at, id.size(), id);
    EXPECT_GE(replaced, 2);
    return bytes;
  }

  std::filesystem::path write(const std::string& bytes, const std::string& name = "some.lfplugin.so") const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    chmod(path.c_str(), 0644);
    return path;
  }

  static PluginHost host() { return {.torch_build = "2.11.0+cu130"}; }

  // Why a file is refused by reading it, or else by probing it; empty: it is not.
  static std::string refusal(const std::filesystem::path& path,
                             std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    return probe_plugin(judge_plugin(path, host()), limit).value_or("");
  }
  std::string refusal_of(const std::string& built, std::chrono::milliseconds limit = std::chrono::seconds(10)) const {
    return refusal(write(bytes_of(built)), limit);
  }

  std::filesystem::path folder_;
};

}  // namespace lf::test
