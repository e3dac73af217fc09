#include "metrics/events.h"

#include <array>
#include <bit>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"

namespace lf {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1u ? 0x82f63b78u : 0u);
    table[i] = value;
  }
  return table;
}

template <typename T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

// Protobuf's wire format: a tag of field number and wire type, then a varint (0), 8 bytes (1), a length and bytes (2)
// or 4 bytes (5).
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void put_tag(std::string& out, int field, Wire wire) { put_varint(out, static_cast<uint64_t>(field) << 3 | wire); }

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double wall_time, int64_t step) {
  std::string event;
  put_tag(event, 1, kFixed64);
  put_little_endian(event, std::bit_cast<uint64_t>(wall_time));
  if (step != 0) {
    put_tag(event, 2, kVarint);
    put_varint(event, static_cast<uint64_t>(step));
  }
  return event;
}

std::filesystem::path name_in(const std::filesystem::path& folder, double start) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(Exit::kCannotCreate, "{}: {}; check the run directory", folder.string(), error.message());
  char host[256] = "host";
  gethostname(host, sizeof(host) - 1);
  return folder / fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<int64_t>(start), host, getpid());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  uint32_t crc = 0xffffffffu;
  for (char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xffu] ^ (crc >> 8);
  return crc ^ 0xffffffffu;
}

std::string event_record(std::string_view event) {
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(event.size()));
  put_little_endian(record, masked(crc32c(record)));
  record += event;
  put_little_endian(record, masked(crc32c(event)));
  return record;
}

EventsFile::EventsFile(const std::filesystem::path& folder, double start, int64_t first_step)
    : file_(name_in(folder, start)) {
  std::string version = event_at(start, 0);
  put_bytes(version, 3, "brain.Event:2");
  file_.append(event_record(version));
  if (first_step > 1) {
    std::string session;  // SessionLog.status = START
    put_tag(session, 1, kVarint);
    put_varint(session, 1);
    std::string event = event_at(start, first_step);
    put_bytes(event, 7, session);
    file_.append(event_record(event));
  }
}

void EventsFile::append(const StepReport& report) {
  std::string summary;
  const auto scalar = [&](std::string_view tag, double value) {
    std::string entry;
    put_bytes(entry, 1, tag);
    put_tag(entry, 2, kFixed32);
    put_little_endian(entry, std::bit_cast<uint32_t>(static_cast<float>(value)));
    put_bytes(summary, 1, entry);
  };
  scalar("train/loss", report.loss);
  scalar("train/grad_norm", report.grad_norm);
  scalar("train/learning_rate", report.learning_rate);
  scalar("train/supervised_tokens", static_cast<double>(report.supervised_tokens));
  for (const auto& [name, value] : report.aux) scalar("train/" + name, value);
  scalar("speed/step_seconds", report.step_seconds);
  scalar("speed/tokens_per_second", per_second(report.tokens, report.step_seconds));
  scalar("speed/supervised_tokens_per_second", per_second(report.supervised_tokens, report.step_seconds));
  scalar("speed/data_wait_seconds", report.data_wait_seconds);
  scalar("speed/reduction_exposed_seconds", report.reduction_exposed_seconds);
  if (report.copies_hidden) scalar("speed/copies_hidden", *report.copies_hidden);
  if (report.mfu) scalar("speed/mfu", *report.mfu);
  if (const auto& balance = report.balance) {
    scalar("balance/planned", balance->planned ? 1 : 0);
    scalar("balance/arrival_imbalance", balance->arrival_imbalance);
    scalar("balance/predicted_imbalance", balance->predicted_imbalance);
    scalar("balance/measured_imbalance", balance->measured_imbalance);
    scalar("balance/plan_seconds", balance->plan_seconds);
  }
  scalar("memory/bytes", static_cast<double>(report.memory_bytes));
  scalar("memory/peak_bytes", static_cast<double>(report.peak_memory_bytes));
  std::string event = event_at(report.unix_seconds, report.step);
  put_bytes(event, 5, summary);
  file_.append(event_record(event));
}

}  // namespace lf
