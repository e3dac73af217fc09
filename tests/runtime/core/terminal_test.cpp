#include "core/terminal.h"

#include <gtest/gtest.h>

namespace lf {
namespace {

TEST(Terminal, one_that_is_dumb_or_says_nothing_gets_no_control_sequences) {
  EXPECT_FALSE(obeys_control_sequences(nullptr));
  EXPECT_FALSE(obeys_control_sequences(""));
  EXPECT_FALSE(obeys_control_sequences("dumb"));
  EXPECT_TRUE(obeys_control_sequences("xterm-256color"));
}

TEST(Terminal, the_first_locale_that_says_something_decides_on_unicode) {
  EXPECT_TRUE(shows_unicode(nullptr, nullptr, "en_US.UTF-8"));
  EXPECT_TRUE(shows_unicode("C.utf8", nullptr, "C"));
  EXPECT_TRUE(shows_unicode("", "de_DE.UTF-8", "C"));
  EXPECT_FALSE(shows_unicode("C", nullptr, "en_US.UTF-8"));
  EXPECT_FALSE(shows_unicode(nullptr, nullptr, "de_DE.ISO-8859-1"));
  EXPECT_FALSE(shows_unicode(nullptr, nullptr, nullptr)) << "the POSIX locale";
}

}  // namespace
}  // namespace lf
