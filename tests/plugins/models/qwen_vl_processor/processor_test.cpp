#include "qwen_vl/processor/processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fake_host.h"
#include "models.h"
#include "tensors.h"

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

lf_sample conversation(const std::string& text) {
  auto sample = sdk::with_header<lf_sample>();
  sample.json = sdk::str(text);
  return sample;
}
const std::string kHello =
    R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"hello"}]}]})";
const std::string kPicture =
    R"({"messages":[{"role":"user","content":[{"type":"image","path":"a.png"}]},{"role":"assistant","content":[{"type":"text","text":"hello"}]}]})";

TEST(Processor, a_model_without_a_tokenizer_is_an_error_only_once_there_is_text) {
  const QwenVlProcessor processor(nullptr, test::small_model(Family::kQwen2Vl), "{}");
  test::NamedTensors fields;
  fields.add_integers("input_ids", {1, 2, 3});
  auto sample = sdk::with_header<lf_sample>();
  sample.fields = fields.view().data();
  sample.n_fields = 1;
  EXPECT_EQ(processor.features(sample).language, (std::vector<double>{3, 0, 6}));
  for (int i = 0; i < 2; ++i) {  // every time, not only the first
    try {
      processor.features(conversation(kHello));
      FAIL();
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_INVALID);
      EXPECT_THAT(failure.what(), testing::HasSubstr("model.tokenizer"));
    }
  }
}

TEST(Processor, a_host_without_pictures_serves_text_and_says_what_it_lacks) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", test::byte_tokenizer());
  test::FakeHost host;
  host.lends_media = false;
  const QwenVlProcessor processor(host.host(), test::small_model(Family::kQwen2Vl),
                                  json{{"path", folder.path().string()}}.dump());
  EXPECT_GT(processor.features(conversation(kHello)).language[0], 10);
  try {
    processor.features(conversation(kPicture));
    FAIL();
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_UNSUPPORTED);
    EXPECT_THAT(failure.what(), testing::HasSubstr("lf.media/1"));
  }
}

TEST(Processor, a_chat_template_that_is_not_the_familys_is_said_once_and_by_file) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", test::byte_tokenizer());
  folder.write("tokenizer_config.json", {{"chat_template", "{{ messages }}"}});
  test::FakeHost host;
  const std::string create = json{{"path", folder.path().string()}}.dump();
  QwenVlProcessor(host.host(), test::small_model(Family::kQwen2Vl), create);
  ASSERT_EQ(host.logged.size(), 1u);
  EXPECT_THAT(host.logged[0], testing::HasSubstr("tokenizer_config.json"));
  folder.write_text("chat_template.jinja", "{# mine #}");
  QwenVlProcessor(host.host(), test::small_model(Family::kQwen2Vl), create);
  ASSERT_EQ(host.logged.size(), 2u);
  EXPECT_THAT(host.logged[1], testing::HasSubstr("chat_template.jinja"));
  folder.write("tokenizer_config.json", json::object());
  std::filesystem::remove(folder.path() / "chat_template.jinja");
  QwenVlProcessor(host.host(), test::small_model(Family::kQwen2Vl), create);
  EXPECT_EQ(host.logged.size(), 2u);
}

TEST(Processor, a_tokenizers_file_that_is_no_json_object_is_refused_by_its_name) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", test::byte_tokenizer());
  test::FakeHost host;
  const std::string create = json{{"path", folder.path().string()}}.dump();
  for (const char* content : {"[]", "{\"chat_template\": "}) {
    folder.write_text("tokenizer_config.json", content);
    try {
      QwenVlProcessor(host.host(), test::small_model(Family::kQwen2Vl), create);
      FAIL() << content;
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_INVALID);
      EXPECT_THAT(failure.what(),
                  testing::AllOf(testing::HasSubstr("tokenizer_config.json: expected a JSON object, got"),
                                 testing::Not(testing::HasSubstr("json.exception"))));
    }
  }
}

TEST(Processor, the_job_can_name_a_template_and_only_one_that_is_there) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", test::byte_tokenizer());
  const auto rows = [&](const char* name) {
    const QwenVlProcessor processor(nullptr, test::small_model(Family::kQwen2_5Vl),
                                    json{{"path", folder.path().string()}, {"data", {{"chat_template", name}}}}.dump());
    return processor.features(conversation(kHello)).language[0];
  };
  EXPECT_EQ(rows("auto"), rows("qwen2_5_vl"));
  EXPECT_GT(rows("auto"), rows("qwen3_vl"));  // no default system message
  EXPECT_THROW(rows("llama"), sdk::Failure);
}

TEST(Processor, samples_of_tensors_and_of_text_share_a_micro_batch) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", test::byte_tokenizer());
  const QwenVlProcessor processor(nullptr, test::small_model(Family::kQwen2Vl),
                                  json{{"path", folder.path().string()}}.dump());
  test::NamedTensors fields;
  fields.add_integers("input_ids", {9, 8, 7, 6}, {2, 2});
  fields.add_integers("attention_mask", {1, 1, 1, 0}, {2, 2});
  auto tensors = sdk::with_header<lf_sample>();
  tensors.fields = fields.view().data();
  tensors.n_fields = static_cast<uint32_t>(fields.view().size());
  const lf_sample text = conversation(kHello);
  const lf_sample* both[] = {&text, &tensors};
  const Columns made = processor.collate(both);
  const auto places = test::integers(made.view(), "source_row"), starts = test::integers(made.view(), "segment_starts");
  ASSERT_EQ(starts.size(), 4u);
  EXPECT_EQ(places.front(), -1);
  EXPECT_THAT(std::vector<int64_t>(places.end() - 3, places.end()), testing::ElementsAre(0, 1, 2));
}

TEST(Processor, columns_go_to_the_caller_once_and_only_where_there_is_room) {
  const QwenVlProcessor processor(nullptr, test::small_model(Family::kQwen2Vl), "{}");
  test::NamedTensors fields;
  fields.add_integers("input_ids", {9, 8, 7});
  auto sample = sdk::with_header<lf_sample>();
  sample.fields = fields.view().data();
  sample.n_fields = 1;
  const lf_sample* one = &sample;
  std::vector<lf_named_tensor> room(2);
  EXPECT_THROW(processor.collate({&one, 1}).give(room), sdk::Failure);
  room.resize(9);
  Columns made = processor.collate({&one, 1});
  const uint32_t n = made.give(room);
  EXPECT_EQ(n, 5u);
  EXPECT_TRUE(made.view().empty());
  EXPECT_EQ(test::integers({room.data(), n}, "targets"), (std::vector<int64_t>{-100, -100, -100}));
  for (uint32_t i = 0; i < n; ++i) sdk::release(room[i].tensor);
}

}  // namespace
}  // namespace lf::qwen_vl
