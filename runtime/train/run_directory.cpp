#include "train/run_directory.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"

namespace lf {
namespace {

void write_text(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path part = file.string() + ".part";
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  if (!out) fail(Exit::kCannotCreate, "{}: cannot be written: {}", file.string(), std::strerror(errno));
  std::filesystem::rename(part, file);
}

}  // namespace

RunDirectory::RunDirectory(const std::filesystem::path& path, int rank, bool terminal) : path_(path) {
  std::error_code error;
  std::filesystem::create_directories(path_ / "log", error);
  if (error) fail(Exit::kCannotCreate, "job.output {}: cannot be made: {}", path_.string(), error.message());
  if (rank == 0) lock_ = std::make_unique<RunLock>(path_);
  log::open(path_ / "log" / fmt::format("rank{}.log", rank), terminal || rank == 0, log::Level::kInfo);
}

void RunDirectory::record(const ResolvedJob& job, const Session& session, int world_size,
                          const std::string& device_reason,
                          const std::map<std::string, std::map<std::string, std::string>>& choices) {
  write_text(path_ / "config.toml", print_config(job));
  nlohmann::json plugins = nlohmann::json::array();
  for (const Candidate& candidate : session.plugins.candidates())
    if (candidate.manifest && !candidate.refusal)
      plugins.push_back({{"id", candidate.manifest->id},
                         {"kind", kind_word(candidate.manifest->kind)},
                         {"version", candidate.manifest->version},
                         {"torch", candidate.manifest->torch},
                         {"path", candidate.path.string()}});
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
