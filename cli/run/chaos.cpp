#include "cli/run/chaos.h"

#include <algorithm>
#include <csignal>

#include "common/api/children.h"
#include "common/api/contract.h"
#include "common/os/processes.h"

namespace pawl::cli {
namespace {

// The pod that holds the rank in the committed generation.
std::optional<SeenPod> pod_of_rank(int rank, const Observer& observer) {
  const int processes = api::processes_per_worker(*observer.job());
  for (const api::Member& member : observer.group()->status.members) {
    if (member.rank != rank / processes) continue;
    const auto pod = observer.pods().find(member.ref.uid);
    if (pod != observer.pods().end()) return pod->second;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> strike(const Chaos& chaos, const Observer& observer,
                                  const local::ProcessNode& node) {
  if (!observer.job() || !observer.group()) return std::nullopt;
  const auto& progress = observer.group()->status.progress;
  if (!progress || progress->step < chaos.step) return std::nullopt;
  const auto pod = pod_of_rank(chaos.rank, observer);
  const auto launcher = pod ? node.pid_of(pod->name) : std::nullopt;
  if (!launcher) return std::nullopt;
  // Processes that speak the channel learn their rank from it; LOCAL_RANK they all have.
  const int local_rank = chaos.rank % api::processes_per_worker(*observer.job());
  const std::string mark = "LOCAL_RANK=" + std::to_string(local_rank);
  const auto processes = os::descendants_of(*launcher);
  const auto victim =
      std::find_if(processes.begin(), processes.end(), [&](const os::ProcessInfo& info) {
        return info.parent == *launcher && info.name != api::kStandbyName &&
               os::has_environment(info.pid, mark) == true;
      });
  if (victim == processes.end() || ::kill(victim->pid, SIGKILL) != 0) return std::nullopt;
  return "! chaos: kill -9 of rank " + std::to_string(chaos.rank) + " (process " +
         std::to_string(victim->pid) + " of pod " + pod->name + ") at step " +
         std::to_string(progress->step);
}

}  // namespace pawl::cli
