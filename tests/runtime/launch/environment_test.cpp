#include "launch/environment.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace lf {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refused(const Environment& environment) {
  try {
    worker_place(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kUsage);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node-0"},
                               {"MASTER_PORT", "29400"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Environment kSrun = {{"SLURM_JOB_ID", "77"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "3"},
                           {"SLURM_NTASKS", "5"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                           {"MASTER_ADDR", "node-0"},
                           {"MASTER_PORT", "1234"}};

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}
Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

TEST(WorkerPlace, nothing_set_means_to_start_workers_here) {
  EXPECT_FALSE(worker_place({}));
  EXPECT_FALSE(worker_place({{"MASTER_ADDR", "x"}, {"RANK", ""}}));
}

TEST(WorkerPlace, torchrun_is_understood) {
  const auto place = worker_place(kTorchrun);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->world_size, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_world_size, 4);
  EXPECT_EQ(place->store, "tcp:node-0:29400");
  EXPECT_FALSE(place->serves_store);
}

TEST(WorkerPlace, rank_0_serves_the_store_unless_torchruns_agent_does) {
  const Environment first = with(with(kTorchrun, "RANK", "0"), "LOCAL_RANK", "0");
  EXPECT_TRUE(worker_place(first)->serves_store);
  EXPECT_FALSE(worker_place(with(first, "TORCHELASTIC_USE_AGENT_STORE", "True"))->serves_store);
}

TEST(WorkerPlace, a_restart_by_torchrun_is_a_new_generation) {
  EXPECT_EQ(worker_place(kTorchrun)->generation, 0u);
  EXPECT_EQ(worker_place(with(kTorchrun, "TORCHELASTIC_RESTART_COUNT", "2"))->generation, 2u);
}

TEST(WorkerPlace, an_operator_without_local_ranks_has_one_worker_per_host) {
  const auto place = worker_place(without(without(kTorchrun, "LOCAL_RANK"), "LOCAL_WORLD_SIZE"));
  EXPECT_EQ(place->local_rank, 0);
  EXPECT_EQ(place->local_world_size, 1);
}

TEST(WorkerPlace, a_world_of_one_needs_no_meeting_place) {
  EXPECT_EQ(worker_place({{"RANK", "0"}, {"WORLD_SIZE", "1"}})->store, "");
}

TEST(WorkerPlace, a_missing_variable_is_named) {
  EXPECT_THAT(refused(without(kTorchrun, "WORLD_SIZE")), StartsWith("WORLD_SIZE is not set, but RANK is"));
  EXPECT_THAT(refused(without(kTorchrun, "RANK")), StartsWith("RANK is not set, but WORLD_SIZE is"));
  EXPECT_THAT(refused(without(kTorchrun, "LOCAL_WORLD_SIZE")),
              StartsWith("LOCAL_WORLD_SIZE is not set, but LOCAL_RANK is"));
  EXPECT_THAT(refused(without(kTorchrun, "MASTER_ADDR")),
              StartsWith("MASTER_ADDR is not set, but there are 8 workers"));
  EXPECT_THAT(refused(without(kTorchrun, "MASTER_PORT")), StartsWith("MASTER_PORT is not set"));
  EXPECT_THAT(refused(without(kMpirun, "OMPI_COMM_WORLD_LOCAL_SIZE")),
              StartsWith("OMPI_COMM_WORLD_LOCAL_SIZE is not set"));
  EXPECT_THAT(refused(without(kSrun, "SLURM_LOCALID")), StartsWith("SLURM_LOCALID is not set"));
}

TEST(WorkerPlace, an_absurd_value_is_named) {
  for (const char* bad : {"8", "-1", "x", "1x", "99999999999999999999", " 1", "1.0"})
    EXPECT_THAT(refused(with(kTorchrun, "RANK", bad)), StartsWith("RANK: expected an integer in [0, 7], got \""))
        << bad;
  EXPECT_THAT(refused(with(kTorchrun, "WORLD_SIZE", "0")), StartsWith("WORLD_SIZE: expected"));
  EXPECT_THAT(refused(with(kTorchrun, "WORLD_SIZE", "2000000")), StartsWith("WORLD_SIZE: expected"));
  EXPECT_THAT(refused(with(kTorchrun, "LOCAL_RANK", "4")), StartsWith("LOCAL_RANK: expected an integer in [0, 3]"));
  EXPECT_THAT(refused(with(kTorchrun, "LOCAL_WORLD_SIZE", "9")),
              StartsWith("LOCAL_WORLD_SIZE: expected an integer in [1, 8]"));
  EXPECT_THAT(refused(with(kTorchrun, "MASTER_PORT", "65536")), StartsWith("MASTER_PORT: expected"));
  EXPECT_THAT(refused(with(kTorchrun, "MASTER_ADDR", "a b")), StartsWith("MASTER_ADDR: expected a host name"));
}

TEST(WorkerPlace, mpirun_on_one_host_needs_no_address) {
  const auto place = worker_place(kMpirun);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->local_world_size, 2);
  EXPECT_EQ(place->store, "tcp:127.0.0.1:29500");
  EXPECT_THAT(refused(with(with(kMpirun, "OMPI_COMM_WORLD_LOCAL_SIZE", "1"), "OMPI_COMM_WORLD_LOCAL_RANK", "0")),
              StartsWith("MASTER_ADDR is not set, but there are 2 workers"));
}

TEST(WorkerPlace, srun_is_understood_with_uneven_nodes) {
  const auto place = worker_place(kSrun);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->world_size, 5);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_world_size, 2);
  EXPECT_EQ(place->store, "tcp:node-0:1234");
  const auto last =
      worker_place(with(with(with(kSrun, "SLURM_NODEID", "2"), "SLURM_PROCID", "4"), "SLURM_LOCALID", "0"));
  EXPECT_EQ(last->local_world_size, 1);
  EXPECT_THAT(refused(with(kSrun, "SLURM_NODEID", "3")), HasSubstr("SLURM_STEP_TASKS_PER_NODE: expected a list"));
  EXPECT_THAT(refused(with(kSrun, "SLURM_STEP_TASKS_PER_NODE", "2(x,1")), HasSubstr("expected a list like 4(x2),3"));
}

TEST(WorkerPlace, the_three_basic_variables_of_srun_are_enough_on_one_host) {
  const auto place = worker_place({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->local_world_size, 2);
  EXPECT_EQ(place->store, "tcp:127.0.0.1:29500");
}

TEST(WorkerPlace, jobs_on_one_host_have_ports_of_their_own_and_all_ranks_of_a_job_the_same) {
  const Environment slurm = {{"SLURM_JOB_ID", "77"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_PROCID", "1"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_LOCALID", "1"}};
  const auto port_of = [](const Environment& environment) {
    const std::string store = worker_place(environment)->store;
    const int port = std::stoi(store.substr(store.rfind(':') + 1));
    EXPECT_GE(port, 20'000);
    EXPECT_LT(port, 30'000);
    return port;
  };
  EXPECT_EQ(port_of(slurm), port_of(with(with(slurm, "SLURM_PROCID", "0"), "SLURM_LOCALID", "0")));
  EXPECT_NE(port_of(slurm), port_of(with(slurm, "SLURM_JOB_ID", "78")));
  EXPECT_NE(port_of(slurm), port_of(with(slurm, "SLURM_STEP_ID", "1")));
  for (const char* id : {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"})
    EXPECT_NE(port_of(with(kMpirun, id, "1234567")), port_of(with(kMpirun, id, "1234568")));
  EXPECT_EQ(worker_place(with(with(slurm, "MASTER_ADDR", "h"), "MASTER_PORT", "29500"))->store, "tcp:h:29500");
}

TEST(WorkerPlace, the_shell_of_a_slurm_job_starts_workers_here) {
  EXPECT_FALSE(worker_place(with(kSrun, "SLURM_NTASKS", "1"))) << "a step of one task is a shell";
  const Environment shell = without(kSrun, "SLURM_STEP_ID");
  EXPECT_FALSE(worker_place(shell));
  EXPECT_THAT(batch_shell_hint(shell), HasSubstr("`srun lfrun ...` starts one per task"));
  EXPECT_EQ(batch_shell_hint(kSrun), "");
  EXPECT_EQ(batch_shell_hint({}), "");
}

TEST(WorkerPlace, torchrun_inside_mpirun_inside_slurm_counts_first) {
  Environment all = kSrun;
  for (const Environment& more : {kMpirun, kTorchrun})
    for (const auto& [name, value] : more) all[name] = value;
  EXPECT_EQ(worker_place(all)->world_size, 8);
  EXPECT_EQ(worker_place(without(without(all, "RANK"), "WORLD_SIZE"))->world_size, 2);
}

}  // namespace
}  // namespace lf
