// A tokenizer.json: one that is accepted encodes any text, and ordinary text comes back as it was.
#include "text/tokenizer.h"

#include "fuzz/target.h"
#include "lf/plugin_sdk/guard.hpp"
#include "text/tokenizer_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const lf::text::Tokenizer tokenizer(lf::text::parse_tokenizer(lf::fuzz::text_of(data, size), "tokenizer.json"));
    tokenizer.encode("Hello, w\xC3\xB6rld 123\n<|im_end|> \xF0\x9F\x98\x80");
  } catch (const lf::sdk::Failure& failure) {
    lf::fuzz::check_message(failure.what());
  }
  return 0;
}
