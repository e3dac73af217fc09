#include "data/dataset.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/media/media_reader.h"
#include "data/media_root.h"
#include "data/path_text.h"
#include "lf/plugin_sdk/guard.hpp"
#include "scratch.h"

namespace lf {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string kGood = R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]})";

DataSection section(std::vector<std::filesystem::path> paths, const std::string& format = "auto") {
  DataSection options;
  options.path = std::move(paths);
  options.format = format;
  return options;
}

class DatasetTest : public testing::Test {
 protected:
  // The canonical sample of a one-line data set; line breaks are only for the reader of the test.
  json canonical(std::string line, const DataSection& other = {}) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    DataSection options = other;
    options.path = {scratch_.write("data.jsonl", line + "\n")};
    return json::parse(Dataset(options).sample(0).json);
  }

  // Why the middle of three lines is bad; the others are good messages, so that the data set opens.
  std::string reason(const std::string& line, const std::string& format = "messages") {
    const std::string good =
        format == "messages" ? kGood : R"({"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]})";
    const Dataset dataset(section({scratch_.write("data.jsonl", good + "\n" + line + "\n" + good)}, format));
    EXPECT_EQ(dataset.size(), 3u);
    EXPECT_NO_THROW(dataset.sample(0));
    EXPECT_NO_THROW(dataset.sample(2));
    try {
      return "no error: " + dataset.sample(1).json;
    } catch (const BadSample& bad) {
      EXPECT_EQ(bad.exit(), Exit::kBadData);
      return bad.what();
    }
  }

  std::string image(const std::string& name) const { return (scratch_.folder() / name).string(); }

  Scratch scratch_;
};

TEST_F(DatasetTest, its_fingerprint_tells_an_edit_a_cut_and_another_order_of_files_but_not_a_move) {
  const std::string lines = kGood + "\n" + kGood + "\n";
  std::string edited = lines;
  edited[edited.find('q')] = 'r';
  const auto of = [](std::vector<std::filesystem::path> paths) {
    return Dataset(section(std::move(paths))).fingerprint();
  };
  const auto first = scratch_.write("first.jsonl", lines), moved = scratch_.write("moved.jsonl", lines),
             changed = scratch_.write("changed.jsonl", edited), cut = scratch_.write("cut.jsonl", kGood + "\n");
  EXPECT_EQ(of({first}), of({moved}));
  EXPECT_NE(of({first}), of({changed}));
  EXPECT_NE(of({first}), of({cut}));
  EXPECT_NE(of({first, cut}), of({cut, first}));
}

TEST_F(DatasetTest, sharegpt_markers_become_items_in_reading_order) {
  const json sample = canonical(R"({"id":"gimp#12","image":["a.png","sub/b.png"],"conversations":[
      {"from":"human","value":"<image>\nWhat differs from <image>?"},{"from":"gpt","value":"Colour."}]})");
  EXPECT_EQ(sample, json::parse(R"({"id":"gimp#12","messages":[
      {"role":"user","train":false,"content":[{"type":"image","path":")" +
                                image("a.png") + R"("},
         {"type":"text","text":"\nWhat differs from "},{"type":"image","path":")" +
                                image("sub/b.png") + R"("},
         {"type":"text","text":"?"}]},
      {"role":"assistant","train":true,"content":[{"type":"text","text":"Colour."}]}]})"));
}

TEST_F(DatasetTest, messages_with_typed_parts_are_kept_in_order) {
  const json sample = canonical(R"({"messages":[{"role":"system","content":"Be brief."},
      {"role":"user","content":[{"type":"image_url","image_url":{"url":"file://)" +
                                image("a%20b.png") + R"("}},
         {"type":"text","text":"and"},{"type":"image","image":"c.png"},
         {"type":"video","video":"v.mp4","fps":2.5},{"type":"video","video":["f0.png","f1.png"]}]},
      {"role":"assistant","content":"ok"}]})");
  EXPECT_EQ(sample["id"], "data.jsonl:1");
  EXPECT_EQ(sample["messages"][1]["content"], json::parse(R"([{"type":"image","path":")" + image("a b.png") + R"("},
      {"type":"text","text":"and"},{"type":"image","path":")" +
                                                          image("c.png") + R"("},
      {"type":"video","path":")" + image("v.mp4") + R"(","fps":2.5},
      {"type":"video","frames":[")" + image("f0.png") + R"(",")" +
                                                          image("f1.png") + R"("]}])"));
}

TEST_F(DatasetTest, messages_may_take_their_media_from_lists_by_marker_or_by_empty_part) {
  const json sample = canonical(R"({"images":["a.png","b.png"],"videos":["v.mp4"],"messages":[
      {"role":"user","content":"<image> <video>"},{"role":"assistant","content":"x"},
      {"role":"user","content":[{"type":"image"},{"type":"text","text":"y"}]},{"role":"assistant","content":"z"}]})");
  EXPECT_EQ(sample["messages"][0]["content"][0]["path"], image("a.png"));
  EXPECT_EQ(sample["messages"][0]["content"][2]["path"], image("v.mp4"));
  EXPECT_EQ(sample["messages"][2]["content"][0]["path"], image("b.png"));
}

TEST_F(DatasetTest, a_marker_in_a_typed_text_is_text_where_there_are_no_lists) {
  const json sample = canonical(R"({"messages":[{"role":"user","content":[{"type":"text","text":"the <image> tag"}]},
      {"role":"assistant","content":"x"}]})");
  EXPECT_EQ(sample["messages"][0]["content"], json::parse(R"([{"type":"text","text":"the <image> tag"}])"));
}

TEST_F(DatasetTest, a_system_text_beside_the_turns_comes_first) {
  const json sample =
      canonical(R"({"system":"S","conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]})");
  EXPECT_EQ(sample["messages"][0]["role"], "system");
  EXPECT_EQ(sample["messages"][0]["content"][0]["text"], "S");
}

TEST_F(DatasetTest, what_is_trained_is_the_assistants_unless_a_message_or_the_job_says_otherwise) {
  const std::string line = R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","weight":0},
      {"role":"user","content":"r","train":true},{"role":"assistant","content":"b"}]})";
  const auto trained = [](const json& sample) {
    std::vector<bool> out;
    for (const json& message : sample["messages"]) out.push_back(message["train"]);
    return out;
  };
  EXPECT_EQ(trained(canonical(line)), (std::vector<bool>{false, false, true, true}));
  DataSection all;
  all.train_on = "all";
  EXPECT_EQ(trained(canonical(line, all)), (std::vector<bool>{true, false, true, true}));
}

TEST_F(DatasetTest, any_text_survives_the_way_through_json) {
  const std::string text = "tab\t nl\n cr\r quote\" back\\ slash/ bell\u0007 del\x7f é 中 😀 \xE2\x80\xA8";
  json line = json::parse(kGood);
  line["messages"][0]["content"] = text;
  line["messages"][1]["content"] = std::string("a\0b", 3);
  const json sample = canonical(line.dump());
  EXPECT_EQ(sample["messages"][0]["content"][0]["text"], text);
  EXPECT_EQ(sample["messages"][1]["content"][0]["text"], std::string("a\0b", 3));
}

TEST_F(DatasetTest, windows_line_ends_a_byte_order_mark_and_a_missing_last_newline_are_fine) {
  const Dataset dataset(
      section({scratch_.write("w.jsonl", "\xEF\xBB\xBF" + kGood + "\r\n\r\n" + kGood + "\r\n" + kGood)}));
  ASSERT_EQ(dataset.size(), 3u);
  EXPECT_EQ(dataset.sample(0).place, "w.jsonl:1");
  EXPECT_EQ(dataset.sample(1).place, "w.jsonl:3");
  EXPECT_EQ(dataset.sample(2).place, "w.jsonl:4");
}

TEST_F(DatasetTest, several_files_and_folders_are_one_data_set_each_with_its_own_format) {
  scratch_.write("folder/b.jsonl", R"({"conversations":[{"from":"human","value":"B"},{"from":"gpt","value":"a"}]})");
  scratch_.write("folder/a.jsonl",
                 R"({"messages":[{"role":"user","content":"A"},{"role":"assistant","content":"a"}]})");
  scratch_.write("folder/notes.txt", "no data");
  const auto last = scratch_.write("c.jsonl", "nonsense\n" + kGood);
  const Dataset dataset(section({scratch_.folder() / "folder", last}));
  ASSERT_EQ(dataset.size(), 4u);
  EXPECT_THAT(dataset.sample(0).json, HasSubstr("\"A\""));
  EXPECT_THAT(dataset.sample(1).json, HasSubstr("\"B\""));
  EXPECT_EQ(dataset.place(1), "b.jsonl:1");
  EXPECT_EQ(dataset.place(2), "c.jsonl:1");
  EXPECT_EQ(dataset.sample(3).index, 3u);
  ASSERT_EQ(dataset.files().size(), 3u);
  EXPECT_EQ(dataset.files()[0].format, "messages");
  EXPECT_EQ(dataset.files()[1].format, "sharegpt");
  EXPECT_EQ(dataset.files()[2].format, "messages");
  EXPECT_TRUE(dataset.files()[2].detected);
}

TEST_F(DatasetTest, media_start_at_the_files_folder_or_at_the_jobs_media_root) {
  DataSection elsewhere;
  elsewhere.media_root = "/srv/media/";
  const std::string line = R"({"image":"x/a.png","conversations":[{"from":"human","value":"<image>"},
      {"from":"gpt","value":"a"}]})";
  EXPECT_EQ(canonical(line)["messages"][0]["content"][0]["path"], image("x/a.png"));
  EXPECT_EQ(canonical(line, elsewhere)["messages"][0]["content"][0]["path"], "/srv/media/x/a.png");
}

struct Bad {
  const char* what;
  std::string line;
  std::string reason;
  std::string format = "messages";
};

std::string message_line(const std::string& user) {
  return R"({"messages":[{"role":"user","content":)" + user + R"(},{"role":"assistant","content":"a"}]})";
}
std::string with_image(const std::string& path) {
  return R"({"images":[)" + path +
         R"(],"messages":[{"role":"user","content":"<image>"},{"role":"assistant","content":"a"}]})";
}

TEST_F(DatasetTest, every_bad_sample_is_named_by_line_field_and_reason) {
  const std::string deep = message_line(std::string(100'000, '[') + std::string(100'000, ']'));
  const Bad cases[] = {
      {"invalid UTF-8", message_line("\"caf\xE9\""), "not valid UTF-8"},
      {"overlong UTF-8", message_line("\"\xC0\xAF\""), "not valid UTF-8"},
      {"surrogates in UTF-8", message_line("\"\xED\xA0\x80\""), "not valid UTF-8"},
      {"lone high surrogate", message_line(R"("\ud800")"), "half of a surrogate pair"},
      {"two high surrogates", message_line(R"("\ud800\ud800")"), "half of a surrogate pair"},
      {"lone low surrogate", message_line(R"("\udc00 x")"), "half of a surrogate pair"},
      {"raw NUL", message_line(std::string("\"a\0b\"", 5)), "not valid JSON"},
      {"raw control character", message_line("\"a\x01\""), "not valid JSON"},
      {"half an object", kGood.substr(0, 30), "not valid JSON"},
      {"two objects", kGood + kGood, "not valid JSON"},
      {"plain text", "hello", "not valid JSON"},
      {"a list", "[1,2]", "expected a JSON object"},
      {"a string", "\"text\"", "expected a JSON object"},
      {"a number", "17", "expected a JSON object"},
      {"deep nesting", deep, "nested deeper than 64"},
      {"the other format", R"({"conversations":[]})", "expected \"messages\": the file is read as messages"},
      {"no messages", R"({"messages":[]})", "a conversation without messages"},
      {"messages not a list", R"({"messages":"hi"})", "messages: expected a list, got a string"},
      {"message not an object", R"({"messages":[1]})", "messages[0]: expected an object, got a number"},
      {"no role", R"({"messages":[{"content":"x"}]})", "messages[0]: expected \"role\""},
      {"no content", R"({"messages":[{"role":"user"}]})", "messages[0]: expected \"content\""},
      {"content null", message_line("null"), "messages[0].content: expected a string or a list of parts, got null"},
      {"content a number", message_line("3"),
       "messages[0].content: expected a string or a list of parts, got a number"},
      {"unknown role", R"({"messages":[{"role":"wizard","content":"x"},{"role":"assistant","content":"a"}]})",
       "messages[0]: unknown role 'wizard'"},
      {"a role twice", R"({"messages":[{"role":"user","content":"x"},{"role":"user","content":"y"}]})",
       "messages[1]: role user twice in a row"},
      {"a role twice by two names", R"({"messages":[{"role":"human","content":"x"},{"role":"user","content":"y"}]})",
       "messages[1]: role user twice in a row"},
      {"a late system message",
       R"({"messages":[{"role":"user","content":"x"},{"role":"system","content":"y"},{"role":"assistant","content":"a"}]})",
       "messages[1]: a system message that is not the first"},
      {"empty content", message_line("\"\""), "messages[0]: empty content"},
      {"blank content", message_line("\" \\n\""), "messages[0]: empty content"},
      {"no parts", message_line("[]"), "messages[0]: empty content"},
      {"nothing to learn", R"({"messages":[{"role":"user","content":"x"}]})", "no message to learn from"},
      {"unknown part", message_line(R"([{"type":"audio","audio":"x"}])"),
       "messages[0].content[0]: unknown type 'audio'; expected text, image or video"},
      {"part without type", message_line(R"([{"text":"x"}])"), "messages[0].content[0]: expected \"type\""},
      {"text part without text", message_line(R"([{"type":"text"}])"), "messages[0].content[0]: expected \"text\""},
      {"fewer media than markers", message_line("\"<image><image>\""),
       "image: 2 <image> markers in the messages for 0"},
      {"more media than markers",
       R"({"images":["a","b"],"messages":[{"role":"user","content":"<image>"},{"role":"assistant","content":"a"}]})",
       "image: 1 <image> marker in the messages for 2 images"},
      {"a video for an image",
       R"({"videos":["a"],"messages":[{"role":"user","content":"<image>"},{"role":"assistant","content":"a"}]})",
       "image: 1 <image> marker in the messages for 0 images"},
      {"climbing out", with_image(R"("../../etc/passwd")"), "image: '../../etc/passwd' lies outside"},
      {"climbing out midway", with_image(R"("a/../../b.png")"), "lies outside"},
      {"an absolute path elsewhere", with_image(R"("/etc/passwd")"), "image: '/etc/passwd' lies outside"},
      {"a file address elsewhere", with_image(R"("file:///etc/passwd")"), "lies outside"},
      {"a sibling with the same beginning", with_image("\"" + scratch_.folder().string() + "2/a.png\""),
       "lies outside"},
      {"a file address that decodes to no UTF-8", with_image(R"("file:///x%d0y.png")"),
       "image: a path that is not valid UTF-8"},
      {"a web address", with_image(R"("https://example.org/a.png")"), "is not a local file; download it first"},
      {"inline data", with_image(R"("data:image/png;base64,AAAA")"), "data inside the line is not supported"},
      {"a NUL in a path", with_image(R"("a\u0000.png")"), "image: a NUL in the path"},
      {"an empty path", with_image(R"("")"), "image[0]: empty path"},
      {"a path that is a number", with_image("7"), "image[0]: expected a path, got a number"},
      {"both keys", R"({"image":"a","images":["b"],"messages":[]})", "both \"image\" and \"images\" are given"},
      {"a key twice", R"({"messages":[{"role":"user","role":"assistant","content":"x"}]})",
       "messages[0]: key \"role\" twice"},
      {"a video of no frames", message_line(R"([{"type":"video","video":[]}])"), "a video of no frames"},
      {"a rate below zero", message_line(R"([{"type":"video","video":"v","fps":-1}])"),
       "messages[0].content[0].fps: expected frames per second above 0 and at most 1000, got -1"},
      {"a rate of zero", message_line(R"([{"type":"text","text":"x"},{"type":"video","video":"v","fps":0}])"),
       "messages[0].content[1].fps: expected frames per second above 0 and at most 1000, got 0"},
      {"a mad rate beside a path", message_line(R"([{"type":"video","video":{"path":"v","fps":1001}}])"),
       "messages[0].content[0].fps: expected frames per second"},
      {"a rate that is no number", message_line(R"([{"type":"video","video":"v","fps":"2"}])"),
       "messages[0].content[0].fps: expected a number, got a string"},
      {"a rate that is not finite", message_line(R"([{"type":"video","video":"v","fps":NaN}])"), "not valid JSON"},
      {"a rate in the sample's list",
       R"({"videos":["u",{"path":"v","fps":0}],"messages":[{"role":"user","content":"<video><video>"}]})",
       "video[1].fps: expected frames per second"},
      {"an id that is a list", R"({"id":[1],"messages":[]})", "id: expected a string or a number, got a list"},
      {"an id that is true", R"({"id":true,"messages":[]})", "id: expected a string or a number, got true or false"},
      {"half of a pair in an id", R"({"id":"\udc00","messages":[]})", "half of a surrogate pair"},
      {"half of a pair in a path", with_image(R"("a\udc00.png")"), "half of a surrogate pair"},
      {"a mad weight", R"({"messages":[{"role":"user","content":"x","weight":0.5}]})", "expected 0 or 1, got 0.5"},
      {"sharegpt: no value", R"({"conversations":[{"from":"human"}]})", "conversations[0]: expected \"value\"",
       "sharegpt"},
      {"sharegpt: a role twice",
       R"({"conversations":[{"from":"human","value":"x"},{"from":"gpt","value":"y"},{"from":"gpt","value":"z"}]})",
       "conversations[2]: role assistant twice in a row", "sharegpt"},
  };
  for (const Bad& bad : cases)
    EXPECT_THAT(reason(bad.line, bad.format), AllOf(HasSubstr("data.jsonl:2: "), HasSubstr(bad.reason))) << bad.what;
}

TEST_F(DatasetTest, a_line_of_a_gigabyte_is_refused_without_being_read) {
  const auto path = scratch_.write("long.jsonl", kGood + "\n{\"a\":\"");
  std::filesystem::resize_file(path, uint64_t{1} << 30);  // sparse: zeros to the end
  const Dataset dataset(section({path}));
  ASSERT_EQ(dataset.size(), 2u);
  try {
    dataset.sample(1);
    FAIL();
  } catch (const BadSample& bad) {
    EXPECT_THAT(bad.what(), AllOf(HasSubstr("long.jsonl:2: a line of"), HasSubstr("expected at most 67108864")));
  }
}

std::string refusal(const DataSection& options) {
  try {
    const Dataset dataset(options);
    return "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kBadData);
    return error.what();
  }
}

TEST_F(DatasetTest, a_data_set_without_a_single_good_sample_is_refused_with_the_first_reason) {
  EXPECT_THAT(
      refusal(section({scratch_.write("a.jsonl", "x\n{}\n")})),
      AllOf(HasSubstr("none of 2 lines looked at is an object with \"messages\", \"conversations\" or \"text\""),
            HasSubstr("the first: a.jsonl:1: not valid JSON")));
  EXPECT_THAT(refusal(section({scratch_.write("a.jsonl", "{\"messages\":[]}")})),
              HasSubstr("none of 1 sample is good; the first: a.jsonl:1: a conversation without messages"));
  EXPECT_THAT(refusal(section({scratch_.write("a.jsonl", kGood)}, "sharegpt")),
              HasSubstr("a.jsonl:1: expected \"conversations\": the file is read as sharegpt"));
  EXPECT_THAT(refusal(section({scratch_.write("a.jsonl", "\n\n")})), HasSubstr("a.jsonl: no sample in it"));
}

TEST_F(DatasetTest, a_file_of_another_kind_is_told_by_its_kind_and_not_by_its_bytes) {
  const auto utf16 = [](const std::string& text, bool big) {
    std::string out;
    for (const char c : text) out += big ? std::string{'\0', c} : std::string{c, '\0'};
    return out;
  };
  const std::pair<std::string, const char*> cases[] = {
      {"[" + kGood + ",\n" + kGood + "]", "one JSON list; expected one object a line: jq -c '.[]'"},
      {"\xEF\xBB\xBF \n[\n" + kGood + ",\n" + kGood + ",\n]\n", "one JSON list"},
      {"\xFF\xFE" + utf16(kGood, false), "text in UTF-16; expected UTF-8: iconv"},
      {"\xFE\xFF" + utf16(kGood, true), "text in UTF-16"},
      {utf16(kGood + "\n" + kGood, false), "text in UTF-16"},
      {utf16(kGood, true), "text in UTF-16"},
      {"\x1F\x8B\x08 secret", "a gzip file; decompress it first"},
      {"PAR1 secret", "a Parquet file"},
      {"root:x:0:0:secret\n", "not valid JSON"},
  };
  for (const auto& [bytes, reason] : cases)
    for (const char* format : {"auto", "messages", "sharegpt"}) {
      const std::string told = refusal(section({scratch_.write("a.jsonl", bytes)}, format));
      EXPECT_THAT(told, AllOf(HasSubstr("a.jsonl"), HasSubstr(reason))) << format;
      EXPECT_THAT(told, testing::Not(HasSubstr("secret"))) << format;
    }
}

TEST_F(DatasetTest, an_empty_file_among_others_has_no_format) {
  const Dataset dataset(section({scratch_.write("a.jsonl", ""), scratch_.write("b.jsonl", kGood)}));
  EXPECT_EQ(dataset.size(), 1u);
  EXPECT_EQ(dataset.files()[0].format, "empty");
  EXPECT_FALSE(dataset.files()[0].detected);
  EXPECT_EQ(dataset.sample(0).place, "b.jsonl:1");
}

TEST_F(DatasetTest, a_rate_is_kept_wherever_it_stands_and_pictures_have_none) {
  const json sample = canonical(R"({"videos":["u.mp4",{"path":"v.mp4","fps":3}],"messages":[{"role":"user","content":[
      {"type":"video","fps":2},{"type":"video"},{"type":"image","image":{"path":"a.png","fps":7},"fps":-1}]},
      {"role":"assistant","content":"x"}]})");
  const json& items = sample["messages"][0]["content"];
  EXPECT_EQ(items[0]["fps"], 2);
  EXPECT_EQ(items[1]["fps"], 3);
  EXPECT_FALSE(items[2].contains("fps"));
}

TEST_F(DatasetTest, a_list_is_of_videos_in_the_sample_and_of_frames_in_a_part) {
  const json sample = canonical(R"({"video":["u.mp4",["f0.png","f1.png"]],"messages":[{"role":"user","content":[
      {"type":"video"},{"type":"video"},{"type":"video","video":["g0.png","g1.png"]}]},
      {"role":"assistant","content":"x"}]})");
  const json& items = sample["messages"][0]["content"];
  EXPECT_EQ(items[0]["path"], image("u.mp4"));
  EXPECT_EQ(items[1]["frames"], (json{image("f0.png"), image("f1.png")}));
  EXPECT_EQ(items[2]["frames"], (json{image("g0.png"), image("g1.png")}));
}

TEST_F(DatasetTest, a_link_below_the_media_folder_must_not_lead_out_of_it) {
  namespace fs = std::filesystem;
  const fs::path root = scratch_.folder() / "set", outside = scratch_.folder() / "outside";
  scratch_.write("set/inside/a.png", "x");
  scratch_.write("outside/secret.png", "x");
  fs::create_symlink(outside / "secret.png", root / "absolute.png");
  fs::create_symlink("../outside/secret.png", root / "relative.png");
  fs::create_directory_symlink("../outside", root / "folder");
  fs::create_symlink("absolute.png", root / "twice.png");
  fs::create_directory_symlink(root / "inside", root / "alias");
  fs::create_symlink("inside/a.png", root / "good.png");
  fs::create_symlink("absent.png", root / "dangling.png");
  fs::create_directory_symlink(root, scratch_.folder() / "link");  // the folder itself behind a link

  DataSection options;
  for (const fs::path& media_root : {root, scratch_.folder() / "link"}) {
    options.media_root = media_root;
    const auto outcome = [&](const std::string& path) {
      options.path = {scratch_.write("data.jsonl", kGood + "\n" + with_image("\"" + path + "\""))};
      const Dataset dataset(options);
      try {
        return std::string(json::parse(dataset.sample(1).json)["messages"][0]["content"][0]["path"]);
      } catch (const BadSample& bad) {
        return std::string(bad.what());
      }
    };
    for (const char* path : {"absolute.png", "relative.png", "folder/secret.png", "twice.png"})
      EXPECT_THAT(outcome(path), AllOf(HasSubstr("data.jsonl:2: image: '" + std::string(path) + "' leads outside " +
                                                 media_root.string() + " by a symbolic link")));
    for (const char* path : {"inside/a.png", "alias/a.png", "good.png", "dangling.png", "absent.png"})
      EXPECT_EQ(outcome(path), (media_root / path).string());
    EXPECT_EQ(outcome((media_root / "good.png").string()), (media_root / "good.png").string());
  }
}

TEST_F(DatasetTest, missing_paths_are_named) {
  std::filesystem::create_directory(scratch_.folder() / "empty");
  for (const char* name : {"absent.jsonl", "empty"}) {
    try {
      const Dataset dataset(section({scratch_.folder() / name}));
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::kInputMissing);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(name), HasSubstr("check data.path")));
    }
  }
}

TEST_F(DatasetTest, any_of_many_samples_is_the_one_at_its_line) {
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += R"({"id":)" + std::to_string(i) +
            R"(,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]})" + "\n" +
            (i % 7 == 0 ? "\n" : "");
  const Dataset dataset(section({scratch_.write("many.jsonl", text)}));
  ASSERT_EQ(dataset.size(), 20'000u);
  for (const uint64_t index : {0u, 1u, 12'345u, 19'999u}) {
    const Sample sample = dataset.sample(index);
    EXPECT_EQ(json::parse(sample.json)["id"], std::to_string(index));
    EXPECT_EQ(sample.place, "many.jsonl:" + std::to_string(index + 1 + (index + 6) / 7));
  }
}

TEST_F(DatasetTest, files_of_one_name_are_told_apart_by_their_folders) {
  const Dataset dataset(
      section({scratch_.write("day/1/train.jsonl", kGood + "\n"), scratch_.write("day/2/train.jsonl", kGood + "\n"),
               scratch_.write("night/2/train.jsonl", kGood + "\n"), scratch_.write("other.jsonl", kGood + "\n")}));
  EXPECT_EQ(dataset.place(0), "1/train.jsonl:1");
  EXPECT_EQ(dataset.place(1), "day/2/train.jsonl:1");
  EXPECT_EQ(dataset.place(2), "night/2/train.jsonl:1");
  EXPECT_EQ(dataset.place(3), "other.jsonl:1");
}

TEST_F(DatasetTest, files_and_folders_may_be_named_in_other_bytes_than_utf8) {
  std::filesystem::create_directories(scratch_.folder() / "d\xE9j\xE0");
  std::filesystem::copy_file(media_folder() / "jpeg_exif6.jpg", scratch_.folder() / "d\xE9j\xE0/100%.jpg");
  const std::string shows =
      R"({"image":"100%.jpg","messages":[{"role":"user","content":"<image>"},{"role":"assistant","content":"a"}]})";
  scratch_.write("d\xE9j\xE0/caf\xE9.jsonl", kGood + "\n" + shows + "\n{\n");
  scratch_.write("d\xE9j\xE0/caf\xE8.jsonl", R"({"text":"words"})");
  testing::internal::CaptureStderr();
  const Dataset dataset(section({scratch_.folder() / "d\xE9j\xE0"}));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(R"(/d\xE9j\xE0/caf\xE9.jsonl: 3 samples)"));
  ASSERT_EQ(dataset.size(), 4u);
  EXPECT_EQ(dataset.place(0), R"(caf\xE8.jsonl:1)");
  EXPECT_EQ(json::parse(dataset.sample(0).json)["id"], R"(caf\xE8.jsonl:1)");
  EXPECT_EQ(json::parse(dataset.sample(1).json)["id"], R"(caf\xE9.jsonl:1)");
  const json path = json::parse(dataset.sample(2).json)["messages"][0]["content"][0]["path"];
  EXPECT_THAT(path, testing::EndsWith("/d%E9j%E0/100%25.jpg"));
  EXPECT_EQ(MediaReader("/", 1'000'000).probe(path, LF_MEDIA_IMAGE).width, 23);
  try {
    MediaReader("/", 1'000'000).probe(path, LF_MEDIA_VIDEO);
    ADD_FAILURE();
  } catch (const sdk::Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr(R"(/d\xE9j\xE0/100%.jpg: )"));
  }
  try {
    dataset.sample(3);
    ADD_FAILURE();
  } catch (const BadSample& bad) {
    EXPECT_THAT(bad.what(), testing::StartsWith(R"(caf\xE9.jsonl:3: not valid JSON)"));
  }
}

TEST(PathText, stands_for_the_path_and_readable_text_changes_what_is_no_utf8_alone) {
  for (const std::string path : {"/a b/ü%41.png", "/caf\xE9 %41/\xFF", "/\xE2\x82", "/"})
    EXPECT_EQ(path_of(path_text(path)), path);
  EXPECT_EQ(path_text("/ü"), "/ü");
  EXPECT_EQ(readable("zwölf 🦊"), "zwölf 🦊");
  EXPECT_EQ(readable("z\xF6lf ü\xE2\x82"), R"(z\xF6lf ü\xE2\x82)");
  EXPECT_EQ(readable("\xED\xA0\x80"), R"(\xED\xA0\x80)");  // half of a surrogate pair
}

// What lfrun balance train.jsonl has: a file without a folder.
TEST(MediaRoot, an_empty_folder_is_the_working_directory) {
  EXPECT_EQ(MediaRoot("").resolve("a.png", "image"), (std::filesystem::current_path() / "a.png").string());
}

}  // namespace
}  // namespace lf
