// What every command that touches a model opens first: the job's plugins, its device, its model
// with the adapters that the job gives it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "balance/policy.h"
#include "config/job.h"
#include "core/host.h"
#include "core/problems.h"
#include "data/media/media_reader.h"
#include "lf/plugin_api/collective.h"
#include "lf/plugin_api/model_files.h"
#include "model/description.h"
#include "model/device.h"
#include "model/runner.h"
#include "plugins/model_on_device.h"
#include "plugins/plugins.h"

namespace lf {

struct SessionOptions {
  int local_rank = 0;
  CallWatch* watch = nullptr;  // of the device's calls; outlives the session
  bool open_policy = true;     // false: nothing is balanced, `policy` is then null
  bool open_device = true;     // false: describe only, `device` is then null
  bool probe_plugins = true;   // false in workers: the launcher has probed what they load
  std::string model_config;    // text of config.json; empty: from the job's model.path or model.config
  // What a reference states (parity), as JSON lists; empty: the family's own choice.
  std::string losses_json;       // names of loss terms
  std::string no_gradient_json;  // file tensors to which it gives no gradient
  // Where given: what cannot be opened is left there, and null in the session, instead of thrown. Options in `skip`
  // have been refused already: what they name is not opened.
  Problems* problems = nullptr;
  std::set<std::string, std::less<>> skip;
};

// Members are in the order in which they depend on one another; destruction runs backwards.
struct Session {
  // The device is known to LibTorch before this returns; no operator of LibTorch runs before. Throws kConfig,
  // kUnavailable.
  Session(const JobConfig& config, const SessionOptions& options);

  const JobConfig& config;
  std::string model_config;  // text of config.json
  MediaReader media;
  Host host;
  ParallelHost parallel;
  PluginSet plugins;
  std::unique_ptr<Device> device;
  const lf_collective_api* collectives = nullptr;  // of the device's plugin; null: it offers none
  std::unique_ptr<Model> model;
  const lf_model_files_api* model_files = nullptr;  // of the model's plugin; null: it offers none
  std::unique_ptr<Policy> policy;
};

// What plugins from these places are judged against: this core's LibTorch, --locked, the libraries of this process.
PluginHost plugin_host(const PluginPlaces& places);

// Where the session's model computes when `device` is the run's. Throws as plugins/model_on_device.h says.
ModelPlace place_of_model(const Session& session, const Device& device);

// The folder whose tokenizer and processor files belong to the model: model.tokenizer, else model.path; empty: none.
std::filesystem::path tokenizer_folder(const JobConfig& config);

// LF_DTYPE_ of [precision] compute.
int32_t compute_dtype(const JobConfig& config);

}  // namespace lf
