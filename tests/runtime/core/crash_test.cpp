#include "core/crash.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>

namespace lf {
namespace {

#ifdef __SANITIZE_ADDRESS__
#define SKIP_UNDER_A_SANITIZER() GTEST_SKIP() << "AddressSanitizer tells of crashes itself"
#else
#define SKIP_UNDER_A_SANITIZER() static_cast<void>(0)
#endif

void write_to_address_16() { *reinterpret_cast<volatile int*>(uintptr_t{16}) = 1; }  // NOLINT

TEST(Crash, is_told_with_its_signal_address_file_and_frames_and_ends_the_process_by_that_signal) {
  SKIP_UNDER_A_SANITIZER();
  EXPECT_EXIT(
      {
        tell_crashes();
        write_to_address_16();
      },
      testing::KilledBySignal(SIGSEGV),
      "crashed by SIGSEGV at address 0x10 in [^ ]*core_test\n  [^ ]*core_test\\+0x[0-9a-f]+\n");
}

TEST(Crash, by_abort_has_no_address_and_is_told_of_whoever_called_it) {
  SKIP_UNDER_A_SANITIZER();
  EXPECT_EXIT(
      {
        tell_crashes();
        std::abort();
      },
      testing::KilledBySignal(SIGABRT),
      "crashed by SIGABRT in [^ ]*/libc.so.6\n(  [^\n]*libc.so.6[^\n]*\n)+  [^ ]*core_test");
}

volatile bool deeper = true;

int dive() {
  volatile char room[4096] = {};
  return deeper ? dive() + room[0] : 0;
}

TEST(Crash, of_a_stack_without_end_is_told_too) {
  SKIP_UNDER_A_SANITIZER();
  EXPECT_EXIT(
      {
        tell_crashes();
        std::exit(dive());
      },
      testing::KilledBySignal(SIGSEGV), "crashed by SIGSEGV at address 0x[0-9a-f]+ in [^ ]*core_test");
}

}  // namespace
}  // namespace lf
