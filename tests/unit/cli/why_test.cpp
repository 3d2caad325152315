#include "cli/why/why.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/why_cases.h"

using namespace pawl;
using namespace pawl::cli;

namespace {

void wait_in(SnapshotFixture& fixture, const std::string& reason, const std::string& message) {
  fixture.add_workers(4);
  for (const int slot : {1, 2}) {
    SeenWorker& worker = fixture.workers[static_cast<std::size_t>(slot)];
    worker.pod.phase = api::PodPhase::kPending;
    worker.pod.waiting_reason = reason;
    worker.pod.waiting_message = message;
  }
}

void leave_unscheduled(SnapshotFixture& fixture, const std::string& message) {
  fixture.add_workers(4);
  SeenWorker& worker = fixture.workers[3];
  worker.pod.phase = api::PodPhase::kPending;
  worker.pod.node.clear();
  worker.pod.unschedulable_message = message;
}

// A pod of attempt 1 that was told to end, with this much of its grace period left.
void leave_ending(SnapshotFixture& fixture, std::chrono::seconds left) {
  SeenWorker& worker = fixture.add_worker(0, 1);
  worker.pod.meta.deletion_time = fixture.now + left;
  fixture.say("Restarting", "WaitingForPods", "1 pods of an earlier attempt have not ended yet");
}

void create_containers(SnapshotFixture& fixture, const SeenEvent& event) {
  fixture.add_workers(4);
  fixture.workers[0].pod.phase = api::PodPhase::kPending;
  fixture.events = {event};
}

void run(SnapshotFixture& fixture) {
  fixture.add_workers(4);
  for (SeenWorker& worker : fixture.workers) worker.pod.is_ready = true;
  fixture.say("Running", "Running", "4/4 workers ready in attempt 2");
  fixture.job.status.ready_replicas = 4;
  fixture.job.status.progress = api::Progress{.step = 40,
                                              .total_steps = 80,
                                              .percent = 50,
                                              .loss = "2.5",
                                              .time = fixture.now - std::chrono::seconds{4}};
}

const std::vector<Case> kCases = {
    // ---- nobody acts
    {"no operator", [](auto& f) { f.job.status = {}; },
     "nobody has looked at it in the 1h00m since it was created: no Pawl operator runs in this "
     "cluster",
     "kubectl get pods -A -l app.kubernetes.io/name=pawl"},
    {"created just now",
     [](auto& f) {
       f.job.status = {};
       f.job.meta.creation_time = f.now - std::chrono::seconds{2};
     },
     "it was created just now", "ask again"},
    {"changed spec", [](auto& f) { f.job.meta.generation = 3; },
     "generation 3) and the operator has acted on generation 1 only", "ask again"},
    {"status older than the pods",
     [](auto& f) {
       run(f);
       f.workers.clear();
     },
     "says Running, but it has no pods", "app.kubernetes.io/name=pawl"},
    // ---- the job's own object
    {"deleted",
     [](auto& f) {
       f.add_workers(2);
       f.job.meta.deletion_time = f.now;
     },
     "somebody deleted it; 2 pods have not ended yet", "it goes when they have"},
    {"complete",
     [](auto& f) {
       f.hold("Complete", "AllRanks", "all 4 workers succeeded after 1 restart");
       f.job.status.completion_time = f.now - f.minutes(3);
       f.job.status.checkpoint = api::CheckpointStatus{.step = 800, .uri = "file:///data/c"};
     },
     "all 4 workers succeeded after 1 restart, 3m00s ago", "the result is at file:///data/c"},
    {"failed of its own exit code",
     [](auto& f) {
       fail_with(f, failure_of("Error", 1));
       f.hold("Failed", "MaxRestartsReached", "rank 3 failed; 6 of 6 restarts used");
     },
     "6 of 6 restarts used; the last failure: rank 3 (pod gpt-1-3-0 on node node-3) ended with "
     "exit code 1",
     "`pawl logs gpt --rank 3 --attempt 1 -n team-a`; a failed job stays as it is"},
    {"failed for want of memory",
     [](auto& f) {
       fail_with(f, failure_of("OOM"));
       f.hold("Failed", "MaxRestartsReached", "6 of 6 restarts used");
     },
     "ran out of memory", "resources.limits.memory, now 8Gi) or lower the program's batch size"},
    {"ending after success",
     [](auto& f) {
       f.add_worker(0);
       f.hold("SuccessCriteriaMet", "AllRanks", "all 4 workers succeeded");
     },
     "it has succeeded (all 4 workers succeeded) and ends when its pods have ended: 1 pod has not",
     "wait"},
    {"suspended",
     [](auto& f) {
       f.job.spec.is_suspended = true;
       f.hold("Suspended", "Suspended", "suspended in attempt 2; saved at step 40");
     },
     "spec.suspend is true: suspended in attempt 2; saved at step 40",
     R"(`kubectl -n team-a patch tj gpt --type merge -p '{"spec":{"suspend":false}}'`)"},
    {"about to resume", [](auto& f) { f.hold("Suspended", "Suspended", "suspended in attempt 2"); },
     "it is about to resume", "wait"},
    {"suspending",
     [](auto& f) {
       f.add_workers(3);
       f.say("Running", "Suspending", "suspending; 3 workers have not ended yet");
     },
     "its workers save and leave: 3 pods have not ended yet", "Suspended when they have ended"},
    {"making room for another job",
     [](auto& f) {
       f.add_workers(3);
       f.hold("Preempted", "Leaving", "job team-b/first of priority 9 needs its room");
     },
     "job team-b/first of priority 9 needs its room; its workers save and leave: 3 pods have not "
     "ended yet",
     "goes on from its checkpoint"},
    // ---- stalled
    {"quota refused",
     [](auto& f) {
       f.hold(
           "Stalled", "Forbidden",
           R"(creating pod gpt-2-0-0 was refused: pods "gpt-2-0-0" is forbidden: exceeded quota: gpus, limited: 8)");
     },
     "exceeded quota: gpus", "`kubectl -n team-a describe resourcequota`"},
    {"pod security",
     [](auto& f) { f.hold("Stalled", "Forbidden", R"(violates PodSecurity "restricted:latest")"); },
     "violates PodSecurity", "securityContext"},
    {"operator without the right",
     [](auto& f) { f.hold("Stalled", "Forbidden", "pods is forbidden: User x cannot"); },
     "User x cannot", "give the operator that right"},
    {"rejected template",
     [](auto& f) { f.hold("Stalled", "Rejected", "spec.containers[0].name: Required value"); },
     "Required value",
     "correct what the message names; set spec.suspend to true, then correct spec.template"},
    {"template that is no pod",
     [](auto& f) { f.hold("Stalled", "InvalidTemplate", "the worker container has no command"); },
     "its template cannot become a pod: the worker container has no command",
     "`kubectl -n team-a edit tj gpt`"},
    {"level that is not there",
     [](auto& f) {
       f.hold("Stalled", "InvalidScheduling",
              "spec.scheduling.topology: this cluster has no level");
     },
     "this cluster has no level", "`kubectl -n team-a edit tj gpt`"},
    {"larger than the cluster",
     [](auto& f) {
       f.hold("Stalled", "NeverFits",
              "this cluster will never hold 40 workers of nvidia.com/gpu 8 each: 16 would fit");
     },
     "will never hold 40 workers", "`kubectl -n team-a edit tj gpt`"},
    {"name conflict",
     [](auto& f) {
       f.hold("Stalled", "NameConflict",
              "pod gpt-2-0-0 exists and belongs to somebody else: delete it");
     },
     "belongs to somebody else", "give the job another name"},
    // ---- pods that have to end first
    {"terminating on a lost node",
     [](auto& f) {
       leave_ending(f, std::chrono::seconds{10});
       f.nodes["node-0"] = {.exists = true, .is_ready = false};
     },
     "pod gpt-1-0-0 was told to end and has not, on node node-0, which is not Ready",
     "`kubectl delete node node-0` or `kubectl -n team-a delete pod gpt-1-0-0 --grace-period=0 "
     "--force`"},
    {"terminating on a node that is gone",
     [](auto& f) {
       leave_ending(f, std::chrono::seconds{10});
       f.nodes["node-0"] = {.exists = false, .is_ready = false};
     },
     "node node-0, which is gone", "once the machine is surely off"},
    {"terminating beyond its grace, node unknown",
     [](auto& f) { leave_ending(f, std::chrono::seconds{-60}); },
     "was told to end and has not, on node node-0; until", "bring the node back"},
    {"terminating within its grace", [](auto& f) { leave_ending(f, std::chrono::seconds{10}); },
     "attempt 2 starts when the last of an earlier attempt has ended: pod gpt-1-0-0 still ending",
     "grace period"},
    {"suspending, stuck on a lost node",
     [](auto& f) {
       f.say("Running", "Suspending", "suspending");
       f.add_worker(0).pod.meta.deletion_time = f.now - f.minutes(5);
     },
     "pod gpt-2-0-0 was told to end and has not", "--force"},
    // ---- pods that do not start
    {"image pull",
     [](auto& f) { wait_in(f, "ImagePullBackOff", "Back-off pulling image \"no/such\""); },
     "2 pods (first gpt-2-1-0) cannot start: ImagePullBackOff (Back-off pulling image \"no/such\")",
     "imagePullSecrets"},
    {"secret missing",
     [](auto& f) { wait_in(f, "CreateContainerConfigError", "secret \"s\" not found"); },
     "CreateContainerConfigError (secret \"s\" not found)", "create the Secret or ConfigMap"},
    {"sidecar crash loop", [](auto& f) { wait_in(f, "CrashLoopBackOff", "back-off 40s"); },
     "CrashLoopBackOff (back-off 40s)",
     "`kubectl -n team-a logs gpt-2-1-0 --all-containers --previous`"},
    {"command missing", [](auto& f) { wait_in(f, "RunContainerError", "exec: \"x\": not found"); },
     "RunContainerError", "see that the command is in the image"},
    {"unschedulable for GPUs",
     [](auto& f) {
       leave_unscheduled(f, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. ");
     },
     "no node takes pod gpt-2-3-0: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu; 3 "
     "workers hold their places",
     "lower spec.replicas"},
    {"unschedulable for a taint",
     [](auto& f) { leave_unscheduled(f, "3 node(s) had untolerated taint {a: b}"); },
     "untolerated taint", "add a toleration"},
    {"unschedulable for a selector",
     [](auto& f) { leave_unscheduled(f, "3 node(s) didn't match Pod's node affinity/selector"); },
     "affinity/selector", "nodeSelector or affinity"},
    {"claim missing",
     [](auto& f) { leave_unscheduled(f, "persistentvolumeclaim \"data\" not found"); },
     "persistentvolumeclaim \"data\" not found", "create the claim"},
    {"claim not bound",
     [](auto& f) { leave_unscheduled(f, "pod has unbound immediate PersistentVolumeClaims"); },
     "unbound immediate", "`kubectl -n team-a get pvc`"},
    {"not admitted by Kueue",
     [](auto& f) {
       leave_unscheduled(f, "Scheduling is blocked due to non-empty scheduling gates");
       f.workers[3].gates = {"kueue.x-k8s.io/admission"};
       f.workers[3].pod.meta.labels["kueue.x-k8s.io/queue-name"] = "team";
     },
     "Kueue has not admitted pod gpt-2-3-0 through queue team",
     "`kubectl -n team-a get workloads`"},
    {"somebody's scheduling gate",
     [](auto& f) {
       leave_unscheduled(f, "gated");
       f.workers[3].gates = {"example.com/wait"};
     },
     "waiting for whoever set the scheduling gate example.com/wait", "ask that controller"},
    {"volume not mounted",
     [](auto& f) {
       create_containers(f, {true, "FailedMount", "timed out", "Pod", "gpt-2-0-0", f.now});
     },
     "pod gpt-2-0-0 on node node-0 does not come up: FailedMount (timed out)",
     "can be mounted there"},
    {"sandbox fails",
     [](auto& f) {
       create_containers(f,
                         {true, "FailedCreatePodSandBox", "no network", "Pod", "gpt-2-0-0", f.now});
     },
     "FailedCreatePodSandBox (no network)", "`kubectl describe node node-0`"},
    {"image is being pulled",
     [](auto& f) {
       create_containers(f, {false, "Pulling", "Pulling image \"x\"", "Pod", "gpt-2-0-0", f.now});
     },
     "pod gpt-2-0-0: the containers are being made since 2m00s (Pulling: Pulling image \"x\")",
     "wait"},
    {"gang does not form", [](auto& f) { f.add_workers(4); },
     "4 pods (first gpt-2-0-0): the containers run, but the gang has not formed yet",
     "NetworkPolicy"},
    {"one worker is not in the gang",
     [](auto& f) {
       f.add_workers(4);
       f.form_gang({0, 1, 2});
       for (const std::size_t slot : {0U, 1U, 2U}) f.workers[slot].pod.is_ready = true;
     },
     "pod gpt-2-3-0: the containers run, but they are not in the gang yet", "--all-ranks"},
    // ---- running
    {"running", [](auto& f) { run(f); },
     "all 4 workers run in attempt 2; step 40/80 (50%), loss 2.5000", "nothing to do"},
    {"running, one worker not ready",
     [](auto& f) {
       run(f);
       f.say("Running", "Running", "3/4 workers ready in attempt 2");
       f.job.status.ready_replicas = 3;
     },
     "3/4 workers ready in attempt 2; step 40/80", "nothing to do"},
    {"running, and much was lost",
     [](auto& f) {
       run(f);
       f.job.status.goodput.percent = 61;
       f.job.status.goodput.lost_by_cause = {{"NodeLost", 40}, {"Redone", 90}};
     },
     "61% of its time went into new steps, most of the rest was lost to Redone (1m30s)",
     "nothing to do"},
    {"running, and spot is avoided",
     [](auto& f) {
       run(f);
       f.job.status.capacity = {.is_spot_avoided = true,
                                .until = f.now + std::chrono::seconds{150}};
     },
     "spot machines were taken back too often, so new workers prefer others for another 2m30s",
     "nothing to do"},
    {"unschedulable because spec.capacity keeps it from spot",
     [](auto& f) {
       f.job.spec.capacity = api::Capacity{};
       leave_unscheduled(f, "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity");
     },
     "spec.capacity keeps it from spot nodes", "change spec.capacity and then delete this pod"},
    {"running without a word",
     [](auto& f) {
       run(f);
       f.job.status.progress.reset();
     },
     "the training reports no steps", "`pawl logs gpt --follow -n team-a`"},
    {"running, but hanging",
     [](auto& f) {
       run(f);
       f.job.status.progress->time = f.now - f.minutes(23);
     },
     "but no step has been reported for 23m00s", "see whether it hangs"},
    {"running, checkpoints not well",
     [](auto& f) {
       run(f);
       f.job.status.conditions.push_back({.type = "CheckpointHealthy",
                                          .status = "False",
                                          .reason = "Full",
                                          .message = "the volume is full"});
     },
     "but its checkpoints are not well: the volume is full", "before a restart needs them"},
    // ---- in the operator's own words
    {"waiting for the culprit",
     [](auto& f) { f.say("Running", "MemberLost", "rank 1 failed; waiting for the report"); },
     "rank 1 failed; waiting for the report", "passes by itself"},
    {"waiting for what is left of a deleted job",
     [](auto& f) {
       f.say("Starting", "WaitingForCleanup", "WorkerGroup gpt is left of a deleted job");
     },
     "is left of a deleted job", "passes by itself"},
    {"there is no room for the whole gang",
     [](auto& f) { f.say("Starting", "WaitingForRoom", "no room for 4 workers: 3 would fit"); },
     "3 would fit", "or lower spec.replicas"},
    {"its queue has no quota left",
     [](auto& f) { f.say("Starting", "WaitingForQuota", "no quota for 4 workers in queue a"); },
     "in queue a", "`kubectl get tq`"},
    {"nothing special",
     [](auto& f) { f.say("Starting", "Starting", "attempt 2 starts with 4 workers"); },
     "attempt 2 starts with 4 workers", "`kubectl -n team-a describe tj gpt` shows the events"},
};

}  // namespace

TEST_CASE("why: each phase and obstacle has its answer and its next step", "[cli]") {
  check_answers(kCases);
}

TEST_CASE("why: the answer is one paragraph", "[cli]") {
  SnapshotFixture fixture;
  fixture.unread = {"events: you may not"};
  fixture.say("Starting", "Starting", "attempt 2 starts with 4 workers.");
  CHECK(why_paragraph(fixture.snapshot()) ==
        "gpt is Starting: attempt 2 starts with 4 workers. Next: ask again in a moment; `kubectl "
        "-n team-a describe tj "
        "gpt` shows the events. (Not seen: events: you may not.)\n");
}
