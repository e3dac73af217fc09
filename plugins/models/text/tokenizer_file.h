// What a tokenizer.json says, checked. The format is that of the `tokenizers` library; byte-level BPE is what is read,
// and whatever else a file asks for is refused by its name.
#pragma once

#include <filesystem>
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
  bool ignore_merges = false;  // a word that is in the vocabulary is that token, whatever the merges would give
  std::vector<AddedToken> added;
};

// Not read, since they touch nothing that encode and decode do: truncation, padding (of batches), post_processor (adds
// tokens around a text; templates do that here). Throws sdk::Failure: LF_E_DATA for a file that is not well formed,
// LF_E_UNSUPPORTED for one that asks for something else; the message names the file and the place in it.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);
TokenizerFile parse_tokenizer(std::string_view json, std::string_view name);

}  // namespace lf::text
