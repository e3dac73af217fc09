// What a tokenizer.json says, checked. The format is that of the `tokenizers` library; two kinds are read, byte-level
// BPE (GPT-2's, Qwen's) and BPE over letters as SentencePiece has it (Gemma's); whatever else a file asks for is
// refused by its name.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "text/added_tokens.h"
#include "text/merge_table.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace lf::text {

struct TokenizerFile {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Vocabulary vocabulary;  // the model's and the added tokens'
  MergeTable merges;
  // BPE over letters: words begin as letters of the vocabulary, and of a letter that is not in it as the tokens of its
  // bytes, "<0x00>" to "<0xFF>" (model.byte_fallback). Blanks are written as `blank`. Otherwise all words begin as
  // bytes.
  struct Letters {
    TokenId byte_tokens[256];
    std::string blank;
  };
  std::optional<Letters> letters;
  bool ignore_merges = false;  // a word that is in the vocabulary is that token, whatever the merges would give
  std::vector<AddedToken> added;
};

// Not read, since they touch nothing that encode and decode do: truncation, padding (of batches), post_processor (adds
// tokens around a text; templates do that here). Throws sdk::Failure: LF_E_DATA for a file that is not well formed,
// LF_E_UNSUPPORTED for one that asks for something else; the message names the file and the place in it.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);
TokenizerFile parse_tokenizer(std::string_view json, std::string_view name);

}  // namespace lf::text
