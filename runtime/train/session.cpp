#include "train/session.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include <ATen/Context.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"
#include "train/adapters.h"
#include "train/config_place.h"

namespace lf {
namespace {

std::filesystem::path config_file(const JobConfig& config) {
  return config.model.config.empty() && !config.model.path.empty() ? config.model.path / "config.json"
                                                                   : config.model.config;
}

nlohmann::json option(const JobConfig& config, const char* name) {
  return nlohmann::json::parse(option_json(config, name).value_or("null"));
}

// A model that has neither a folder nor a config.json is named in [model.options]: that table is its config.json.
std::string config_text(const JobConfig& config) {
  if (config.model.path.empty() && config.model.config.empty()) {
    nlohmann::json named = option(config, "model.options");
    named["model_type"] = config.model.family;
    return named.dump(2) + "\n";
  }
  const std::filesystem::path file = config_file(config);
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open() || in.bad())
    fail(exit_of_unreadable(errno), "{}: {}: cannot be read: {}",
         config.model.config.empty() ? "model.path" : "model.config", file.string(), std::strerror(errno));
  return text;
}

// nlohmann's messages begin with a tag of its own, "[json.exception.parse_error.101] ".
std::string after_tag(const std::string& message) {
  const size_t end = message.starts_with('[') ? message.find("] ") : std::string::npos;
  return end == std::string::npos ? message : message.substr(end + 2);
}

// What lf_model_api.create gets.
std::string model_request(const JobConfig& config, const std::string& model_config, const SessionOptions& options) {
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(model_config);
  } catch (const nlohmann::json::exception& error) {
    fail(Exit::kConfig, "{}: expected JSON, got: {}; write it again", config_file(config).string(),
         after_tag(error.what()));
  }
  nlohmann::json request = {{"config", std::move(parsed)},
                            {"options", option(config, "model")},
                            {"data", option(config, "data")},
                            {"seed", config.job.seed},
                            {"path", nullptr},
                            {"tokenizer", nullptr}};
  if (!config.model.path.empty()) request["path"] = config.model.path.string();
  // One that is not there has been told of: what else is wrong with the model is found without it.
  if (const auto folder = tokenizer_folder(config); !folder.empty() && !options.skip.contains("model.tokenizer"))
    request["tokenizer"] = folder.string();
  if (!options.losses_json.empty()) request["losses"] = nlohmann::json::parse(options.losses_json);
  if (!options.no_gradient_json.empty()) request["no_gradient"] = nlohmann::json::parse(options.no_gradient_json);
  return request.dump();
}

// Same job, same bits: on cards several of LibTorch's operators (index_add of a table's gradient among them) add in the
// order in which threads come, unless they are asked not to. Those that know no other way, such as the backward of
// fused attention, warn once and go on (docs/hardware.md). Before cuBLAS makes its first handle.
void ask_for_same_bits() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // we read no memory that nobody wrote
}

std::unique_ptr<Device> open_device(const JobConfig& config, PluginSet& plugins, const Host& host,
                                    const SessionOptions& options) {
  Plugin& plugin = plugins.load(PluginKind::kDevice, config.device.name);
  plugin.start(host.table());
  auto device = std::make_unique<Device>(plugin.interface<lf_device_api>(LF_DEVICE_INTERFACE), plugin.id(),
                                         static_cast<uint32_t>(options.local_rank), options.watch);
  if (!device->is_host()) ask_for_same_bits();
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

// Of the other installed families, those that take the job as it is but for model.family.
std::string who_takes_it(const JobConfig& config, PluginSet& plugins, const Host& host, const std::string& request) {
  std::vector<std::string> takers, tried;
  JobConfig other = config;
  for (const Candidate& candidate : list_plugins(config.plugins.dirs, plugin_host(config.plugins))) {
    if (!candidate.manifest || candidate.refusal || candidate.manifest->kind != PluginKind::kModel ||
        candidate.manifest->id == config.model.family)
      continue;
    other.model.family = candidate.manifest->id;
    tried.push_back(other.model.family);
    try {
      open_model(other, plugins, host, request);
      takers.push_back(other.model.family);
    } catch (const Error&) {  // each for its own reason, which is nobody's question
    }
  }
  return takers.empty() ? fmt::format("none of the other installed families takes it ({})", fmt::join(tried, ", "))
                        : fmt::format("of the installed families {} takes it", fmt::join(takers, " or "));
}

// open_model, with errors that name the file or the table which the job gives.
std::unique_ptr<Model> open_model_of_job(const JobConfig& config, PluginSet& plugins, const Host& host,
                                         const std::string& request) {
  try {
    return open_model(config, plugins, host, request);
  } catch (const Error& error) {
    std::string said = with_config_place(error.what(), config_file(config));
    if (said.find("family that knows") != std::string::npos)
      said += "; " + who_takes_it(config, plugins, host, request);
    throw Error(error.exit(), said);
  }
}

std::unique_ptr<Policy> open_policy(const JobConfig& config, PluginSet& plugins, const Host& host) {
  Plugin& plugin = plugins.load(PluginKind::kBalancer, config.balance.policy);
  plugin.start(host.table());
  const auto* api = plugin.interface<lf_balancer_api>(LF_BALANCER_INTERFACE);
  try {
    return std::make_unique<Policy>(plugin.id(), api, host.table(), option(config, "balance.options").dump());
  } catch (const Error& error) {  // policies may say themselves where their options stand
    constexpr std::string_view kPlace = "balance.options: ";
    std::string said = error.what();
    if (const size_t at = said.find(kPlace); at != std::string::npos) said.erase(at, kPlace.size());
    throw Error(error.exit(), std::string(kPlace) + said);
  }
}

}  // namespace

Session::Session(const JobConfig& job, const SessionOptions& options)
    : config(job),
      media(job.data.media_root.empty() ? std::filesystem::current_path() : job.data.media_root,
            job.data.max_decoded_pixels),
      parallel(host),
      plugins(job.plugins.dirs, plugin_host(job.plugins), options.probe_plugins) {
  // Opens what these options name, if none of them has been refused.
  const auto attempt = [&](std::initializer_list<std::string_view> named_by, const std::function<void()>& open) {
    for (const std::string_view option : named_by)
      if (options.skip.contains(option)) return;
    if (options.problems == nullptr)
      open();
    else
      options.problems->attempt(open);
  };
  media.offer_to(host);
  host.word_log([file = config_file(job)](const std::string& line) { return with_config_place(line, file); });
  host.answer_options([&job](std::string_view name) { return option_json(job, name).value_or(""); });
  if (options.open_device)
    attempt({"device.name"}, [&] {
      device = open_device(job, plugins, host, options);
      collectives =
          plugins.load(PluginKind::kDevice, job.device.name).interface<lf_collective_api>(LF_COLLECTIVE_INTERFACE);
    });
  attempt({"model.family", "model.path", "model.config", "lora.targets", "lora.groups", "lora.path"}, [&] {
    model_config = options.model_config.empty() ? config_text(job) : options.model_config;
    const std::string request = model_request(job, model_config, options);
    auto opened = options.model_config.empty() ? open_model_of_job(job, plugins, host, request)
                                               : open_model(job, plugins, host, request);
    opened->adapt(requested_adapters(job, opened->description()));
    model = std::move(opened);
  });
  if (device && model) place_of_model(*this, *device);  // or throws, before anything is made on it
  if (model)
    model_files =
        plugins.load(PluginKind::kModel, job.model.family).interface<lf_model_files_api>(LF_MODEL_FILES_INTERFACE);
  if (options.open_policy) attempt({"balance.policy"}, [&] { policy = open_policy(job, plugins, host); });
}

PluginHost plugin_host(const PluginPlaces& places) {
  return {.torch_build = LF_TORCH_BUILD,
          .lock = places.locked ? LockUse::kRequired : LockUse::kIfThere,
          .core = places.core,
          .library_path = places.library_path};
}

ModelPlace place_of_model(const Session& session, const Device& device) {
  const Candidate& plugin = session.plugins.find(PluginKind::kModel, session.model->plugin_id());
  return place_of_model(*plugin.manifest, session.model->api()->abilities,
                        {.id = device.id(), .host = device.is_host(), .torch_mode = device.info().torch_mode},
                        session.config.device.op_fallback == "warn");
}

std::filesystem::path tokenizer_folder(const JobConfig& config) {
  return config.model.tokenizer.empty() ? config.model.path : config.model.tokenizer;
}

int32_t compute_dtype(const JobConfig& config) {
  return config.precision.compute == "bf16" ? LF_DTYPE_BF16 : LF_DTYPE_F32;
}

}  // namespace lf
