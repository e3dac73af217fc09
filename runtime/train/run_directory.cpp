#include "train/run_directory.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "core/whole_file.h"
#include "plugins/sha256.h"
#include "train/meeting.h"

namespace lf {
namespace {

void write_text(const std::filesystem::path& file, const std::string& text) {
  if (const std::error_code error = replace_file(file, text))
    fail(Exit::kCannotCreate, "{}: cannot be written: {}", file.string(), error.message());
}

// Rank 0 tells the others whether it has the lock, or why not.
std::unique_ptr<RunLock> lock_for_all(const std::filesystem::path& path, Exchange& control) {
  std::unique_ptr<RunLock> lock;
  try {
    lock = std::make_unique<RunLock>(path);
  } catch (const Error& error) {
    control.all_gather(error.what());
    part(control);
    throw;
  }
  control.all_gather("");
  return lock;
}

void hear_of_lock(Exchange& control) {
  const std::string refusal = control.all_gather("")[0];
  if (refusal.empty()) return;
  part(control);
  fail(Exit::kUnavailable, "rank 0: {}", refusal);
}

// Of lf_device_info.abilities; one that this core does not know is its number.
std::vector<std::string> ability_names(uint64_t abilities) {
  constexpr std::pair<uint64_t, const char*> kNames[] = {
      {LF_DEVICE_EVENT_QUERY, "event_query"},
      {LF_DEVICE_EVENT_TIMING, "event_timing"},
      {LF_DEVICE_ASYNC_COPY, "async_copy"},
      {LF_DEVICE_ASYNC_FILL, "async_fill"},
      {LF_DEVICE_PEER_COPY, "peer_copy"},
      {LF_DEVICE_SYNCHRONIZE, "synchronize"},
      {LF_DEVICE_MEMORY_INFO, "memory_info"},
      {LF_DEVICE_STREAM_PRIORITY, "stream_priority"},
      {LF_DEVICE_COLLECTIVES_BESIDE_COMPUTE, "collectives_beside_compute"},
      {LF_DEVICE_SIMULATED, "simulated"},
  };
  std::vector<std::string> names;
  for (const auto& [bit, name] : kNames)
    if ((abilities & bit) != 0) {
      names.emplace_back(name);
      abilities &= ~bit;
    }
  if (abilities != 0) names.push_back(fmt::format("{:#x}", abilities));
  return names;
}

}  // namespace

RunDirectory::RunDirectory(const std::filesystem::path& path, Exchange& control, bool locked, bool terminal)
    : path_(path) {
  const int rank = control.rank();
  if (rank == 0 && !locked)
    lock_ = lock_for_all(path_, control);
  else
    hear_of_lock(control);
  std::error_code error;
  std::filesystem::create_directories(path_ / "log", error);
  if (error) fail(Exit::kCannotCreate, "job.output {}: cannot be made: {}", path_.string(), error.message());
  log::open(path_ / "log" / fmt::format("rank{}.log", rank), terminal || rank == 0, log::Level::kInfo);
}

void RunDirectory::record(const ResolvedJob& job, const Session& session, int world_size,
                          const std::string& device_reason,
                          const std::map<std::string, std::map<std::string, std::string>>& choices) {
  write_text(path_ / "config.toml", print_config(job));
  nlohmann::json plugins = nlohmann::json::array();
  for (const auto& plugin : session.plugins.loaded()) {
    const Manifest& manifest = plugin->manifest();
    plugins.push_back({{"id", manifest.id},
                       {"kind", kind_word(manifest.kind)},
                       {"version", manifest.version},
                       {"abi", manifest.abi},
                       {"interfaces", manifest.interfaces},
                       {"torch", manifest.torch},
                       {"sha256", sha256_of_file(plugin->path())},
                       {"path", plugin->path().string()}});
  }
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const lf_device_info& device = session.device->info();
  record_ = {
      {"lfrun", LF_VERSION},
      {"torch", LF_TORCH_BUILD},
      {"host", host},
      {"world_size", world_size},
      {"device",
       {{"id", session.device->id()},
        {"name", device.name},
        {"choice", device_reason},
        {"abilities", ability_names(device.abilities)},
        {"simulated", (device.abilities & LF_DEVICE_SIMULATED) != 0},
        {"op_fallback", job.config.device.op_fallback}}},
      {"model", session.model->plugin_id()},
      {"parameters", session.model->description().parameter_count()},
      {"plugins", plugins},
  };
  for (const auto& [what, choice] : choices) record_[what] = choice;
  write_text(path_ / "env.json", record_.dump(2) + "\n");
}

void RunDirectory::record_operators_on_cpu(const std::map<std::string, uint64_t>& counts) {
  record_["device"]["operators_on_cpu"] = counts;
  write_text(path_ / "env.json", record_.dump(2) + "\n");
}

}  // namespace lf
