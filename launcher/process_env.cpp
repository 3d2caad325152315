#include "launcher/process_env.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/api/contract.h"
#include "launcher/mpi/place.h"
#include "launcher/ray/place.h"

namespace pawl::launcher {
namespace {

using Env = std::map<std::string, std::string>;

// The arguments of jax.distributed.initialize(), which reads the first one itself. One process
// takes all devices that it finds, several take one each.
void set_jax(Env& env, const ProcessPlace& place, int processes, int rank, int world) {
  const membership::Placement& at = *place.placement;
  const bool has_colon = at.master_address.find(':') != std::string::npos;
  env["JAX_COORDINATOR_ADDRESS"] = (has_colon ? "[" + at.master_address + "]" : at.master_address) +
                                   ":" + std::to_string(at.master_port);
  env["JAX_NUM_PROCESSES"] = std::to_string(world);
  env["JAX_PROCESS_ID"] = std::to_string(rank);
  if (processes > 1) env.try_emplace("JAX_LOCAL_DEVICE_IDS", std::to_string(place.local_rank));
}

// For TFConfigClusterResolver: workers alike, the first of which is the chief; with parameter
// servers, which are the processes from `first_server` on, one that is called so.
void set_tensorflow(Env& env, const membership::Placement& at, int rank, int first_server) {
  nlohmann::json cluster;
  std::string own_type;
  std::size_t own_index = 0;
  for (int i = 0; std::cmp_less(i, at.addresses.size()); ++i) {
    const bool are_alike = std::cmp_greater_equal(first_server, at.addresses.size());
    const char* type = i >= first_server ? "ps" : (i == 0 && !are_alike ? "chief" : "worker");
    if (i == rank) {
      own_type = type;
      own_index = cluster[type].size();
    }
    cluster[type].push_back(at.addresses[static_cast<std::size_t>(i)]);
  }
  const nlohmann::json config = {{"cluster", std::move(cluster)},
                                 {"task", {{"type", own_type}, {"index", own_index}}}};
  env["TF_CONFIG"] = config.dump();
}

void leave_out_ranks(Env& env) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                           "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"})
    env.erase(name);
}

// Ranks are mpirun's to give, and it closes what its processes inherit: the channel does not reach
// them. What torchrun says of ranks would be rank 0's worker's in all of them.
void set_mpi(Env& env, const Settings& settings, const membership::Placement& at) {
  leave_out_ranks(env);
  env.erase(api::kEnvChannelFd);
  env.erase(api::kEnvPulseFd);
  env[mpi::kPlaceVariable] = mpi::encode_place(mpi::place_of(settings, at));
}

// The driver has no rank, and what Ray runs on the workers gets its ranks, if it has any, from a
// library of Ray's: nothing of torchrun's may be there before.
void set_ray(Env& env, const Settings& settings, const membership::Placement& at) {
  leave_out_ranks(env);
  for (const char* name :
       {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"})
    env.erase(name);
  env[ray::kPlaceVariable] = ray::encode_place(ray::place_of(settings, at));
}

}  // namespace

std::map<std::string, std::string> process_env(const Settings& settings,
                                               const ProcessPlace& place) {
  std::map<std::string, std::string> env = settings.env;
  const auto set = [&](const char* name, auto value) {
    if constexpr (std::is_integral_v<decltype(value)>) {
      env[name] = std::to_string(value);
    } else {
      env[name] = value;
    }
  };
  const api::WorkerFacts& worker = settings.worker;
  set(api::kEnvJobName, worker.job_name);
  set(api::kEnvJobUid, worker.job_uid);
  set(api::kEnvAttempt, worker.attempt);
  set(api::kEnvSlot, worker.slot);
  if (worker.checkpoint) {
    set(api::kEnvCheckpointUri, worker.checkpoint->uri);
    set(api::kEnvCheckpointSeconds, worker.checkpoint->seconds);
    set(api::kEnvCheckpointKeep, worker.checkpoint->keep);
  }
  set(api::kEnvChannelFd, place.channel_fd);
  set(api::kEnvPulseFd, place.pulse_fd);
  set("LOCAL_RANK", place.local_rank);
  set("LOCAL_WORLD_SIZE", worker.processes);
  // As torchrun: more than one process on a host must not each take all cores, unless the user says
  // so.
  if (std::max(worker.processes, worker.slots) > 1 && !env.contains("OMP_NUM_THREADS"))
    set("OMP_NUM_THREADS", 1);
  if (!place.error_file.empty()) set("TORCHELASTIC_ERROR_FILE", place.error_file);
  if (worker.is_in_place) set(api::kEnvInPlace, 1);
  if (!place.placement) return env;

  const membership::Placement& at = *place.placement;
  const int rank = at.member_rank * worker.processes + place.local_rank;
  const int world = at.members * worker.processes;
  set(api::kEnvGeneration, at.generation);
  set("RANK", rank);
  set("WORLD_SIZE", world);
  set("GROUP_RANK", at.member_rank);
  set("GROUP_WORLD_SIZE", at.members);
  set("ROLE_NAME", "default");
  set("ROLE_RANK", rank);
  set("ROLE_WORLD_SIZE", world);
  set("MASTER_ADDR", at.master_address);
  set("MASTER_PORT", at.master_port);
  // Each generation starts all processes; in torchrun's words the first one is number 0.
  set("TORCHELASTIC_RESTART_COUNT", at.generation - 1);
  set("TORCHELASTIC_MAX_RESTARTS", 0);  // the operator counts
  set("TORCHELASTIC_RUN_ID", worker.job_uid + "-" + std::to_string(at.generation));
  set("TORCHELASTIC_USE_AGENT_STORE", "False");  // rank 0 of the job hosts the store
  if (!env.contains("TORCH_NCCL_ASYNC_ERROR_HANDLING")) set("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1);
  if (worker.runtime == api::RuntimeKind::kJax) set_jax(env, place, worker.processes, rank, world);
  if (worker.runtime == api::RuntimeKind::kTensorFlow)
    set_tensorflow(env, at, rank, world - worker.parameter_servers * worker.processes);
  if (worker.runtime == api::RuntimeKind::kMpi) set_mpi(env, settings, at);
  if (worker.runtime == api::RuntimeKind::kRay) set_ray(env, settings, at);
  return env;
}

}  // namespace pawl::launcher
