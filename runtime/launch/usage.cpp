#include <string_view>

#include "launch/command_line.h"

namespace lf {
namespace {

constexpr std::string_view kPluginOptions =
    R"(  --plugin-dir DIR          a folder of plugins; may be repeated; default: ../plugins beside lfrun's own folder
  --locked                  every plugin must be in its folder's plugins.lock; one that is there is always heeded
)";

constexpr std::string_view kCheckUsage = R"(lfrun check JOB.toml [OPTION...]

Tells every mistake of the job in one pass, each with its place and the nearest known name; then the device, the model,
the data and which samples can be trained on, the steps, memory of a rank by part and by place, what a run would go on
from, and the size of checkpoints beside the free disk. Trains nothing, starts no worker, leaves nothing behind; the
device is opened in a child process.

  --set TABLE.KEY=VALUE     one option, as in the job file; may be repeated; wins over the file
  -n N                      for N workers on this host: the same as --set launch.processes=N
)";

constexpr std::string_view kCheckCodes = R"(
LF_DEVICE chooses the device, as in a run. lfrun options lists what may stand in a job file.

Exit codes: 0 valid; 65 bad data; 66 input missing; 69 device unavailable; 73 job.output cannot be written; 78 not valid.
)";

constexpr std::string_view kPluginsUsage = R"(lfrun plugins COMMAND [OPTION...]

  lfrun plugins list        what each plugin says of itself, or why it is refused; runs none of them, and compares no
                            bytes with the lock, as inspect, verify and every load do
  lfrun plugins inspect FILE...
                            libraries, symbols by class, exports, versions, LibTorch, hash; runs none of them
  lfrun plugins verify FILE...
                            the conformance kit, in child processes: a crash names the case and the function
  lfrun plugins lock        write plugins.lock (id, version, sha256) into the plugin folders

Of verify:
  --case FOLDER             for models: a folder with config.json and samples.jsonl, see docs/writing_a_plugin.md
  --only TEXT               the cases whose name has TEXT in it
  --all                     print the cases that hold, too
  --json                    the report as JSON

Of all:
)";

constexpr std::string_view kPluginsCodes = R"(
Exit codes: 0 all good, or listed, refused ones too; 64 usage; 66 file missing; 78 a plugin is refused, or does not hold
a promise.
)";

constexpr std::string_view kOptionsUsage = R"(lfrun options [--markdown]

Every option of a job file: what it does, what it takes, its default.

  --markdown                as docs/options.md has it
)";

}  // namespace

std::string usage_of(const std::string& command) {
  std::string text;
  if (command == "check") text.append(kCheckUsage).append(kPluginOptions).append(kCheckCodes);
  if (command == "plugins") text.append(kPluginsUsage).append(kPluginOptions).append(kPluginsCodes);
  if (command == "options") text = kOptionsUsage;
  return text;
}

std::string usage() {
  return R"(lfrun trains large models from a job file; device, model and balancer are plugins.

  lfrun JOB.toml                 train; goes on from the newest complete checkpoint by itself
  lfrun check JOB.toml           tell all mistakes, memory, steps and sizes; starts nothing
  lfrun plugins list             what each plugin says of itself, or why it is refused; runs none of them
  lfrun plugins inspect FILE...  libraries, symbols, versions, LibTorch, hash; runs none of them
  lfrun plugins verify FILE...   the conformance kit, in child processes; --case FOLDER for models, --only TEXT, --all, --json
  lfrun plugins lock             write plugins.lock (id, version, sha256, parts) into the plugin folders
  lfrun parity DIR [CASE...]     run recorded cases and compare outputs, losses and gradients; exit 1 where they differ
  lfrun export CHECKPOINT OUT    write a Hugging Face directory
  lfrun balance FILE [OPTION...] what balancing would gain on these samples, or a job's; lfrun balance --help
  lfrun options [--markdown]     every option of a job file

  --plugin-dir DIR               a folder of plugins; may be repeated; default: ../plugins beside lfrun's own folder
  --set TABLE.KEY=VALUE          one option, as in the job file; may be repeated; wins over the file
  --locked                       every plugin must be in its folder's plugins.lock; one that is there is always heeded
  -n N                           start N workers on this host: the same as --set launch.processes=N
  --fresh                        start over, in a new run directory
  --print-config                 print the job with every value and its origin; starts nothing
  --help, --version

Under torchrun --no-python, srun or mpirun (RANK and WORLD_SIZE, SLURM_PROCID, OMPI_COMM_WORLD_RANK) lfrun is one worker;
elsewhere it starts the workers of this host and watches them. MASTER_ADDR and MASTER_PORT say where workers meet; those
of one srun or mpirun on one host do without: at 127.0.0.1 and a port in [20000, 30000) by the job's id. LF_DEVICE
chooses the device plugin, or with "auto" lets lfrun choose.
SIGTERM, SIGUSR1 or Ctrl-C: finish the step, save, exit 75. Once more: stop at once.

Exit codes: 0 done; 1 parity differs; 64 usage; 65 bad data; 66 input missing; 69 device or peer unavailable; 70 our bug;
73, 74 output; 75 saved, run me again; 77 permission; 78 job file or plugin refused; 128+n by signal n.
)";
}

}  // namespace lf
