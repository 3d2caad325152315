// Answers that the pods give: what keeps them from starting, and what keeps old ones from ending.
#include <algorithm>

#include "cli/text.h"
#include "cli/why/reasons.h"
#include "common/api/pod_scheduling.h"

namespace pawl::cli::reasons {
namespace {

constexpr char kKueueGatePrefix[] = "kueue.x-k8s.io/";
constexpr char kKueueQueueLabel[] = "kueue.x-k8s.io/queue-name";

using Workers = std::vector<const SeenWorker*>;

// "pod a-1-0-0", "3 pods (first a-1-0-0)".
std::string pods_text(const Workers& workers) {
  const std::string& first = workers.front()->pod.meta.name;
  if (workers.size() == 1) return "pod " + first;
  return std::to_string(workers.size()) + " pods (first " + first + ")";
}

template <typename Claim>
Workers select(const Workers& workers, const Claim& claim) {
  Workers chosen;
  for (const SeenWorker* worker : workers) {
    if (!is_terminal(*worker) && claim(*worker)) chosen.push_back(worker);
  }
  return chosen;
}

std::string describe_pod(const JobSnapshot& snapshot, const SeenWorker& worker) {
  return kubectl(snapshot, "describe pod " + worker.pod.meta.name);
}

// ---- containers that wait

std::string next_for_waiting(const JobSnapshot& snapshot, const SeenWorker& worker) {
  const std::string& reason = worker.pod.waiting_reason;
  const bool is_image = contains(reason, "Image") || contains(reason, "ErrPull");
  if (is_image) {
    return "correct the image's name, push it, or give the template imagePullSecrets: " +
           edit_template(snapshot);
  }
  if (reason == "CreateContainerConfigError") {
    return "create the Secret or ConfigMap that the message names: the pods go on by themselves";
  }
  if (reason == "CrashLoopBackOff") {
    return "one of the containers beside the worker crashes again and again; read its log: " +
           kubectl(snapshot, "logs " + worker.pod.meta.name + " --all-containers --previous");
  }
  if (contains(reason, "Container") || contains(reason, "StartError")) {
    return "see that the command is in the image: " + edit_template(snapshot);
  }
  return describe_pod(snapshot, worker) + " shows more";
}

Answer from_waiting(const JobSnapshot& snapshot, const Workers& waiting) {
  const api::PodView& pod = waiting.front()->pod;
  std::string because = pods_text(waiting) + " cannot start: " + pod.waiting_reason;
  if (!pod.waiting_message.empty()) because += " (" + pod.waiting_message + ")";
  return {because, next_for_waiting(snapshot, *waiting.front())};
}

// ---- pods without a node

std::string next_for_unschedulable(const JobSnapshot& snapshot, const std::string& message) {
  const bool is_claim =
      contains(message, "persistentvolumeclaim") || contains(message, "PersistentVolumeClaim");
  if (is_claim && contains(message, "not found")) return "create the claim that the message names";
  if (is_claim) return "see why its claim is not bound: " + kubectl(snapshot, "get pvc");
  if (contains(message, "Insufficient")) {
    return "add nodes, free what others use, or ask for less: lower spec.replicas, or the "
           "template's resources.requests (" +
           edit_template(snapshot) + ")";
  }
  if (contains(message, "untolerated taint")) {
    return "add a toleration for that taint to the template, or remove the taint: " +
           edit_template(snapshot);
  }
  if (contains(message, "affinity") || contains(message, "selector")) {
    return "correct the template's nodeSelector or affinity, or label the nodes: " +
           edit_template(snapshot);
  }
  return "make room for it, or change what the template asks for: " + edit_template(snapshot);
}

Answer from_unschedulable(const JobSnapshot& snapshot, const Workers& pending, std::size_t total) {
  const std::string& message = pending.front()->pod.unschedulable_message;
  std::string because = "no node takes " + pods_text(pending) + ": " + message;
  const std::size_t others = total - pending.size();
  while (!because.empty() && (because.back() == '.' || because.back() == ' ')) because.pop_back();
  if (others > 0)
    because += "; " + count_text(static_cast<std::int64_t>(others), "worker") +
               " hold their places and wait";
  // A rule of ours stands in its affinity beside the template's.
  const bool is_never_on_spot =
      snapshot.job.spec.capacity && !api::may_be_on_spot(snapshot.job, pending.front()->slot) &&
      (contains(message, "affinity") || contains(message, "untolerated taint"));
  if (is_never_on_spot)
    return {
        because + "; spec.capacity keeps it from spot nodes",
        "add on-demand nodes, or change spec.capacity and then delete this pod: the next one is "
        "made by it"};
  return {because, next_for_unschedulable(snapshot, message)};
}

Answer from_gated(const JobSnapshot& snapshot, const Workers& gated) {
  const SeenWorker& first = *gated.front();
  const std::string& gate = first.gates.front();
  if (!gate.starts_with(kKueueGatePrefix)) {
    return {pods_text(gated) + " waiting for whoever set the scheduling gate " + gate,
            "ask that controller why, or remove the gate from the template"};
  }
  const auto label = first.pod.meta.labels.find(kKueueQueueLabel);
  const std::string queue =
      label == first.pod.meta.labels.end() ? "its queue" : "queue " + label->second;
  return {"Kueue has not admitted " + pods_text(gated) + " through " + queue,
          "wait for quota, or see what is before it: " + kubectl(snapshot, "get workloads") +
              ", then `describe` the one of this job"};
}

// ---- pods on a node whose containers are not there yet

const SeenEvent* newest_event(const JobSnapshot& snapshot, const std::string& pod) {
  const SeenEvent* newest = nullptr;
  for (const SeenEvent& event : snapshot.events) {
    if (event.kind == "Pod" && event.name == pod) newest = &event;
  }
  return newest;
}

Answer from_creating(const JobSnapshot& snapshot, const Workers& creating) {
  for (const SeenWorker* worker : creating) {
    const SeenEvent* event = newest_event(snapshot, worker->pod.meta.name);
    if (event == nullptr || !event->is_warning) continue;
    const bool is_volume = contains(event->reason, "Mount") || contains(event->reason, "Volume");
    return {pods_text({worker}) + " on node " + worker->pod.node +
                " does not come up: " + event->reason + " (" + event->message + ")",
            is_volume ? "see that the volume exists and can be mounted there: " +
                            kubectl(snapshot, "get pvc")
                      : "see the node: `kubectl describe node " + worker->pod.node + "`"};
  }
  const SeenWorker& first = *creating.front();
  const SeenEvent* event = newest_event(snapshot, first.pod.meta.name);
  std::string because = pods_text(creating) + ": the containers are being made";
  because += first.pod.meta.creation_time
                 ? " since " + age_text(first.pod.meta.creation_time, snapshot.now)
                 : "";
  if (event != nullptr) because += " (" + event->reason + ": " + event->message + ")";
  return {because, "wait; if it takes minutes, " + describe_pod(snapshot, first)};
}

Answer from_unready(const JobSnapshot& snapshot, const Workers& unready) {
  const bool has_gang = snapshot.group &&
                        snapshot.group->status.attempt == snapshot.job.status.attempt &&
                        snapshot.group->status.generation > 0;
  std::string because = pods_text(unready) + ": the containers run, but ";
  because += has_gang ? "they are not in the gang yet" : "the gang has not formed yet";
  const std::string log = "logs " + snapshot.job.meta.name + " --all-ranks --tail 20";
  return {because,
          "wait some seconds; if it stays, see that the pods reach each other and the API server "
          "(NetworkPolicy), and " +
              pawl(snapshot, log)};
}

// ---- pods that do not end

std::string node_text(const JobSnapshot& snapshot, const std::string& name) {
  const auto node = snapshot.nodes.find(name);
  if (node == snapshot.nodes.end()) return "node " + name;
  if (!node->second.exists) return "node " + name + ", which is gone";
  return "node " + name + (node->second.is_ready ? "" : ", which is not Ready");
}

}  // namespace

std::optional<Answer> from_ending_pods(const JobSnapshot& snapshot) {
  const std::string& reason = snapshot.job.status.reason;
  const bool is_ending = reason == "Suspending" ||
                         true_condition(snapshot, api::condition::kPreempted) != nullptr ||
                         true_condition(snapshot, api::condition::kSuccessCriteriaMet) != nullptr ||
                         true_condition(snapshot, api::condition::kFailureTarget) != nullptr;
  Workers ending;
  for (const SeenWorker& worker : snapshot.workers) {
    const bool is_waited_for = is_ending || worker.attempt < snapshot.job.status.attempt;
    if (is_waited_for && !is_terminal(worker) && worker.pod.meta.deletion_time)
      ending.push_back(&worker);
  }
  if (ending.empty()) return std::nullopt;
  const auto stuck = std::ranges::find_if(ending, [&](const SeenWorker* worker) {
    const auto node = snapshot.nodes.find(worker->pod.node);
    const bool is_node_lost = node != snapshot.nodes.end() && !node->second.is_ready;
    // The deletion time is when the grace period ends.
    return is_node_lost ||
           snapshot.now > *worker->pod.meta.deletion_time + std::chrono::seconds{30};
  });
  if (stuck == ending.end()) {
    if (is_ending) return std::nullopt;
    return Answer{"attempt " + std::to_string(snapshot.job.status.attempt) +
                      " starts when the last of an earlier attempt has ended: " +
                      pods_text(ending) + " still ending",
                  "wait for the grace period"};
  }
  const api::PodView& pod = (*stuck)->pod;
  return Answer{
      "pod " + pod.meta.name + " was told to end and has not, on " + node_text(snapshot, pod.node) +
          "; until it has ended for sure, nothing may take its place",
      "bring the node back; or, once the machine is surely off, `kubectl delete node " + pod.node +
          "` or " + kubectl(snapshot, "delete pod " + pod.meta.name + " --grace-period=0 --force")};
}

std::optional<Answer> from_starting_pods(const JobSnapshot& snapshot) {
  const Workers current = current_workers(snapshot);
  const auto waiting =
      select(current, [](const SeenWorker& worker) { return !worker.pod.waiting_reason.empty(); });
  if (!waiting.empty()) return from_waiting(snapshot, waiting);
  const auto gated =
      select(current, [](const SeenWorker& worker) { return !worker.gates.empty(); });
  if (!gated.empty()) return from_gated(snapshot, gated);
  const auto pending = select(current, [](const SeenWorker& worker) {
    return worker.pod.node.empty() && !worker.pod.unschedulable_message.empty();
  });
  if (!pending.empty()) return from_unschedulable(snapshot, pending, current.size());
  const auto creating = select(current, [](const SeenWorker& worker) {
    return worker.pod.phase == api::PodPhase::kPending && !worker.pod.node.empty();
  });
  if (!creating.empty()) return from_creating(snapshot, creating);
  if (snapshot.job.status.phase == api::phase::kRunning) return std::nullopt;
  const auto unready = select(current, [](const SeenWorker& worker) {
    return worker.pod.phase == api::PodPhase::kRunning && !worker.pod.is_ready;
  });
  if (unready.empty()) return std::nullopt;
  return from_unready(snapshot, unready);
}

}  // namespace pawl::cli::reasons
