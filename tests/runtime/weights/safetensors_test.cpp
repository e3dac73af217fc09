#include "weights/safetensors.h"

#include <cstring>
#include <ctime>
#include <random>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "runtime/weights/scratch.h"
#include "weights/convert.h"

namespace lf {
namespace {

using test::fixture;
using test::refusal;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string file_of(const std::string& json, size_t data_bytes = 0) {
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json + std::string(data_bytes, '\0');
}

std::string parse_refusal(const std::string& bytes) {
  return refusal([&] { SafetensorsHeader::parse("f.safetensors", test::as_bytes(bytes), bytes.size()); });
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, a_file_of_the_reference_library_reads_with_every_type_and_name) {
  const SafetensorsFile file(fixture("mixed.safetensors"));
  EXPECT_EQ(file.tensors().size(), 19u);
  EXPECT_EQ(file.header().metadata().at("z"), "\n");
  const TensorEntry& bf16 = file.at("quote\" back\\ tab\t one\x01 del\x7f é 語");
  EXPECT_EQ(bf16.dtype, DType::kBf16);
  float values[2];
  convert(DType::kBf16, file.bytes(bf16).data(), DType::kF32, values, 2);
  EXPECT_EQ(values[1], 1.0f);
  EXPECT_TRUE(file.at("scalar").shape.empty());
  EXPECT_EQ(file.at("scalar").size(), 4u);
  EXPECT_EQ(file.at("empty").size(), 0u);
  EXPECT_EQ(file.find("t.f3"), nullptr);
  EXPECT_THAT(refusal([&] { file.at("nope"); }), HasSubstr("nope"));
}

TEST(Safetensors, a_file_written_from_scratch_equals_the_reference_librarys_bytes) {
  for (const char* name : {"mixed.safetensors", "plain.safetensors"}) {
    const SafetensorsFile source(fixture(name));
    std::vector<TensorSpec> specs(source.tensors().rbegin(), source.tensors().rend());
    const SafetensorsHeader header = SafetensorsHeader::plan(specs, source.header().metadata());
    ASSERT_EQ(header.text(), source.header().text());
    test::Scratch scratch;
    PosixFileSystem files;
    {
      const auto out = files.create(scratch / "out", header.file_size());
      out->write(0, header.text().data(), header.text().size());
      for (const TensorEntry& entry : header.tensors())
        write_box(*out, entry, whole(entry.shape), source.bytes(source.at(entry.name)).data());
    }
    EXPECT_EQ(test::slurp(scratch / "out"), test::slurp(fixture(name)));
  }
}

TEST(Safetensors, boxes_written_in_any_order_make_the_whole_tensor) {
  const SafetensorsHeader header =
      SafetensorsHeader::plan({{"a", DType::kI32, {5, 4, 3}}, {"b", DType::kI32, {7}}}, {});
  std::vector<int32_t> a(60), b(7);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int32_t>(i);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int32_t>(100 + i);
  test::Scratch scratch;
  PosixFileSystem files;
  {
    const auto out = files.create(scratch / "out", header.file_size());
    out->write(0, header.text().data(), header.text().size());
    for (const auto& [begin, end] : {std::pair{2, 4}, std::pair{0, 2}}) {  // columns of a
      Box box = whole(std::vector<int64_t>{5, 4, 3});
      box.begin[1] = begin;
      box.end[1] = end;
      std::vector<int32_t> piece;
      for (int i = 0; i < 5; ++i) {
        for (int j = begin; j < end; ++j) {
          for (int k = 0; k < 3; ++k) piece.push_back(a[static_cast<size_t>(i * 12 + j * 3 + k)]);
        }
      }
      write_box(*out, *header.find("a"), box, piece.data());
    }
    write_box(*out, *header.find("b"), whole(std::vector<int64_t>{7}), b.data());
  }
  const SafetensorsFile read(scratch / "out");
  EXPECT_EQ(std::memcmp(read.bytes(read.at("a")).data(), a.data(), 240), 0);
  EXPECT_EQ(std::memcmp(read.bytes(read.at("b")).data(), b.data(), 28), 0);
}

struct Bad {
  const char* what;
  std::string bytes;
  const char* says;
};

TEST(Safetensors, every_kind_of_bad_file_is_refused_with_file_and_reason) {
  const std::string good = tensor("a", "F32", "[2]", "[0,8]");
  const std::string deep(1'000'000, '[');
  const std::vector<Bad> cases = {
      {"empty", "", "got 0 bytes"},
      {"seven bytes", std::string(7, '\0'), "got 7 bytes"},
      {"length 0", std::string(8, '\0') + "{}", "got 0"},
      {"length 2^64-1", std::string(8, '\xff') + "{}", "18446744073709551615"},
      {"length over the cap", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}", "got 100000001"},
      {"length over the file", std::string("\x10\0\0\0\0\0\0\0", 8) + "{}", "cut short"},
      {"no object", file_of("[]"), "'{'"},
      {"leading space", file_of(" {}"), "'{'"},
      {"no JSON", file_of("{hello}"), "no valid JSON"},
      {"cut JSON", file_of("{" + good), "no valid JSON"},
      {"text after JSON", file_of("{" + good + "}x", 8), "no valid JSON"},
      {"NUL after JSON", file_of("{" + good + "}" + std::string(1, '\0'), 8), "NUL at byte"},
      {"duplicate tensor", file_of("{" + good + "," + good + "}", 8), "\"a\""},
      {"duplicate tensor of size 0",
       file_of("{" + tensor("a", "F32", "[0]", "[0,0]") + "," + tensor("a", "F32", "[0]", "[0,0]") + "}"), "twice"},
      {"duplicate dtype", file_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
       "dtype once"},
      {"duplicate metadata", file_of(R"({"__metadata__":{},"__metadata__":{}})"), "twice"},
      {"duplicate metadata key", file_of(R"({"__metadata__":{"k":"1","k":"2"}})"), "\"k\" twice"},
      {"metadata not of strings", file_of(R"({"__metadata__":{"k":1}})"), "number 1"},
      {"unknown field", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8), "\"x\""},
      {"missing field", file_of(R"({"a":{"dtype":"F32","shape":[2]}})"), "got fewer"},
      {"one offset", file_of("{" + tensor("a", "F32", "[2]", "[0]") + "}", 8), "got 1"},
      {"three offsets", file_of("{" + tensor("a", "F32", "[2]", "[0,8,8]") + "}", 8), "got more"},
      {"negative offset", file_of("{" + tensor("a", "F32", "[2]", "[-8,0]") + "}", 8), "number -8"},
      {"negative length", file_of("{" + tensor("a", "F32", "[-2]", "[0,8]") + "}", 8), "number -2"},
      {"fraction", file_of("{" + tensor("a", "F32", "[2.0]", "[0,8]") + "}", 8), "number 2.0"},
      {"number of 2^64", file_of("{" + tensor("a", "F32", "[18446744073709551616]", "[0,8]") + "}", 8),
       "18446744073709551616"},
      {"number of 2^63", file_of("{" + tensor("a", "F32", "[9223372036854775808]", "[0,8]") + "}", 8),
       "9223372036854775808"},
      {"reversed offsets", file_of("{" + tensor("a", "F32", "[2]", "[8,0]") + "}", 8), "backwards"},
      {"overlap", file_of("{" + good + "," + tensor("b", "F32", "[2]", "[4,12]") + "}", 12), "overlaps"},
      {"same bytes", file_of("{" + good + "," + tensor("b", "F32", "[2]", "[0,8]") + "}", 8), "overlaps"},
      {"gap", file_of("{" + good + "," + tensor("b", "F32", "[2]", "[12,20]") + "}", 20), "gap by 4"},
      {"gap at the start", file_of("{" + tensor("a", "F32", "[2]", "[4,12]") + "}", 12), "gap by 4"},
      {"past the end", file_of("{" + good + "}", 7), "cut short within \"a\""},
      {"bytes after the end", file_of("{" + good + "}", 9), "1 bytes follow"},
      {"size of another type", file_of("{" + tensor("a", "BF16", "[2]", "[0,8]") + "}", 8), "expected 4 bytes"},
      {"unknown type", file_of("{" + tensor("a", "F31", "[2]", "[0,8]") + "}", 8), "\"F31\""},
      {"product overflow", file_of("{" + tensor("a", "F32", "[4294967296,4294967296,4294967296]", "[0,8]") + "}", 8),
       "cannot be counted"},
      {"product overflow to a fit", file_of("{" + tensor("a", "F32", "[9223372036854775807,2,2]", "[0,8]") + "}", 8),
       "cannot be counted"},
      {"bits overflow", file_of("{" + tensor("a", "F64", "[2305843009213693952]", "[0,0]") + "}"), "cannot be counted"},
      {"half a byte", file_of("{" + tensor("a", "F4", "[3]", "[0,1]") + "}", 1), "cannot be counted"},
      {"NUL in a name", file_of("{" + tensor("a\\u0000b", "F32", "[2]", "[0,8]") + "}", 8), "without NUL"},
      {"slash in a name", file_of("{" + tensor("../a", "F32", "[2]", "[0,8]") + "}", 8), "'/'"},
      {"empty name", file_of("{" + tensor("", "F32", "[2]", "[0,8]") + "}", 8), "a name"},
      {"invalid UTF-8", file_of("{" + tensor("a\xff", "F32", "[2]", "[0,8]") + "}", 8), "no valid JSON"},
      {"lone surrogate", file_of("{" + tensor("a\\ud800", "F32", "[2]", "[0,8]") + "}", 8), "no valid JSON"},
      {"deep lists", file_of("{\"a\":" + deep), "a list"},
      {"deep shape", file_of("{\"a\":{\"shape\":[" + deep), "a list"},
      {"tensor of a string", file_of(R"({"a":"b"})"), "a string"},
      {"null", file_of(R"({"a":null})"), "null"},
      {"boolean shape", file_of(R"({"a":{"shape":true}})"), "a boolean"},
  };
  for (const Bad& bad : cases) {
    const std::string message = parse_refusal(bad.bytes);
    EXPECT_THAT(message, StartsWith("65 f.safetensors: ")) << bad.what;
    EXPECT_THAT(message, HasSubstr(bad.says)) << bad.what;
    EXPECT_LT(message.size(), 600u) << bad.what;
  }
  std::string axes = "1";
  for (int i = 1; i < 65; ++i) axes += ",1";
  EXPECT_THAT(parse_refusal(file_of("{" + tensor("a", "U8", "[" + axes + "]", "[0,1]") + "}", 1)),
              HasSubstr("at most 64 axes"));
  EXPECT_EQ(parse_refusal(file_of("{" + good + "}  ", 8)), "nothing");
  EXPECT_EQ(parse_refusal(file_of("{}")), "nothing");
}

TEST(Safetensors, flipped_and_cut_bytes_of_a_header_never_crash) {
  const std::string good = test::slurp(fixture("mixed.safetensors"));
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x20, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      const std::string message = parse_refusal(bad);
      if (message != "nothing") {
        EXPECT_THAT(message, StartsWith("65 f.safetensors: "));
        ++refused;
      }
    }
    EXPECT_THAT(parse_refusal(good.substr(0, at)), StartsWith("65 f.safetensors: ")) << at;
  }
  EXPECT_GT(refused, good.size());
}

TEST(Safetensors, a_million_tensors_open_within_half_a_gigabyte) {
  std::string json = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    if (i > 0) json += ',';
    json += tensor("l." + std::to_string(i), "U8", "[2]",
                   "[" + std::to_string(2 * i) + "," + std::to_string(2 * i + 2) + "]");
  }
  json += "}";
  test::Scratch scratch;
  test::spit(scratch / "many.safetensors", file_of(json, 2'000'000));
  json = {};
  const std::clock_t start = std::clock();  // of the processor: the machine may be busy
  const SafetensorsFile file(scratch / "many.safetensors");
  EXPECT_NE(file.find("l.999999"), nullptr);
  const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(file.tensors().size(), 1'000'000u);
  RecordProperty("seconds", std::to_string(took));
#if !defined(__SANITIZE_ADDRESS__)
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 512 * 1024);
#endif
}

TEST(Safetensors, a_pipe_or_folder_in_place_of_a_file_is_refused_at_once) {
  test::Scratch scratch;
  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { SafetensorsFile{scratch / "pipe"}; }), HasSubstr("regular file"));
  EXPECT_THAT(refusal([&] { SafetensorsFile{scratch.path()}; }), HasSubstr("regular file"));
  EXPECT_THAT(refusal([&] { SafetensorsFile{scratch / "absent"}; }), StartsWith("66 "));
}

}  // namespace
}  // namespace lf
