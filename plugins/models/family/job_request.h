// What a family's processor takes from the request that lf_model_api::create is given.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace lf::family {

struct JobRequest {
  std::filesystem::path model;      // model.path; empty where there is a config alone
  std::filesystem::path tokenizer;  // model.tokenizer, else model.path
  nlohmann::json data;              // [data]; an empty object where there is none
  std::string chat_template;        // data.chat_template; empty where unset
  bool has_samples = false;         // data.path names some: what they need is opened before the first of them
};

JobRequest read_request(const nlohmann::json& request);

// Empty where `object` has no string there.
std::string text_at(const nlohmann::json& object, const char* key);

}  // namespace lf::family
