#include "text/tokenizer_file.h"

#include <algorithm>
#include <future>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <simdjson.h>

#include "lf/plugin_sdk/guard.hpp"
#include "text/byte_letters.h"

namespace lf::text {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kLongestFile = 512 << 20;
constexpr int kDeepest = 16;  // sequences within sequences

// GPT-2's own splitting, which ByteLevel does where use_regex is set.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

[[noreturn]] void malformed(const std::string& place, std::string_view expected) {
  throw sdk::Failure(LF_E_DATA,
                     fmt::format("{}: expected {}; the file is damaged or not a tokenizer.json", place, expected));
}
[[noreturn]] void unsupported(const std::string& place, std::string_view what) {
  throw sdk::Failure(LF_E_UNSUPPORTED,
                     fmt::format("{}: {} is not offered; BPE tokenizers over bytes (Qwen's) and over letters with byte "
                                 "fallback (Gemma's) are read",
                                 place, what));
}

// One object of the file and where it stands.
struct Node {
  dom::object object;
  std::string place;

  Node(dom::element element, std::string at) : place(std::move(at)) {
    if (element.get(object) != simdjson::SUCCESS) malformed(place, "an object");
  }
  std::string at(std::string_view key) const {
    return fmt::format("{}{}{}", place, place.ends_with(':') ? " " : ".", key);
  }
  bool has(std::string_view key) const {  // a null counts as absent
    dom::element found;
    return object.at_key(key).get(found) == simdjson::SUCCESS && !found.is_null();
  }
  dom::element get(std::string_view key) const {
    dom::element found;
    if (object.at_key(key).get(found) != simdjson::SUCCESS) malformed(at(key), "a value, got nothing");
    return found;
  }
  Node child(std::string_view key) const { return Node(get(key), at(key)); }
  std::string_view text(std::string_view key) const {
    std::string_view value;
    if (get(key).get(value) != simdjson::SUCCESS) malformed(at(key), "a string");
    return value;
  }
  bool flag(std::string_view key, bool otherwise) const {
    if (!has(key)) return otherwise;
    bool value = false;
    if (get(key).get(value) != simdjson::SUCCESS) malformed(at(key), "true or false");
    return value;
  }
  dom::array list(std::string_view key) const {
    dom::array value;
    if (get(key).get(value) != simdjson::SUCCESS) malformed(at(key), "a list");
    return value;
  }
  void only(std::initializer_list<std::string_view> known) const {
    for (const auto field : object)
      if (std::find(known.begin(), known.end(), field.key) == known.end() && !field.value.is_null())
        unsupported(at(field.key), "this key");
  }
};

void read_normalizer(const Node& node, Normalizer& out, int depth = 0) {
  const std::string_view type = node.text("type");
  if (depth > kDeepest) unsupported(node.place, "nesting this deep");
  if (type == "Sequence") {
    node.only({"type", "normalizers"});
    size_t i = 0;
    for (const dom::element inner : node.list("normalizers"))
      read_normalizer(Node(inner, fmt::format("{}.normalizers[{}]", node.place, i++)), out, depth + 1);
    return;
  }
  if (type == "Replace") {
    node.only({"type", "pattern", "content"});
    const Node pattern = node.child("pattern");
    pattern.only({"String"});
    const std::string_view from = pattern.text("String");
    if (from.empty()) malformed(pattern.at("String"), "a text");
    return out.replace(std::string(from), std::string(node.text("content")));
  }
  node.only({"type"});
  if (type == "NFC") return out.add(NormalForm::kNfc);
  if (type == "NFD") return out.add(NormalForm::kNfd);
  if (type == "NFKC") return out.add(NormalForm::kNfkc);
  if (type == "NFKD") return out.add(NormalForm::kNfkd);
  unsupported(node.at("type"), fmt::format("the normalizer {:?}", std::string(type)));
}

Cut read_cut(const Node& node) {
  const std::string_view name = node.text("behavior");
  if (name == "Removed") return Cut::kRemoved;
  if (name == "Isolated") return Cut::kIsolated;
  if (name == "Contiguous") return Cut::kContiguous;
  if (name == "MergedWithPrevious") return Cut::kWithPrevious;
  if (name == "MergedWithNext") return Cut::kWithNext;
  unsupported(node.at("behavior"), fmt::format("{:?}", std::string(name)));
}

Pattern read_pattern(const Node& node) {
  const Node pattern = node.child("pattern");
  pattern.only({"Regex", "String"});
  try {
    if (pattern.has("Regex")) return Pattern(pattern.text("Regex"));
    return Pattern(quote(pattern.text("String")));
  } catch (const sdk::Failure& failure) {
    throw sdk::Failure(failure.code(), fmt::format("{}: {}", pattern.place, failure.what()));
  }
}

// Returns whether bytes became letters in the end, as byte-level vocabularies need.
bool read_pre_tokenizer(const Node& node, PreTokenizer& out, int depth = 0) {
  const std::string_view type = node.text("type");
  if (depth > kDeepest) unsupported(node.place, "nesting this deep");
  if (type == "Sequence") {
    node.only({"type", "pretokenizers"});
    bool byte_level = false;
    size_t i = 0;
    for (const dom::element inner : node.list("pretokenizers")) {
      const std::string place = fmt::format("{}.pretokenizers[{}]", node.place, i++);
      if (byte_level) unsupported(place, "a stage after ByteLevel");
      byte_level = read_pre_tokenizer(Node(inner, place), out, depth + 1);
    }
    return byte_level;
  }
  if (type == "Split") {
    node.only({"type", "pattern", "behavior", "invert"});
    out.add_split(read_pattern(node), read_cut(node), node.flag("invert", false));
    return false;
  }
  if (type == "Digits") {
    node.only({"type", "individual_digits"});
    out.add_split(Pattern(R"(\p{N})"), node.flag("individual_digits", false) ? Cut::kIsolated : Cut::kContiguous,
                  false);
    return false;
  }
  if (type == "ByteLevel") {
    node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (node.flag("add_prefix_space", true)) out.add_prefix_space();
    if (node.flag("use_regex", true)) out.add_split(Pattern(kByteLevelPattern), Cut::kIsolated, false);
    return true;
  }
  unsupported(node.at("type"), fmt::format("the pre-tokenizer {:?}", std::string(type)));
}

TokenId read_id(dom::element element, const std::string& place) {
  int64_t id = 0;
  if (element.get(id) != simdjson::SUCCESS || id < 0 || id >= Vocabulary::kMaxId)
    malformed(place, fmt::format("a token id from 0 to {}", Vocabulary::kMaxId - 1));
  return static_cast<TokenId>(id);
}

// The byte of "<0x1F>", or -1.
int byte_of_fallback(std::string_view entry) {
  if (entry.size() != 6 || !entry.starts_with("<0x") || entry[5] != '>') return -1;
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  const int high = digit(entry[3]), low = digit(entry[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// Of letters: each entry spells what it says, but for the bytes' own.
void read_letters(const Node& model, TokenizerFile& out) {
  dom::object entries;
  if (model.get("vocab").get(entries) != simdjson::SUCCESS) malformed(model.at("vocab"), "an object");
  out.vocabulary = Vocabulary(entries.size());
  std::fill(std::begin(out.letters->byte_tokens), std::end(out.letters->byte_tokens), -1);
  for (const auto entry : entries) {
    const std::string place = fmt::format("{}[{:?}]", model.at("vocab"), std::string(entry.key));
    const TokenId id = read_id(entry.value, place);
    const int byte = byte_of_fallback(entry.key);
    const char spelt = static_cast<char>(byte);
    if (byte >= 0) out.letters->byte_tokens[byte] = id;
    if (!out.vocabulary.add(id, byte >= 0 ? std::string_view(&spelt, 1) : entry.key, byte < 0))
      malformed(place, fmt::format("an id and a spelling of its own, but {} or the spelling occurs twice", id));
  }
  for (int byte = 0; byte < 256; ++byte)
    if (out.letters->byte_tokens[byte] < 0) malformed(model.at("vocab"), fmt::format("a token \"<0x{:02X}>\"", byte));
}

void read_vocabulary(const Node& model, Vocabulary& out) {
  dom::object entries;
  if (model.get("vocab").get(entries) != simdjson::SUCCESS) malformed(model.at("vocab"), "an object");
  out = Vocabulary(entries.size());
  std::string spelt;
  for (const auto entry : entries) {
    const auto place = [&] { return fmt::format("{}[{:?}]", model.at("vocab"), std::string(entry.key)); };
    int64_t id = -1;
    if (entry.value.get(id) != simdjson::SUCCESS || id < 0 || id >= Vocabulary::kMaxId) read_id(entry.value, place());
    spelt.clear();
    const bool reachable = append_bytes_of_letters(entry.key, spelt);
    if (!out.add(static_cast<TokenId>(id), reachable ? spelt : entry.key, reachable))
      malformed(place(), fmt::format("an id and a spelling of its own, but {} or the spelling occurs twice", id));
  }
}

// The two parts of a merge as the file has them, "left right" or ["left", "right"].
std::pair<std::string_view, std::string_view> read_merge(const dom::element& entry, auto&& place) {
  std::string_view left, right;
  if (entry.is_array()) {
    dom::array parts;
    if (entry.get(parts) != simdjson::SUCCESS || parts.size() != 2 || parts.at(0).get(left) != simdjson::SUCCESS ||
        parts.at(1).get(right) != simdjson::SUCCESS)
      malformed(place(), "two strings");
    return {left, right};
  }
  std::string_view line;
  if (entry.get(line) != simdjson::SUCCESS) malformed(place(), "two strings");
  const size_t blank = line.find(' ');
  if (blank == line.npos || line.find(' ', blank + 1) != line.npos) malformed(place(), "two words and one blank");
  return {line.substr(0, blank), line.substr(blank + 1)};
}

std::string place_of_merge(const Node& model, size_t rank) { return fmt::format("{}[{}]", model.at("merges"), rank); }

// What the merges say, before it is known which tokens those are.
struct SpeltMerges {
  std::string text;          // left, right, left, ... one after another: a merge's result is there too
  std::vector<size_t> ends;  // of each part in it

  size_t size() const { return ends.size() / 2; }
  std::string_view result(size_t rank) const {
    const size_t begin = rank == 0 ? 0 : ends[2 * rank - 1];
    return std::string_view(text).substr(begin, ends[2 * rank + 1] - begin);
  }
  size_t left_bytes(size_t rank) const { return ends[2 * rank] - (rank == 0 ? 0 : ends[2 * rank - 1]); }
};

SpeltMerges spell_merges(const Node& model, bool over_letters) {
  const dom::array list = model.list("merges");
  SpeltMerges out;
  out.ends.reserve(2 * list.size());  // which saturates at 2^24
  out.text.reserve(16 * list.size());
  size_t rank = 0;
  for (const dom::element entry : list) {
    const auto place = [&] { return place_of_merge(model, rank); };
    const auto [left, right] = read_merge(entry, place);
    for (const std::string_view part : {left, right}) {
      if (over_letters)
        out.text += part;
      else if (!append_bytes_of_letters(part, out.text))
        malformed(place(), "letters of the byte alphabet");
      out.ends.push_back(out.text.size());
    }
    ++rank;
  }
  return out;
}

struct MergeIds {
  TokenId left = -1, right = -1, merged = -1;  // -1: no token is spelt so
};

// Of the merges from `first` on, as many as `out` has room for.
void find_merges(const SpeltMerges& merges, const Vocabulary& vocabulary, size_t first, std::span<MergeIds> out) {
  constexpr size_t kBatch = 512;
  std::vector<std::string_view> wanted;
  std::vector<TokenId> ids(3 * kBatch);
  for (size_t done = 0; done < out.size(); done += kBatch) {
    const size_t n = std::min(kBatch, out.size() - done);
    wanted.clear();
    for (size_t i = 0; i < n; ++i) {
      const std::string_view result = merges.result(first + done + i);
      const size_t left = merges.left_bytes(first + done + i);
      wanted.insert(wanted.end(), {result.substr(0, left), result.substr(left), result});
    }
    vocabulary.find_all(wanted, std::span(ids).first(3 * n));
    for (size_t i = 0; i < n; ++i) out[done + i] = {ids[3 * i], ids[3 * i + 1], ids[3 * i + 2]};
  }
}

void read_merges(const Node& model, const Vocabulary& vocabulary, const SpeltMerges& merges, MergeTable& out) {
  std::vector<MergeIds> ids(merges.size());
  const std::span<MergeIds> all(ids);
  const size_t half = ids.size() / 2;
  auto second = std::async([&] { find_merges(merges, vocabulary, half, all.subspan(half)); });
  find_merges(merges, vocabulary, 0, all.first(half));
  second.get();
  out = MergeTable(merges.size());
  for (size_t rank = 0; rank < ids.size(); ++rank) {
    const auto [left, right, merged] = ids[rank];
    if (left < 0 || right < 0 || merged < 0) {
      std::string_view left_text, right_text;
      std::tie(left_text, right_text) = read_merge(model.list("merges").at(rank), [] { return std::string(); });
      malformed(place_of_merge(model, rank),
                fmt::format("parts and a result in the vocabulary, but {:?} is not",
                            std::string(left < 0    ? left_text
                                        : right < 0 ? right_text
                                                    : std::string(left_text) + std::string(right_text))));
    }
    if (!out.add(left, right, merged)) malformed(place_of_merge(model, rank), "each merge once");
  }
}

void read_model(const Node& node, TokenizerFile& out) {
  if (node.has("type") && node.text("type") != "BPE")
    unsupported(node.at("type"), fmt::format("the model {:?}", std::string(node.text("type"))));
  node.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
             "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (node.has("dropout")) {
    double dropout = 0;
    if (node.get("dropout").get(dropout) != simdjson::SUCCESS || dropout != 0)
      unsupported(node.at("dropout"), "dropping merges");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (node.has(key) && !node.text(key).empty()) unsupported(node.at(key), "a mark on word pieces");
  out.ignore_merges = node.flag("ignore_merges", false);
  // Most of a start without weights is spent here, so two threads share it.
  auto merges =
      std::async([&node, over_letters = out.letters.has_value()] { return spell_merges(node, over_letters); });
  if (out.letters) {
    read_letters(node, out);
  } else {
    read_vocabulary(node, out.vocabulary);
  }
  read_merges(node, out.vocabulary, merges.get(), out.merges);
}

void read_added(const Node& root, TokenizerFile& out) {
  if (!root.has("added_tokens")) return;
  size_t i = 0;
  for (const dom::element element : root.list("added_tokens")) {
    const Node node(element, fmt::format("{}[{}]", root.at("added_tokens"), i++));
    node.only({"id", "content", "special", "normalized", "lstrip", "rstrip", "single_word"});
    AddedToken token;
    token.content = node.text("content");
    token.id = read_id(node.get("id"), node.at("id"));
    token.special = node.flag("special", false);
    token.normalized = node.flag("normalized", !token.special);
    token.lstrip = node.flag("lstrip", false);
    token.rstrip = node.flag("rstrip", false);
    token.single_word = node.flag("single_word", false);
    if (token.content.empty()) malformed(node.at("content"), "a text");
    for (const AddedToken& other : out.added)
      if (other.content == token.content) malformed(node.at("content"), "a text of its own");
    // The model's vocabulary may list it too, then under the same id and with the same spelling.
    if (!out.vocabulary.holds(token.id)) {
      if (out.vocabulary.find(token.content))
        malformed(node.at("id"), fmt::format("the id that the vocabulary gives to {:?}", token.content));
      out.vocabulary.add(token.id, token.content, false);
    } else if (out.vocabulary.bytes(token.id) != token.content) {
      malformed(node.at("id"), fmt::format("an id of its own, but {} is another token", token.id));
    }
    out.added.push_back(std::move(token));
  }
}

// Of letters: blanks back from what stands for them, bytes from their tokens, all in one.
std::string read_letters_decoder(const Node& decoder) {
  decoder.only({"type", "decoders"});
  std::string blank;
  size_t i = 0;
  for (const dom::element element : decoder.list("decoders")) {
    const Node stage(element, fmt::format("{}[{}]", decoder.at("decoders"), i++));
    const std::string_view type = stage.text("type");
    if (type == "Replace" && stage.text("content") == " " && blank.empty()) {
      blank = stage.child("pattern").text("String");
    } else if (type != "ByteFallback" && type != "Fuse") {
      unsupported(stage.at("type"), fmt::format("the decoder {:?}", std::string(type)));
    }
  }
  return blank;
}

void read_decoder(const Node& root, TokenizerFile& out) {
  if (!root.has("decoder")) unsupported(root.at("decoder"), "a tokenizer without a decoder");
  const Node decoder = root.child("decoder");
  if (out.letters && decoder.text("type") == "Sequence") {
    out.letters->blank = read_letters_decoder(decoder);
    return;
  }
  if (out.letters || decoder.text("type") != "ByteLevel")
    unsupported(decoder.at("type"), fmt::format("the decoder {:?}", std::string(decoder.text("type"))));
}

TokenizerFile read_root(dom::element element, std::string_view name) {
  const Node root(element, std::string(name) + ":");
  root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
             "decoder", "model"});
  TokenizerFile out;
  if (root.has("normalizer")) read_normalizer(root.child("normalizer"), out.normalizer);
  const Node model = root.child("model");
  if (model.flag("byte_fallback", false)) out.letters.emplace();
  const bool byte_level =
      root.has("pre_tokenizer") && read_pre_tokenizer(root.child("pre_tokenizer"), out.pre_tokenizer);
  if (byte_level && out.letters) unsupported(model.at("byte_fallback"), "byte fallback beside ByteLevel");
  if (!byte_level && !out.letters)
    unsupported(root.at("pre_tokenizer"), "a tokenizer without ByteLevel and without model.byte_fallback");
  read_decoder(root, out);
  read_model(model, out);
  read_added(root, out);
  return out;
}

[[noreturn]] void unreadable(std::string_view name, simdjson::error_code error) {
  throw sdk::Failure(LF_E_DATA,
                     fmt::format("{}: expected a tokenizer.json, got: {}", name, simdjson::error_message(error)));
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error)
    throw sdk::Failure(LF_E_DATA,
                       fmt::format("{}: {}; expected the tokenizer of the model, set model.tokenizer to its folder",
                                   path.string(), error.message()));
  if (size > kLongestFile)
    throw sdk::Failure(LF_E_DATA, fmt::format("{}: {} bytes, expected at most {}", path.string(), size, kLongestFile));
  dom::parser parser(kLongestFile);
  dom::element root;
  if (const auto failed = parser.load(path.string()).get(root)) unreadable(path.string(), failed);
  return read_root(root, path.string());
}

TokenizerFile parse_tokenizer(std::string_view json, std::string_view name) {
  dom::parser parser;
  dom::element root;
  if (const auto failed = parser.parse(json.data(), json.size()).get(root)) unreadable(name, failed);
  return read_root(root, name);
}

}  // namespace lf::text
