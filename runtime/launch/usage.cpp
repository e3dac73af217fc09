#include "launch/command_line.h"

namespace lf {

std::string usage() {
  return R"(lfrun trains large models from a job file; device, model and balancer are plugins.

  lfrun JOB.toml                 train; goes on from the newest complete checkpoint by itself
  lfrun check JOB.toml           tell all mistakes, memory, steps and sizes; starts nothing
  lfrun plugins list             what each plugin says of itself, or why it is refused; runs none of them
  lfrun plugins inspect FILE...  libraries, symbols, versions, LibTorch, hash; runs none of them
  lfrun plugins verify FILE...   the conformance kit, in child processes; --case FOLDER for models, --only TEXT, --all, --json
  lfrun plugins lock             write plugins.lock (id, version, sha256) into the plugin folders
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
elsewhere it starts the workers of this host and watches them. LF_DEVICE chooses the device plugin,
or with "auto" lets lfrun choose.
SIGTERM, SIGUSR1 or Ctrl-C: finish the step, save, exit 75. Once more: stop at once.

Exit codes: 0 done; 1 parity differs; 64 usage; 65 bad data; 66 input missing; 69 device or peer unavailable; 70 our bug;
73, 74 output; 75 saved, run me again; 77 permission; 78 job file or plugin refused; 128+n by signal n.
)";
}

}  // namespace lf
