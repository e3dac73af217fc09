#include "family/job_request.h"

namespace lf::family {

using nlohmann::json;

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

JobRequest read_request(const json& request) {
  JobRequest out;
  out.model = text_at(request, "path");
  out.tokenizer = text_at(request, "tokenizer");
  if (out.tokenizer.empty()) out.tokenizer = out.model;
  const auto data = request.find("data");
  out.data = data != request.end() && data->is_object() ? *data : json::object();
  out.chat_template = text_at(out.data, "chat_template");
  const auto path = out.data.find("path");
  out.has_samples = path != out.data.end() && !path->empty();
  return out;
}

}  // namespace lf::family
