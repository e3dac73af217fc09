#include "diffusion/tensor_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::diffusion {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = 1 << 20, kMaxValues = uint64_t{1} << 32;
constexpr size_t kMaxAxes = 8;
constexpr const char* kNextMove =
    "make the file anew, with the model's own VAE and text encoder (tools/latents/README.md)";

uint64_t item_bytes(const std::string& dtype) { return dtype == "F32" ? 4 : dtype == "F16" || dtype == "BF16" ? 2 : 0; }

float widened_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

float widened_f16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? HUGE_VAL : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return static_cast<float>((bits & 0x8000) != 0 ? -value : value);
}

}  // namespace

void TensorFile::refuse(const std::string& reason) const {
  throw sdk::Failure(LF_E_DATA, fmt::format("{}: {}; {}", path_, reason, kNextMove));
}

TensorFile::TensorFile(const std::string& path) : path_(path), in_(path, std::ios::binary) {
  std::error_code unreadable;
  const bool folder = std::filesystem::is_directory(path, unreadable);
  if (!in_ || folder)
    throw sdk::Failure(
        LF_E_DATA, fmt::format("{}: expected a safetensors file, got {}; check the path, which starts at the folder "
                               "of its data file, or {}",
                               path, folder ? "a folder" : "none that can be read", kNextMove));
  in_.seekg(0, std::ios::end);
  const auto size = static_cast<uint64_t>(std::max<std::streamoff>(in_.tellg(), 0));
  in_.seekg(0);
  unsigned char length[8] = {};
  uint64_t header_bytes = 0;
  if (!in_.read(reinterpret_cast<char*>(length), 8))
    refuse(fmt::format("expected a safetensors file, got {} bytes", size));
  for (int i = 8; i-- > 0;) header_bytes = header_bytes << 8 | length[i];
  if (header_bytes > kMaxHeader || header_bytes + 8 > size)
    refuse(fmt::format("expected a safetensors file, got a header that would have {} bytes", header_bytes));
  std::string header(header_bytes, '\0');
  in_.read(header.data(), static_cast<std::streamsize>(header_bytes));
  data_begin_ = 8 + header_bytes;
  const json root = json::parse(header, nullptr, false);
  if (!root.is_object()) refuse("expected a safetensors file, got a header that is no JSON object");
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") continue;
    Entry entry;
    try {
      entry.dtype = value.at("dtype").get<std::string>();
      entry.shape = value.at("shape").get<std::vector<int64_t>>();
      const auto offsets = value.at("data_offsets").get<std::vector<uint64_t>>();
      if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > size - data_begin_)
        refuse(fmt::format("tensor \"{}\": expected bytes within the {} behind the header, got [{}]", name,
                           size - data_begin_, fmt::join(offsets, ", ")));
      entry.begin = offsets[0];
      entry.bytes = offsets[1] - offsets[0];
    } catch (const json::exception&) {
      refuse(fmt::format("tensor \"{}\": expected dtype, shape and data_offsets, got {}", name,
                         value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80)));
    }
    if (entry.shape.size() > kMaxAxes)
      refuse(fmt::format("tensor \"{}\": expected at most {} axes, got {}", name, kMaxAxes, entry.shape.size()));
    uint64_t values = 1;
    for (const int64_t side : entry.shape) {
      if (side < 1 || static_cast<uint64_t>(side) > kMaxValues / values)
        refuse(fmt::format("tensor \"{}\": expected sides above 0, got [{}]", name, fmt::join(entry.shape, ", ")));
      values *= static_cast<uint64_t>(side);
    }
    if (const uint64_t each = item_bytes(entry.dtype); each > 0 && values * each != entry.bytes)
      refuse(fmt::format("tensor \"{}\": expected {} bytes for {} values of {}, got {}", name, values * each, values,
                         entry.dtype, entry.bytes));
    entries_.emplace(name, std::move(entry));
  }
}

const TensorFile::Entry& TensorFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& [other, of] : entries_) names.push_back(other);
    refuse(fmt::format("expected a tensor \"{}\", got {}", name,
                       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  };
  return found->second;
}

std::vector<float> TensorFile::read(const std::string& name) {
  const Entry& from = entry(name);
  const uint64_t each = item_bytes(from.dtype);
  if (each == 0) refuse(fmt::format("tensor \"{}\": expected F32, F16 or BF16, got {}", name, from.dtype));
  std::string bytes(from.bytes, '\0');
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(data_begin_ + from.begin));
  if (!in_.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    refuse(fmt::format("tensor \"{}\": expected {} bytes, got the end of the file", name, from.bytes));
  std::vector<float> values(from.bytes / each);
  for (size_t i = 0; i < values.size(); ++i) {
    if (each == 4) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
    } else {
      uint16_t bits;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      values[i] = from.dtype == "BF16" ? widened_bf16(bits) : widened_f16(bits);
    }
    if (!std::isfinite(values[i]))
      refuse(fmt::format("tensor \"{}\": expected finite values, got {} as value {}", name, values[i], i));
  }
  return values;
}

std::vector<std::string> TensorFile::beginning(const std::string& prefix) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_)
    if (name.starts_with(prefix)) names.push_back(name);
  return names;
}

std::vector<std::string> TensorFile::others(const std::vector<std::string>& known, const std::string& prefix) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_)
    if (!name.starts_with(prefix) && std::find(known.begin(), known.end(), name) == known.end()) names.push_back(name);
  return names;
}

}  // namespace lf::diffusion
