#include "launcher/process_env.h"

#include "common/api/contract.h"

namespace pawl::launcher {

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
  if (worker.processes > 1 && !env.contains("OMP_NUM_THREADS")) set("OMP_NUM_THREADS", 1);
  if (!place.error_file.empty()) set("TORCHELASTIC_ERROR_FILE", place.error_file);
  if (!place.placement) return env;

  const membership::Placement& at = *place.placement;
  const int rank = at.member_rank * worker.processes + place.local_rank;
  const int world = at.members * worker.processes;
  set("RANK", rank);
  set("WORLD_SIZE", world);
  set("GROUP_RANK", at.member_rank);
  set("GROUP_WORLD_SIZE", at.members);
  set("ROLE_NAME", "default");
  set("ROLE_RANK", rank);
  set("ROLE_WORLD_SIZE", world);
  set("MASTER_ADDR", at.master_address);
  set("MASTER_PORT", at.master_port);
  // A restart of the gang is a new attempt; in torchrun's words the first one is number 0.
  set("TORCHELASTIC_RESTART_COUNT", at.attempt - 1);
  set("TORCHELASTIC_MAX_RESTARTS", 0);  // of the processes inside one attempt
  set("TORCHELASTIC_RUN_ID", worker.job_uid + "-" + std::to_string(at.generation));
  set("TORCHELASTIC_USE_AGENT_STORE", "False");  // rank 0 of the job hosts the store
  if (!env.contains("TORCH_NCCL_ASYNC_ERROR_HANDLING")) set("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1);
  return env;
}

}  // namespace pawl::launcher
