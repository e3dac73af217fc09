// The alphabet of byte-level vocabularies: each of the 256 bytes is written as one printable letter, so that vocabulary
// files are text. Printable Latin-1 letters stand for themselves, the others for U+0100 onwards in the order of the
// bytes. Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), the encoder published
// with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lf::text {

// The bytes that a vocabulary entry spells, or nothing where it holds a letter outside the alphabet (a space, a word of
// another kind: such an entry is never reached from bytes). `letters` is valid UTF-8.
std::optional<std::string> bytes_of_letters(std::string_view letters);

}  // namespace lf::text
