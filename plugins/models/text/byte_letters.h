// The alphabet of byte-level vocabularies: each of the 256 bytes is written as one printable letter, so that vocabulary
// files are text. Printable Latin-1 letters stand for themselves, the others for U+0100 onwards in the order of the
// bytes. Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), the encoder published
// with it.
#pragma once

#include <string>
#include <string_view>

namespace lf::text {

// Appends to `bytes` what a vocabulary entry spells. False where it holds a letter outside the alphabet (a space, a
// word of another kind: such an entry is never reached from bytes), and `bytes` stays. `letters` is valid UTF-8.
bool append_bytes_of_letters(std::string_view letters, std::string& bytes);

}  // namespace lf::text
