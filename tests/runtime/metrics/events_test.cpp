// The event file is decoded here by a reader of its own, written from the format's description.
#include "metrics/events.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/metrics/a_report.h"
#include "support/scratch_folder.h"

using lf::test::a_report;

namespace {

uint32_t crc32c_bit_by_bit(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
  }
  return ~crc;
}

template <typename T>
T read_as(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

std::vector<std::string> records_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> records;
  for (size_t at = 0; at < all.size();) {
    const auto size = read_as<uint64_t>(all, at);
    EXPECT_EQ(unmasked(read_as<uint32_t>(all, at + 8)), crc32c_bit_by_bit(all.substr(at, 8)));
    records.push_back(all.substr(at + 12, size));
    EXPECT_EQ(unmasked(read_as<uint32_t>(all, at + 12 + size)), crc32c_bit_by_bit(records.back()));
    at += 16 + size;
  }
  return records;
}

// Fields of a protobuf message: numbers as their bits, messages and strings as bytes.
struct Field {
  int number = 0;
  uint64_t bits = 0;
  std::string bytes;
};

std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t tag = varint();
    Field field;
    field.number = static_cast<int>(tag >> 3);
    switch (tag & 7) {
      case 0:
        field.bits = varint();
        break;
      case 1:
        field.bits = read_as<uint64_t>(message, at), at += 8;
        break;
      case 2: {
        const uint64_t size = varint();
        field.bytes = message.substr(at, size);
        at += size;
        break;
      }
      case 5:
        field.bits = read_as<uint32_t>(message, at), at += 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (tag & 7);
        return fields;
    }
    fields.push_back(field);
  }
  return fields;
}

std::map<std::string, float> scalars_of(const std::string& summary) {
  std::map<std::string, float> scalars;
  for (const Field& value : fields_of(summary)) {
    const auto parts = fields_of(value.bytes);
    EXPECT_EQ(value.number, 1);
    EXPECT_EQ(parts.at(0).number, 1);
    EXPECT_EQ(parts.at(1).number, 2);
    scalars[parts.at(0).bytes] = std::bit_cast<float>(static_cast<uint32_t>(parts.at(1).bits));
  }
  return scalars;
}

std::filesystem::path only_file_in(const std::filesystem::path& folder) {
  return std::filesystem::directory_iterator(folder)->path();
}

}  // namespace

TEST(events, the_checksum_is_crc32c_of_the_rfc) {
  // RFC 3720, B.4: 32 bytes of zeros, of ones, ascending.
  EXPECT_EQ(lf::crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(lf::crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(lf::crc32c(ascending), 0x46dd794eu);
}

TEST(events, a_decoder_finds_the_version_and_the_scalars_of_each_step) {
  lf::test::ScratchFolder folder;
  {
    lf::EventsFile events(folder.path(), 1'700'000'000.25, 1);
    for (int step : {1, 2, 300}) {
      auto report = a_report(step);
      report.aux = {{"balance", 0.125}};
      if (step == 2) report.mfu = 0.5;
      events.append(report);
    }
  }
  const auto file = only_file_in(folder.path());
  EXPECT_THAT(file.filename().string(), ::testing::StartsWith("events.out.tfevents.1700000000."));
  const auto records = records_of(file);
  ASSERT_EQ(records.size(), 4u);
  const auto version = fields_of(records[0]);
  EXPECT_EQ(std::bit_cast<double>(version.at(0).bits), 1'700'000'000.25);
  EXPECT_EQ(version.at(1).number, 3);
  EXPECT_EQ(version.at(1).bytes, "brain.Event:2");
  const auto last = fields_of(records[3]);
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(std::bit_cast<double>(last[0].bits), a_report(300).unix_seconds);
  EXPECT_EQ(last[1].bits, 300u);
  EXPECT_EQ(last[2].number, 5);
  const auto scalars = scalars_of(last[2].bytes);
  EXPECT_FLOAT_EQ(scalars.at("train/loss"), 9.0f / 300 + 2);
  EXPECT_FLOAT_EQ(scalars.at("train/learning_rate"), 0.03f);
  EXPECT_FLOAT_EQ(scalars.at("train/balance"), 0.125f);
  EXPECT_FLOAT_EQ(scalars.at("speed/tokens_per_second"), 5200.0f);
  EXPECT_FALSE(scalars.contains("speed/mfu")) << "not stated, so not zero";
  EXPECT_FLOAT_EQ(scalars_of(fields_of(records[2])[2].bytes).at("speed/mfu"), 0.5f);
}

TEST(events, a_resumed_run_tells_tensorboard_from_which_step_earlier_files_are_void) {
  lf::test::ScratchFolder folder;
  { lf::EventsFile events(folder.path(), 1'700'000'000, 41); }
  const auto records = records_of(only_file_in(folder.path()));
  ASSERT_EQ(records.size(), 2u);
  const auto start = fields_of(records[1]);
  EXPECT_EQ(start.at(1).bits, 41u);
  EXPECT_EQ(start.at(2).number, 7);
  EXPECT_EQ(fields_of(start.at(2).bytes).at(0).bits, 1u) << "SessionLog.START";
}
