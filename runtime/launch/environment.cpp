#include "launch/environment.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <unistd.h>

#include "core/error.h"

namespace lf {
namespace {

constexpr int kMostRanks = 1 << 20;

class Variables {
 public:
  explicit Variables(const Environment& all) : all_(all) {}

  bool has(const std::string& name) const { return !text(name).empty(); }

  std::string text(const std::string& name) const {
    const auto found = all_.find(name);
    return found == all_.end() ? "" : found->second;
  }

  // In [least, most].
  int number(const std::string& name, int least, int most) const {
    const std::string value = text(name);
    int parsed = 0;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (wrong != std::errc{} || end != value.data() + value.size() || parsed < least || parsed > most)
      fail(Exit::kUsage, "{}: expected an integer in [{}, {}], got {}; unset it to start workers from here", name,
           least, most, value.empty() ? "nothing" : "\"" + value + "\"");
    return parsed;
  }

  void require(const std::string& name, const std::string& because) const {
    if (!has(name))
      fail(Exit::kUsage, "{} is not set, but {} is; set both, or unset both to start workers from here", name, because);
  }

 private:
  const Environment& all_;
};

struct Names {
  std::string rank, size, local_rank, local_size;
};

// Reads what the four names say; the local pair may be left out where `one_per_host` allows it.
WorkerPlace read_place(const Variables& variables, const Names& names, bool one_per_host) {
  variables.require(names.rank, names.size);
  variables.require(names.size, names.rank);
  WorkerPlace place;
  place.world_size = variables.number(names.size, 1, kMostRanks);
  place.rank = variables.number(names.rank, 0, place.world_size - 1);
  if (variables.has(names.local_rank) || variables.has(names.local_size) || !one_per_host) {
    variables.require(names.local_rank, variables.has(names.local_size) ? names.local_size : names.rank);
    variables.require(names.local_size, variables.has(names.local_rank) ? names.local_rank : names.rank);
    place.local_world_size = variables.number(names.local_size, 1, place.world_size);
    place.local_rank = variables.number(names.local_rank, 0, place.local_world_size - 1);
  }
  return place;
}

// Of one host, where nobody names a port: the same for all ranks of a job, and another for another job on that host,
// as far as its number allows. From 20000, below where systems take ports for connections.
int default_port(const Variables& variables) {
  constexpr int kFirst = 20'000, kMany = 10'000, kTorchruns = 29'500;
  std::string job;  // as the scheduler calls it
  for (const char* name :
       {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"})
    if (variables.has(name)) job += variables.text(name) + " ";
  if (job.empty()) return kTorchruns;
  uint64_t hash = 14'695'981'039'346'656'037ull;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211ull;
  return kFirst + static_cast<int>(hash % kMany);
}

void read_store(const Variables& variables, WorkerPlace& place, bool may_default) {
  const bool named = variables.has("MASTER_ADDR") || variables.has("MASTER_PORT");
  const bool one_host = place.local_world_size == place.world_size;
  if (!named && place.world_size == 1) return;
  std::string address = "127.0.0.1";
  int port = default_port(variables);
  if (named || !(may_default && one_host)) {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
      if (!variables.has(name))
        fail(Exit::kUsage,
             "{} is not set, but there are {} workers; export MASTER_ADDR (the host of rank 0) and MASTER_PORT (a free "
             "port "
             "there, 29500)",
             name, place.world_size);
    address = variables.text("MASTER_ADDR");
    port = variables.number("MASTER_PORT", 1, 65535);
    if (std::any_of(address.begin(), address.end(), [](char c) { return static_cast<unsigned char>(c) <= 0x20; }))
      fail(Exit::kUsage, "MASTER_ADDR: expected a host name or address, got \"{}\"", address);
  }
  place.store = fmt::format("tcp:{}:{}", address, port);
  place.serves_store = place.rank == 0;
}

bool in_slurm_step(const Variables& variables) {
  const bool in_job = variables.has("SLURM_JOB_ID") || variables.has("SLURM_JOBID");
  const bool in_step = variables.has("SLURM_STEP_ID") || variables.has("SLURM_STEPID");
  return in_step || !in_job;
}

// "2(x3),1" -> 2, 2, 2, 1; the entry of node `index`.
int tasks_of_node(const std::string& name, const std::string& text, int index) {
  std::string_view rest = text;
  const auto take_number = [&] {
    int value = 0;
    const auto [end, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (wrong != std::errc{} || value < 1)
      fail(Exit::kUsage, "{}: expected a list like 4(x2),3, got \"{}\"", name, text);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return value;
  };
  while (!rest.empty()) {
    const int tasks = take_number();
    int times = 1;
    if (rest.starts_with("(x")) {
      rest.remove_prefix(2);
      times = take_number();
      if (!rest.starts_with(")")) break;
      rest.remove_prefix(1);
    }
    if (index < times) return tasks;
    index -= times;
    if (!rest.starts_with(",")) break;
    rest.remove_prefix(1);
  }
  fail(Exit::kUsage, "{}: expected a list like 4(x2),3 with an entry for SLURM_NODEID, got \"{}\"", name, text);
}

// The step's own number, where Slurm gives it.
std::string slurm_tasks_variable(const Variables& variables) {
  return variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

WorkerPlace slurm_place(const Variables& variables, const Environment& environment) {
  // As if Slurm had a name for the tasks on this node.
  Environment with_local_size = environment;
  const std::string size = slurm_tasks_variable(variables);
  const std::string per_node =
      variables.has("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  if (variables.has(per_node)) {
    const int node = variables.has("SLURM_NODEID") ? variables.number("SLURM_NODEID", 0, kMostRanks) : 0;
    with_local_size[per_node] = std::to_string(tasks_of_node(per_node, variables.text(per_node), node));
  } else if (!variables.has("SLURM_NNODES") || variables.number("SLURM_NNODES", 1, kMostRanks) == 1) {
    with_local_size[per_node] = variables.text(size);
  }
  return read_place(Variables(with_local_size), {"SLURM_PROCID", size, "SLURM_LOCALID", per_node}, false);
}

}  // namespace

Environment process_environment() {
  Environment all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (const size_t equals = text.find('='); equals != std::string_view::npos)
      all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

std::optional<WorkerPlace> worker_place(const Environment& environment) {
  const Variables variables(environment);
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) {
    WorkerPlace place = read_place(variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, true);
    read_store(variables, place, false);
    if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") place.serves_store = false;
    if (variables.has("TORCHELASTIC_RESTART_COUNT"))
      place.generation = static_cast<uint64_t>(variables.number("TORCHELASTIC_RESTART_COUNT", 0, 1'000'000));
    return place;
  }
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE")) {
    WorkerPlace place = read_place(
        variables,
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        false);
    read_store(variables, place, true);
    return place;
  }
  const std::string tasks = slurm_tasks_variable(variables);
  if (variables.has("SLURM_PROCID") && variables.has(tasks) && in_slurm_step(variables) &&
      variables.number(tasks, 1, kMostRanks) > 1) {
    WorkerPlace place = slurm_place(variables, environment);
    read_store(variables, place, true);
    return place;
  }
  return std::nullopt;
}

std::string batch_shell_hint(const Environment& environment) {
  const Variables variables(environment);
  const std::string tasks = variables.text("SLURM_NTASKS");
  if (tasks.empty() || tasks == "1" || !variables.has("SLURM_PROCID") || in_slurm_step(variables)) return "";
  return fmt::format(
      "SLURM_NTASKS is {}, but this is not a step of srun: the workers are started on this host only; "
      "`srun lfrun ...` starts one per task",
      tasks);
}

}  // namespace lf
