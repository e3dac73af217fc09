#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "core/error.h"
#include "weights/safetensors.h"

namespace lf {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // as the reference library
constexpr size_t kMaxAxes = 64;

// Builds entries from the parser's events. Everything that is not the one expected shape is refused at once, so nesting
// cannot grow.
class HeaderEvents {
 public:
  HeaderEvents(const std::string& place, std::vector<TensorEntry>& tensors,
               std::map<std::string, std::string>& metadata)
      : place_(place), tensors_(tensors), metadata_(metadata) {}

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(int64_t value) { return unexpected(fmt::format("the number {}", value)); }
  bool number_float(double, const std::string& text) { return unexpected("the number " + printable(text)); }
  bool binary(nlohmann::json::binary_t&) { return unexpected("binary"); }

  bool number_unsigned(uint64_t value) {
    if (level_ != Level::kArray || value > static_cast<uint64_t>(INT64_MAX))
      return unexpected(fmt::format("the number {}", value));
    if (field_ == Field::kShape) {
      if (tensors_.back().shape.size() == kMaxAxes) refuse("at most {} axes, got more", kMaxAxes);
      tensors_.back().shape.push_back(static_cast<int64_t>(value));
    } else {
      if (n_offsets_ == 2) refuse("two data_offsets, got more");
      (n_offsets_++ == 0 ? tensors_.back().begin : tensors_.back().end) = value;
    }
    return true;
  }

  bool string(std::string& value) {
    if (level_ == Level::kMetadata) {
      if (!metadata_.emplace(key_, value).second)
        fail(Exit::kBadData, "{}: __metadata__: expected each key once, got \"{}\" twice", place_, printable(key_));
      return true;
    }
    if (level_ != Level::kTensor || field_ != Field::kDtype) return unexpected("a string");
    const std::optional<DType> dtype = dtype_named(value);
    if (!dtype) refuse("a known dtype, got \"{}\"", printable(value));
    tensors_.back().dtype = *dtype;
    field_ = Field::kNone;
    return true;
  }

  bool start_object(size_t) {
    switch (level_) {
      case Level::kStart:
        level_ = Level::kRoot;
        return true;
      case Level::kRoot:
        if (key_ == "__metadata__") {
          if (has_metadata_) fail(Exit::kBadData, "{}: expected __metadata__ once, got it twice", place_);
          has_metadata_ = true;
          level_ = Level::kMetadata;
          return true;
        }
        tensors_.emplace_back().name = key_;
        seen_ = n_offsets_ = 0;
        field_ = Field::kNone;
        level_ = Level::kTensor;
        check_name();
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& name) {
    key_ = name;
    if (level_ != Level::kTensor) return true;
    field_ = name == "dtype"          ? Field::kDtype
             : name == "shape"        ? Field::kShape
             : name == "data_offsets" ? Field::kOffsets
                                      : Field::kNone;
    if (field_ == Field::kNone) refuse("only dtype, shape and data_offsets, got \"{}\"", printable(name));
    const unsigned bit = 1u << static_cast<unsigned>(field_);
    if ((seen_ & bit) != 0) refuse("{} once, got it twice", name);
    seen_ |= bit;
    return true;
  }

  bool end_object() {
    if (level_ == Level::kTensor) {
      if (seen_ != 0b1110) refuse("dtype, shape and data_offsets, got fewer");
      if (n_offsets_ != 2) refuse("two data_offsets, got {}", n_offsets_);
    }
    level_ = level_ == Level::kRoot ? Level::kEnd : Level::kRoot;
    return true;
  }

  bool start_array(size_t) {
    if (level_ != Level::kTensor || (field_ != Field::kShape && field_ != Field::kOffsets)) return unexpected("a list");
    level_ = Level::kArray;
    return true;
  }

  bool end_array() {
    level_ = Level::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    std::string_view text = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 5: ..."
    if (const size_t colon = text.find(": "); colon != text.npos) text = text.substr(colon + 2);
    std::string shown(text.substr(0, 200));  // it quotes the input, which may be anything
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
    fail(Exit::kBadData, "{}: the header is no valid JSON at byte {}: {}", place_, kLengthBytes + position,
         printable(shown));
  }

 private:
  enum class Level { kStart, kRoot, kMetadata, kTensor, kArray, kEnd };
  enum class Field : unsigned { kNone = 0, kDtype = 1, kShape = 2, kOffsets = 3 };

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    fail(Exit::kBadData, "{}: tensor \"{}\": expected {}", place_, printable(tensors_.back().name),
         fmt::format(text, std::forward<Args>(args)...));
  }

  bool unexpected(std::string_view what) {
    if (level_ == Level::kStart) fail(Exit::kBadData, "{}: the header must be a JSON object, got {}", place_, what);
    fail(Exit::kBadData, "{}: unexpected {} in the header at \"{}\"{}", place_, what, printable(key_),
         level_ == Level::kTensor || level_ == Level::kArray
             ? fmt::format(" of tensor \"{}\"", printable(tensors_.back().name))
             : std::string());
  }

  void check_name() {
    const std::string& name = tensors_.back().name;
    if (name.empty()) refuse("a name, got none");
    if (name.find('\0') != name.npos || name.find('/') != name.npos) refuse("a name without NUL and '/'");
  }

  const std::string& place_;
  std::vector<TensorEntry>& tensors_;
  std::map<std::string, std::string>& metadata_;
  std::string key_;
  Level level_ = Level::kStart;
  Field field_ = Field::kNone;
  unsigned seen_ = 0;
  int n_offsets_ = 0;
  bool has_metadata_ = false;
};

// data_offsets, counted from the end of the header, become bytes of the file once they are known to tile it.
void check_offsets(const std::string& place, std::vector<TensorEntry>& tensors, uint64_t data_begin,
                   uint64_t file_size) {
  const auto earlier = [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  };
  if (!std::is_sorted(tensors.begin(), tensors.end(), earlier))
    std::stable_sort(tensors.begin(), tensors.end(), earlier);
  uint64_t at = 0;
  const TensorEntry* before = nullptr;
  for (TensorEntry& tensor : tensors) {
    const auto refuse = [&](const std::string& text) {
      fail(Exit::kBadData, "{}: tensor \"{}\": {}", place, printable(tensor.name), text);
    };
    if (tensor.end < tensor.begin)
      refuse(fmt::format("data_offsets run backwards, from {} to {}", tensor.begin, tensor.end));
    const std::optional<uint64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes)
      refuse(fmt::format("shape [{}] of {} cannot be counted in bytes", fmt::join(tensor.shape, ", "),
                         dtype_name(tensor.dtype)));
    if (*bytes != tensor.end - tensor.begin)
      refuse(fmt::format("expected {} bytes for shape [{}] of {}, got {}", *bytes, fmt::join(tensor.shape, ", "),
                         dtype_name(tensor.dtype), tensor.end - tensor.begin));
    if (tensor.begin != at)
      refuse(fmt::format("its data {} by {} bytes", tensor.begin < at ? "overlaps the tensor before" : "leaves a gap",
                         tensor.begin < at ? at - tensor.begin : tensor.begin - at) +
             (before != nullptr ? fmt::format(", \"{}\"", printable(before->name)) : ""));
    at = tensor.end;
    before = &tensor;
  }
  const uint64_t data = file_size - data_begin;
  if (at > data)
    fail(Exit::kBadData, "{}: expected {} bytes, got {}: the file is cut short within \"{}\"; fetch it again", place,
         fmt::group_digits(data_begin + at), fmt::group_digits(file_size), printable(before->name));
  if (at < data) fail(Exit::kBadData, "{}: {} bytes follow the last tensor", place, data - at);
  for (TensorEntry& tensor : tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
}

uint64_t name_hash(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

void append_json_string(std::string& out, std::string_view text) {
  out += nlohmann::json(text).dump();  // throws on invalid UTF-8
}

}  // namespace

SafetensorsHeader SafetensorsHeader::parse(const std::string& place, std::span<const std::byte> bytes,
                                           uint64_t file_size) {
  if (file_size < kLengthBytes || bytes.size() < kLengthBytes)
    fail(Exit::kBadData, "{}: expected a safetensors file, got {} bytes", place, file_size);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length < 2 || length > kMaxHeader)
    fail(Exit::kBadData, "{}: expected a header of 2 to {} bytes, got {}; is it a safetensors file?", place, kMaxHeader,
         length);
  if (length > file_size - kLengthBytes || length > bytes.size() - kLengthBytes)
    fail(Exit::kBadData, "{}: the header should have {} bytes, the file has {}: it is cut short; fetch it again", place,
         length, file_size);
  const char* json = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  if (json[0] != '{')
    fail(Exit::kBadData, "{}: expected the header to start with '{{', got \"{}\"; is it a safetensors file?", place,
         printable({json, 1}));
  // nlohmann's lexer takes a NUL for the end of its input.
  if (const void* nul = std::memchr(json, 0, length); nul != nullptr)
    fail(Exit::kBadData, "{}: the header has a NUL at byte {}", place,
         static_cast<const char*>(nul) - json + static_cast<ptrdiff_t>(kLengthBytes));

  SafetensorsHeader header;
  header.text_.assign(reinterpret_cast<const char*>(bytes.data()), kLengthBytes + length);
  HeaderEvents events(place, header.tensors_, header.metadata_);
  nlohmann::json::sax_parse(json, json + length, &events);
  header.file_size_ = file_size;
  check_offsets(place, header.tensors_, kLengthBytes + length, file_size);
  header.index_names(place);
  return header;
}

SafetensorsHeader SafetensorsHeader::plan(std::vector<TensorSpec> tensors,
                                          std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const int rank_a = dtype_rank(a.dtype), rank_b = dtype_rank(b.dtype);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (bool first = true; const auto& [key, value] : metadata) {
      if (!std::exchange(first, false)) json += ',';
      append_json_string(json, key);
      json += ':';
      append_json_string(json, value);
    }
    json += '}';
  }
  SafetensorsHeader header;
  uint64_t at = 0;
  for (TensorSpec& spec : tensors) {
    const std::optional<uint64_t> bytes = tensor_bytes(spec.dtype, spec.shape);
    if (!bytes)
      fail(Exit::kBug, "tensor {}: shape [{}] of {} cannot be counted in bytes", spec.name, fmt::join(spec.shape, ", "),
           dtype_name(spec.dtype));
    if (json.size() > 1) json += ',';
    append_json_string(json, spec.name);
    json += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", dtype_name(spec.dtype),
                        fmt::join(spec.shape, ","), at, at + *bytes);
    TensorEntry& entry = header.tensors_.emplace_back();
    static_cast<TensorSpec&>(entry) = std::move(spec);
    entry.begin = at;
    at = entry.end = at + *bytes;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t length = json.size();
  header.text_.assign(reinterpret_cast<const char*>(&length), sizeof length);
  header.text_ += json;
  header.metadata_ = std::move(metadata);
  header.file_size_ = header.text_.size() + at;
  for (TensorEntry& tensor : header.tensors_) {
    tensor.begin += header.text_.size();
    tensor.end += header.text_.size();
  }
  header.index_names("a planned file");
  return header;
}

void SafetensorsHeader::index_names(const std::string& place) {
  by_name_.reserve(tensors_.size());
  for (uint32_t i = 0; i < tensors_.size(); ++i) by_name_.emplace_back(name_hash(tensors_[i].name), i);
  std::sort(by_name_.begin(), by_name_.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : tensors_[a.second].name < tensors_[b.second].name;
  });
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), [&](const auto& a, const auto& b) {
    return a.first == b.first && tensors_[a.second].name == tensors_[b.second].name;
  });
  if (twice != by_name_.end())
    fail(Exit::kBadData, "{}: tensor \"{}\": expected each name once, got it twice", place,
         printable(tensors_[twice->second].name));
}

const TensorEntry* SafetensorsHeader::find(std::string_view name) const {
  const uint64_t hash = name_hash(name);
  auto found = std::lower_bound(by_name_.begin(), by_name_.end(), hash,
                                [](const auto& entry, uint64_t wanted) { return entry.first < wanted; });
  for (; found != by_name_.end() && found->first == hash; ++found) {
    if (tensors_[found->second].name == name) return &tensors_[found->second];
  }
  return nullptr;
}

std::string printable(std::string_view name) {
  constexpr size_t kLongest = 200;
  const auto is_inside_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; };
  size_t size = std::min(name.size(), kLongest);
  while (size < name.size() && size > 0 && is_inside_character(name[size])) --size;
  std::string out;
  for (const char c : name.substr(0, size)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return size < name.size() ? out + "..." : out;
}

}  // namespace lf
