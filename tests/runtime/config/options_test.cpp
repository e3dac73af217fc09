#include "config/options.h"

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "config/config.h"

namespace lf {
namespace {

using testing::HasSubstr;

TEST(Options, the_reference_page_is_the_one_generated_from_the_table) {
  std::ifstream file(LF_SOURCE_DIR "/docs/options.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), options_page()) << "bring it up to date: build/bin/lfrun options --markdown > docs/options.md";
}

TEST(Options, every_name_is_there_once_and_every_sentence_ends) {
  std::set<std::string_view> names;
  for (const Option& option : options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_TRUE(option.sentence.ends_with(".")) << option.name;
    EXPECT_EQ(option.sentence.find('|'), std::string_view::npos) << option.name << " would break the page's table";
    EXPECT_EQ(option.fields.empty(), option.type != OptionType::kTables) << option.name;
    for (const Option& field : option.fields) {
      EXPECT_TRUE(field.name.starts_with(std::string(option.name) + ".")) << field.name;
      EXPECT_TRUE(field.sentence.ends_with(".")) << field.name;
    }
  }
  EXPECT_GT(names.size(), 60u);
}

TEST(Options, each_default_passes_its_own_rule) {
  const JobConfig defaults;
  for (const Option& option : options()) {
    const Json value = option.get(defaults);
    if (value.is_number()) {
      const double number = value.get<double>();
      EXPECT_TRUE(option.rule.above_least ? number > option.rule.least : number >= option.rule.least) << option.name;
      EXPECT_TRUE(option.rule.below_most ? number < option.rule.most : number <= option.rule.most) << option.name;
    }
    if (!option.rule.words.empty()) {
      EXPECT_THAT(option.rule.words, testing::Contains(value.get<std::string>())) << option.name;
    }
  }
}

// A wrong pointer-to-member would make two options share a field.
TEST(Options, setting_one_option_changes_that_option_alone) {
  for (const Option& option : options()) {
    Json other;
    switch (option.type) {
      case OptionType::kInteger:
        other = 3;
        break;
      case OptionType::kNumber:
        other = 0.375;
        break;
      case OptionType::kBoolean:
        other = !option.get(JobConfig{}).get<bool>();
        break;
      case OptionType::kText:
      case OptionType::kPath:
        other = "something";
        break;
      case OptionType::kTexts:
      case OptionType::kPaths:
        other = Json::array({"a", "b"});
        break;
      case OptionType::kTable:
        other = Json::parse(R"({"k":[1,null]})");
        break;
      case OptionType::kTables: {
        Json table = Json::object();
        for (const Option& field : option.fields)
          table[std::string(field.key())] = field.type == OptionType::kTexts     ? Json::array({"a", "b"})
                                            : field.type == OptionType::kInteger ? Json(3)
                                                                                 : Json(0.375);
        other = Json::array({table});
        break;
      }
    }
    JobConfig config;
    option.set(config, other);
    for (const Option& each : options())
      EXPECT_EQ(each.get(config), &each == &option ? other : each.get(JobConfig{}))
          << option.name << " against " << each.name;
  }
}

TEST(Options, help_names_every_option_with_its_default_and_unit) {
  const std::string help = options_help();
  for (const Option& option : options()) EXPECT_THAT(help, HasSubstr("  " + std::string(option.key()) + " "));
  EXPECT_THAT(help, HasSubstr("(integer in [1, 1000000000], tokens; default 4096)"));
  EXPECT_THAT(help, HasSubstr("(one of fast, fixed; default fast)"));
}

}  // namespace
}  // namespace lf
