#include "core/heap.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace lf {
namespace {

constexpr size_t kBlockBytes = 24 << 20, kPageBytes = 4096;
constexpr int kBlocks = 8;

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Faults of a step that asks for its blocks one by one, writes to them and frees them together.
int64_t faults_of_a_step() {
  const int64_t before = page_faults();
  std::vector<std::unique_ptr<volatile char[]>> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.emplace_back(new volatile char[kBlockBytes]);
    for (size_t at = 0; at < kBlockBytes; at += kPageBytes) blocks.back()[at] = 1;
  }
  return page_faults() - before;
}

TEST(Heap, the_next_step_finds_the_pages_of_the_last_one_made) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer brings an allocator of its own";
#endif
  set_up_heap();
  faults_of_a_step();
  const int64_t pages = kBlocks * static_cast<int64_t>(kBlockBytes / kPageBytes);
  EXPECT_LT(faults_of_a_step(), pages / 100) << "of " << pages << " pages";
}

}  // namespace
}  // namespace lf
