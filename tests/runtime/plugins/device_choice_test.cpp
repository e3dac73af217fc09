// What was named is taken or the reason is told; "auto" takes the one kind of card there is, else the CPU.
#include "plugins/device_choice.h"

#include <functional>

#include <gmock/gmock.h>

#include "runtime/plugins/plugin_folder.h"

namespace lf::test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class ChooseDevice : public PluginFolder {
 protected:
  void install(const std::vector<std::string>& ids) const {
    for (const std::string& id : ids) write(bytes_of("device_" + id), id + ".lfplugin.so");
  }
  DeviceChoice choose(std::string_view wanted, int workers = 1) const {
    return choose_device(PluginSet({folder_}, host()), wanted, workers, "named by the test");
  }
  std::string refused(std::string_view wanted, int workers = 1, Exit exit = Exit::kUnavailable) const {
    try {
      return "chose " + choose(wanted, workers).id;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), exit);
      return error.what();
    }
  }
};

TEST_F(ChooseDevice, a_named_one_is_taken_and_what_it_found_is_recorded) {
  install({"cpu", "cards"});
  const DeviceChoice choice = choose("cards");
  EXPECT_EQ(choice.id, "cards");
  EXPECT_EQ(choice.reason, "named by the test; 2 devices found");
}

TEST_F(ChooseDevice, a_name_that_no_plugin_has_is_refused_with_what_was_searched_and_what_is_there) {
  install({"cpu", "cards"});
  EXPECT_EQ(refused("nosuch"), "device nosuch: expected a device plugin of that name, searched " + folder_.string() +
                                   ": there are cards, cpu");
}

TEST_F(ChooseDevice, a_file_that_would_be_it_but_is_refused_is_named_with_its_reason) {
  install({"cpu"});
  const auto path = write(bytes_of("no_manifest"), "cards.lfplugin.so");
  // The plugin is at fault, and not the machine.
  EXPECT_THAT(refused("cards", 1, Exit::kConfig),
              AllOf(HasSubstr("refused: " + path.string() + ": "), HasSubstr("there are cpu")));
  std::filesystem::remove(path);
  // One of which nothing can be read may be it, whatever it is called.
  const auto cut = write(bytes_of("device_cards").substr(0, 3000), "nvidia-2.1.lfplugin.so");
  EXPECT_THAT(refused("cards"), HasSubstr("refused: " + cut.string() + ": expected a whole ELF file"));
}

TEST_F(ChooseDevice, a_plugin_that_finds_nothing_is_refused_in_its_own_words_and_nothing_else_is_tried) {
  install({"cpu", "empty"});
  EXPECT_THAT(refused("empty"), EndsWith("empty.lfplugin.so finds no device: the slot is empty"));
}

TEST_F(ChooseDevice, more_workers_than_cards_are_refused_with_both_numbers_and_what_to_write) {
  install({"cpu", "cards"});
  EXPECT_EQ(choose("cards", 2).id, "cards");
  EXPECT_THAT(refused("cards", 3),
              AllOf(HasSubstr("device cards: expected a card for each of the 3 workers of this host, found 2;"),
                    HasSubstr("launch.processes = 2")));
}

TEST_F(ChooseDevice, the_host_is_shared_by_any_number_of_workers) {
  install({"cpu"});
  EXPECT_EQ(choose("cpu", 5).id, "cpu");
  EXPECT_EQ(choose("auto", 5).id, "cpu");
}

TEST_F(ChooseDevice, a_host_device_of_any_name_is_shared_and_the_only_card_of_a_machine_is_not) {
  install({"house", "others"});
  EXPECT_EQ(choose("house", 5).id, "house");
  EXPECT_THAT(refused("others", 2), HasSubstr("device others: expected a card for each of the 2 workers"));
}

TEST_F(ChooseDevice, one_that_is_opened_says_whether_its_memory_is_the_hosts_and_how_much_there_is) {
  install({"house", "cards"});
  const PluginSet plugins({folder_}, host());
  const auto opened = [&](std::string_view id) { return choose_device(plugins, id, 1, "by", DeviceLook::kOpenOne); };
  EXPECT_TRUE(opened("house").host);
  EXPECT_FALSE(opened("cards").host);
  EXPECT_EQ(opened("cards").memory_bytes, 8'000'000'000U);
  EXPECT_EQ(opened("cards").reason, "by; 2 devices found");
}

TEST_F(ChooseDevice, auto_refuses_more_workers_than_the_one_kind_of_card_has) {
  install({"cpu", "cards"});
  EXPECT_THAT(refused("auto", 3), HasSubstr("device cards: expected a card for each of the 3 workers"));
}

TEST_F(ChooseDevice, a_driver_that_crashes_takes_a_child_process_with_it_and_is_refused_as_a_plugin) {
  install({"crashes"});
  EXPECT_THAT(refused("crashes", 1, Exit::kConfig),
              HasSubstr("crashes.lfplugin.so: crashed on probe (signal 11, SIGSEGV) while it looked for devices"));
}

// The plugin is at fault, and not the machine.
TEST_F(ChooseDevice, one_that_cannot_be_opened_as_what_it_says_is_refused_as_a_plugin_and_not_as_a_device) {
  install({"broken"});
  EXPECT_THAT(refused("broken", 1, Exit::kConfig),
              HasSubstr("broken.lfplugin.so: crashed on probe (signal 11, SIGSEGV) while it was being opened"));
}

TEST_F(ChooseDevice, a_driver_that_never_answers_is_given_up) {
  install({"hangs"});
  const PluginSet plugins({folder_}, host());
  const DeviceSurvey survey = survey_device(plugins.candidates()[0], std::chrono::milliseconds(300));
  EXPECT_EQ(survey.count, 0U);
  EXPECT_THAT(survey.reason, HasSubstr("did not answer within 0.3 s while it looked for devices"));
}

TEST_F(ChooseDevice, auto_takes_the_one_kind_of_card_and_says_what_the_others_lack) {
  install({"cpu", "cards", "empty", "crashes"});
  const DeviceChoice choice = choose("auto");
  EXPECT_EQ(choice.id, "cards");
  EXPECT_THAT(choice.reason,
              AllOf(HasSubstr("chosen by auto: cards has 2 devices"), HasSubstr("empty has none: the slot is empty"),
                    HasSubstr("crashes is refused: crashed")));
}

TEST_F(ChooseDevice, auto_takes_the_cpu_where_no_card_is_and_says_why) {
  install({"cpu", "empty"});
  const DeviceChoice choice = choose("auto");
  EXPECT_EQ(choice.id, "cpu");
  EXPECT_THAT(choice.reason, HasSubstr("empty has none: the slot is empty"));
}

TEST_F(ChooseDevice, auto_does_not_choose_between_two_kinds_of_card) {
  install({"cpu", "cards", "others"});
  EXPECT_THAT(refused("auto"), AllOf(HasSubstr("cards has 2 devices"), HasSubstr("others has 1 device"),
                                     HasSubstr("name one"), Not(HasSubstr("cpu"))));
}

TEST_F(ChooseDevice, auto_without_any_device_plugin_says_what_was_searched) {
  EXPECT_EQ(refused("auto"), "device auto: found no device, searched " + folder_.string());
}

}  // namespace
}  // namespace lf::test
