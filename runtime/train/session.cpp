#include "train/session.h"

#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "config/config.h"
#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(Exit::kInputMissing, "{}: cannot be read; model.path or model.config names it", file.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string config_text(const JobConfig& config) {
  return read_text(config.model.path.empty() ? config.model.config : config.model.path / "config.json");
}

nlohmann::json option(const JobConfig& config, const char* name) {
  return nlohmann::json::parse(option_json(config, name).value_or("null"));
}

// What lf_model_api.create gets.
std::string model_request(const JobConfig& config, const std::string& model_config, const std::string& losses) {
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(model_config);
  } catch (const nlohmann::json::exception& error) {
    fail(Exit::kConfig, "{}: not JSON: {}",
         (config.model.path.empty() ? config.model.config : config.model.path / "config.json").string(), error.what());
  }
  nlohmann::json request = {{"config", std::move(parsed)},
                            {"options", option(config, "model")},
                            {"data", option(config, "data")},
                            {"seed", config.job.seed},
                            {"path", nullptr},
                            {"tokenizer", nullptr}};
  if (!config.model.path.empty()) request["path"] = config.model.path.string();
  if (const auto folder = tokenizer_folder(config); !folder.empty()) request["tokenizer"] = folder.string();
  if (!losses.empty()) request["losses"] = nlohmann::json::parse(losses);
  return request.dump();
}

std::unique_ptr<Device> open_device(const JobConfig& config, PluginSet& plugins, const Host& host, int local_rank) {
  Plugin& plugin = plugins.load(PluginKind::kDevice, config.device.name);
  plugin.start(host.table());
  auto device = std::make_unique<Device>(plugin.interface<lf_device_api>(LF_DEVICE_INTERFACE), plugin.id(),
                                         static_cast<uint32_t>(local_rank));
  device->register_with_torch(LF_TORCH_BUILD, "");
  return device;
}

std::unique_ptr<Model> open_model(const JobConfig& config, PluginSet& plugins, const Host& host,
                                  const std::string& request) {
  Plugin& plugin = plugins.load(PluginKind::kModel, config.model.family);
  plugin.start(host.table());
  return std::make_unique<Model>(plugin.interface<lf_model_api>(LF_MODEL_INTERFACE), plugin.id(), host.table(),
                                 request);
}

std::unique_ptr<Policy> open_policy(const JobConfig& config, PluginSet& plugins, const Host& host) {
  Plugin& plugin = plugins.load(PluginKind::kBalancer, config.balance.policy);
  plugin.start(host.table());
  return std::make_unique<Policy>(plugin.id(), plugin.interface<lf_balancer_api>(LF_BALANCER_INTERFACE), host.table(),
                                  option(config, "balance.options").dump());
}

}  // namespace

Session::Session(const JobConfig& job, const SessionOptions& options)
    : config(job),
      model_config(options.model_config.empty() ? config_text(job) : options.model_config),
      media(job.data.media_root.empty() ? std::filesystem::current_path() : job.data.media_root,
            job.data.max_decoded_pixels),
      parallel(host),
      plugins(job.plugin_dirs, PluginHost{.torch_build = LF_TORCH_BUILD}, options.probe_plugins) {
  media.offer_to(host);
  host.answer_options([&job](std::string_view name) { return option_json(job, name).value_or(""); });
  if (options.open_device) device = open_device(job, plugins, host, options.local_rank);
  model = open_model(job, plugins, host, model_request(job, model_config, options.losses_json));
  if (options.open_policy) policy = open_policy(job, plugins, host);
}

std::filesystem::path tokenizer_folder(const JobConfig& config) {
  return config.model.tokenizer.empty() ? config.model.path : config.model.tokenizer;
}

int32_t compute_dtype(const JobConfig& config) {
  return config.precision.compute == "bf16" ? LF_DTYPE_BF16 : LF_DTYPE_F32;
}

}  // namespace lf
