#include "weights/opening.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lf {
namespace {

using nlohmann::json;

std::string text_at(const json& root, const char* name) {
  if (!root.is_object() || !root.contains(name)) return "";
  const json& value = root[name].is_array() && !root[name].empty() ? root[name].front() : root[name];
  return value.is_string() ? value.get<std::string>() : "";
}

// What "M" is imported as.
std::string import_of(const json& root) {
  const std::string diffusion = text_at(root, "_class_name");
  if (diffusion == "WanModel") return "from wan.modules.model import WanModel";  // Wan-Video/Wan2.2
  if (!diffusion.empty()) return "from diffusers import " + diffusion;
  const std::string architecture = text_at(root, "architectures");
  if (architecture.ends_with("ForCausalLM")) return "from transformers import AutoModelForCausalLM";
  if (architecture.ends_with("ForConditionalGeneration")) return "from transformers import AutoModelForImageTextToText";
  if (architecture == "InternVLChatModel") return "from transformers import AutoModel";
  return "";
}

}  // namespace

std::string opening_command(std::string_view config_json, const std::filesystem::path& directory) {
  const json root = json::parse(config_json, nullptr, false);
  const std::string import = import_of(root);
  if (import.empty()) return "";
  // The authors of InternVL publish their classes beside the weights.
  const char* more = text_at(root, "architectures") == "InternVLChatModel" ? ", trust_remote_code=True" : "";
  return fmt::format("python -c \"{} as M; M.from_pretrained('{}'{})\"", import, directory.string(), more);
}

}  // namespace lf
