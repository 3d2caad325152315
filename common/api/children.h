// The objects that a TrainingJob owns, as the JSON to create: names, labels, owner references,
// environment, injection. Pure and deterministic: the same job, attempt and slot give the same
// bytes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/api/types.h"
#include "common/base/result.h"

namespace pawl::api {

// A level of the tree of domains: as jobs name it, and the key of the nodes' label.
struct LevelLabel {
  std::string name, label;
};

struct ChildOptions {
  std::string launcher_image;       // injected by an init container; empty: the worker image has
                                    // pawl-launch in PATH
  std::string native_worker_image;  // image of Native jobs without a template
  std::string pull_policy;          // of these two images; empty: the cluster's default
  std::string metadata;  // "http://169.254.169.254": what launchers ask for notices; empty: none
  // `pawl run`: no service account token volumes, no injection; command starts `launcher_path --
  // …`.
  bool is_local = false;
  std::vector<LevelLabel> levels = {};  // coarse to fine; of pods that nobody has placed
  SpotTable spot = {};  // how spot nodes are known; empty: spec.capacity asks for nothing
  // Of the pod's creation: nodes whose quarantine is over by then are not avoided any more, nor is
  // spot after a fall-back.
  std::optional<TimePoint> now = {};
  std::string pod_group = {};           // that this pod belongs to; empty: none
  std::string provisioning_class = {};  // of requests for nodes; empty: nobody is asked for any
  std::string node_request = {};        // whose nodes this pod is to be on; empty: of none
  std::string launcher_path = "pawl-launch";
  std::string trainer_path = "pawl-train";
};

std::string child_name(const std::string& job_name);  // "<job>-pawl-worker"
std::string child_name(const TrainingJob& job);
std::string pod_name(const TrainingJob& job, std::int64_t attempt, int slot, int n);
std::string pod_name(const std::string& job_name, std::int64_t attempt, int slot, int n);
// "pawl.dev/job-uid=<uid>": selects every pod of the job.
std::string pod_selector(const TrainingJob& job);
// Name, labels and owner of a child.
nlohmann::json metadata_of(const TrainingJob& job, const std::string& name);
// Every child's one owner: the job, as its controller.
nlohmann::json owner_reference_of(const TrainingJob& job);
// What a launcher starts. processesPerWorker, resolved: the number, else the GPUs of the worker
// container, else 1. Under MPI and Ray one program, which starts others or waits for one that does.
int processes_per_worker(const TrainingJob& job);
// The ranks that mpirun starts on a worker where the user does not say it: processesPerWorker,
// resolved as above.
int mpi_slots(const TrainingJob& job);

nlohmann::json service_account_of(const TrainingJob& job);
nlohmann::json role_of(const TrainingJob& job);
nlohmann::json role_binding_of(const TrainingJob& job);
// Lets no pod be evicted of which fewer than `least` would stay; 0: none at all.
nlohmann::json disruption_budget_of(const TrainingJob& job, int least);
// The number in it that says so.
int min_available_of(int least);
// Where kube-scheduler places a gang as a whole (scheduling.k8s.io): none of its pods gets a node
// before `least` of them can. Indivisible: who preempts one of them preempts all. One an attempt,
// so that its name is never used again.
nlohmann::json pod_group_of(const TrainingJob& job, std::int64_t attempt, int least,
                            bool is_indivisible);
std::string pod_group_name(const TrainingJob& job, std::int64_t attempt);
// Not those that are somebody else's to schedule (Kueue's, another scheduler's, in a group of the
// user's), nor what the API server lets into none.
bool may_join_pod_group(const TrainingJob& job);
nlohmann::json service_of(const TrainingJob& job);  // headless; where spec.hostnames asks for it
nlohmann::json worker_group_of(const TrainingJob& job, const WorkerGroupSpec& spec);
// restartPolicy Never; the launcher wraps the worker container's command; template's own values win
// where both set one.
Result<nlohmann::json> worker_pod_of(const TrainingJob& job, std::int64_t attempt, int slot, int n,
                                     const ChildOptions& options);

}  // namespace pawl::api
