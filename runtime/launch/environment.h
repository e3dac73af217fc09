// Whether this process is one worker that somebody else started: torchrun, srun, mpirun or a Kubernetes operator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace lf {

using Environment = std::map<std::string, std::string>;
Environment process_environment();

struct WorkerPlace {
  int rank = 0, world_size = 1, local_rank = 0, local_world_size = 1;
  std::string store;          // "tcp:HOST:PORT", or "" in a world of one without MASTER_ADDR
  bool serves_store = false;  // rank 0, unless torchrun's agent serves it
  uint64_t generation = 0;    // torchrun's restart count
};

// The place, or none: then lfrun starts the workers of this host itself. The first family that applies counts:
//
//   RANK or WORLD_SIZE set          torchrun and operators: RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE (both or
//                                   none: one worker per host), MASTER_ADDR, MASTER_PORT
//   OMPI_COMM_WORLD_RANK or _SIZE   mpirun: and OMPI_COMM_WORLD_LOCAL_RANK, _LOCAL_SIZE
//   SLURM_PROCID, more than 1 task  srun: SLURM_NTASKS (of the step), SLURM_LOCALID. Not in the shell of sbatch or
//   salloc,
//                                   which has a job and no step: there it is srun that starts workers. A step of one
//                                   task is a shell too.
//
// With several hosts MASTER_ADDR and MASTER_PORT are required; mpirun and srun on one host default to 127.0.0.1
// and a port in [20000, 30000) that follows from the job's id (SLURM_JOB_ID and SLURM_STEP_ID, OMPI_MCA_ess_base_jobid,
// PMIX_NAMESPACE), or to 29500 where it has none.
// Throws lf::Error(kUsage) naming the variable that is missing, malformed or contradicts another.
std::optional<WorkerPlace> worker_place(const Environment& environment);

// What to say where Slurm gave several tasks but lfrun was not started by srun; empty: nothing.
std::string batch_shell_hint(const Environment& environment);

}  // namespace lf
