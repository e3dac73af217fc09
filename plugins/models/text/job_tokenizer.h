// The tokenizer that a job names: whatever is wrong with it is the job's fault, and no sample's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "lf/plugin_api/abi.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::text {

// make(folder / "tokenizer.json"). What it throws of its own (sdk::Failure) comes out as LF_E_INVALID that begins with
// "model.tokenizer: ", and so does a folder that is not set: a sample has text.
template <typename Make>
auto open_job_tokenizer(const std::filesystem::path& folder, Make&& make) {
  constexpr std::string_view kPlace = "tokenizer: ";  // as messages of chats begin
  if (folder.empty())
    throw sdk::Failure(LF_E_INVALID,
                       "model.tokenizer: expected the folder of a tokenizer.json, got none: samples have text; set it");
  try {
    return std::forward<Make>(make)(folder / "tokenizer.json");
  } catch (const sdk::Failure& failure) {
    std::string_view said = failure.what();
    if (said.starts_with(kPlace)) said.remove_prefix(kPlace.size());
    throw sdk::Failure(LF_E_INVALID, "model.tokenizer: " + std::string(said));
  }
}

}  // namespace lf::text
