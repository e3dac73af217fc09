// Files cut short or with flipped bits: they are refused, or they still work; this process lives in either case.
#include <random>

#include <gmock/gmock.h>

#include "runtime/plugins/plugin_folder.h"

namespace lf::test {
namespace {

using testing::HasSubstr;

using DamagedPlugins = PluginFolder;

TEST_F(DamagedPlugins, any_cut_is_refused_by_reading_alone) {
  const std::string whole = good_bytes();
  constexpr size_t kCuts = 200;
  for (size_t i = 0; i < kCuts; ++i) {
    const size_t size = whole.size() * i / kCuts;
    const Candidate candidate = judge_plugin(write(whole.substr(0, size)), host());
    ASSERT_TRUE(candidate.refusal) << "cut to " << size << " of " << whole.size();
    EXPECT_EQ(candidate.refusal->find('\n'), std::string::npos);
  }
  EXPECT_THAT(judge_plugin(write(whole.substr(0, whole.size() - 1)), host()).refusal.value_or(""),
              HasSubstr("expected a whole ELF file"));
}

TEST_F(DamagedPlugins, flipped_bits_never_crash_this_process) {
  const std::string whole = good_bytes();
  std::mt19937 random(20240601);
  constexpr int kFlips = 2000;
  int by_reading = 0, by_probing = 0;
  for (int i = 0; i < kFlips; ++i) {
    std::string bytes = whole;
    // Half of them where the tables are: flips in padding teach nothing.
    const size_t reach = i % 2 == 0 ? std::min<size_t>(bytes.size(), 4096) : bytes.size();
    bytes[random() % reach] ^= static_cast<char>(1u << random() % 8);
    const Candidate candidate = judge_plugin(write(bytes), host());
    by_reading += candidate.refusal.has_value();
    if (candidate.refusal) continue;
    const auto reason = probe_plugin(candidate, std::chrono::seconds(5));
    by_probing += reason.has_value();
    if (reason) {
      EXPECT_EQ(reason->find('\n'), std::string::npos);
    }
  }
  std::printf("%d flips: %d refused by reading, %d by probing, %d without effect on loading\n", kFlips, by_reading,
              by_probing, kFlips - by_reading - by_probing);
  EXPECT_GT(by_reading, 0);
  EXPECT_GT(by_probing, 0);
}

}  // namespace
}  // namespace lf::test
