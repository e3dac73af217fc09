// The vendor's collectives as pointers and numbers. Its header is C++ and not ours to have, so neither the names in the
// library nor the numbers of its enumerations are known when this plugin is built. In order:
//   1. liblf_bkcl_shim.so beside the libraries, or named by LF_KUNLUN_BKCL_SHIM: it was compiled against the header.
//   2. LF_KUNLUN_BKCL_NUMBERS, the numbers as the header has them ("BKCL_UNIQUE_ID_BYTES=...,BKCL_FLOAT=...,..."); the
//      functions then by their plain names, or by their mangled ones.
// Otherwise collectives are refused: a guessed number is a wrong sum.
#pragma once

#include <string>

#include "shim/bkcl_shim.h"
#include "vendor/installation.h"

namespace lf::kunlun {

struct Bkcl {
  lf_bkcl table;
  std::string how;  // "shim ...", "C names", "C++ names": for logs
};

// Opens the library on first use. Throws LF_E_UNSUPPORTED with what was tried and what to do.
Bkcl open_bkcl(const Installation& installation, const Environment& environment);

}  // namespace lf::kunlun
