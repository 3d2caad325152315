#include "samples.h"

#include "common/api/codec.h"
#include "common/base/check.h"

namespace pawl::api::samples {

using nlohmann::json;

namespace {

Progress full_progress() {
  return {.step = 120,
          .total_steps = 400,
          .percent = 30,
          .eta_seconds = 77,
          .loss = "2.3451",
          .samples_per_second = "120.5",
          .tokens_per_second = "15424",
          .epoch = 1,
          .validation = Validation{.step = 100,
                                   .loss = "2.4012",
                                   .accuracy = "0.3125",
                                   .best_step = 90,
                                   .best_loss = "2.3999"},
          .straggler = Straggler{.rank = 2, .pod = "gpt-2-2-0", .node = "node-c", .factor = "1.9"},
          .time = time_at(30)};
}

CheckpointStatus full_checkpoint() {
  return {.step = 100,
          .uri = "file:///data/step-00000100-a02-g0007",
          .time = time_at(20),
          .size_bytes = 123'456'789'012,
          .digest = "sha256:00ff",
          .count = 5};
}

Failure full_failure() {
  return {.rank = 3,
          .pod = "gpt-1-1-0",
          .node = "node-b",
          .pod_uid = "pod-uid",
          .exit_code = 1,
          .signal = 9,
          .cause = "Signal",
          .message = "rank 3 was killed",
          .log_tail = "line 1\nline 2\n",
          .attempt = 1,
          .generation = 6,
          .time = time_at(10)};
}

ObjectMeta full_meta() {
  return {.name = "gpt",
          .ns = "team",
          .uid = "job-uid",
          .resource_version = "12345678901234567890",
          .generation = 4,
          .creation_time = time_at(1),
          .deletion_time = time_at(50),
          .labels = {{"a", "b"}},
          .annotations = {{"c", "d"}},
          .owners = {
              {.api_version = "v1", .kind = "X", .name = "x", .uid = "u", .is_controller = true}}};
}

// Not by designated initialisers: g++ 12 takes the map in them for uninitialised.
TrainingJobStatus full_status() {
  TrainingJobStatus status;
  status.observed_generation = 4;
  status.phase = phase::kRunning;
  status.reason = "Training";
  status.message = "4 of 4 workers train";
  status.attempt = 2;
  status.start_time = time_at(2);
  status.completion_time = time_at(60);
  status.conditions = {{.type = condition::kRunning,
                        .status = "True",
                        .reason = "Training",
                        .message = "4 of 4",
                        .observed_generation = 4,
                        .last_transition_time = time_at(3)}};
  status.replicas = 4;
  status.ready_replicas = 3;
  status.ready = "3/4";
  status.selector = "pawl.dev/job-uid=job-uid";
  status.progress = full_progress();
  status.checkpoint = full_checkpoint();
  status.restarts.counted = 1;
  status.restarts.free = 2;
  status.restarts.by_cause = {{"Error", 1}, {"Evicted", 2}};
  status.restarts.without_progress = 1;
  status.restarts.progress_step = 90;
  status.restarts.spent = 1;
  status.recoveries.in_place = 3;
  status.recoveries.resizes = 2;
  status.recoveries.by_cause = {{"Hang", 1}, {"WorkerLost", 2}};
  status.placement = {3, "block-a/rack-3", {{"node-a", 2}, {"node-b", 1}}};
  status.goodput.productive_seconds = 900;
  status.goodput.lost_seconds = 100;
  status.goodput.percent = 90;
  status.goodput.lost_by_cause = {{"NodeLost", 40}, {"Redone", 60}};
  status.goodput.losing = "Error";
  status.goodput.before_seconds = 70;
  status.last_failure = full_failure();
  status.attempt_time = time_at(5);
  status.progress_time = time_at(31);
  status.excluded_nodes = {{.name = "node-c", .cause = "Error", .time = time_at(9)},
                           {.name = "node-d",
                            .cause = "Interrupted",
                            .time = time_at(10),
                            .until = time_at(40),
                            .message = "taint going",
                            .pods = {"gpt-1-0-0"}}};
  status.micro_batch = 4;
  return status;
}

}  // namespace

TimePoint time_at(int second) { return TimePoint{std::chrono::seconds{1'800'000'000 + second}}; }

TrainingJob full_job() {
  TrainingJob job;
  job.meta = full_meta();
  const FailureRule codes{.name = "codes",
                          .action = RuleAction::kFail,
                          .exit_codes = {3, 4},
                          .is_not_in = true,
                          .causes = {}};
  const FailureRule causes{.name = "causes",
                           .action = RuleAction::kReplaceNode,
                           .exit_codes = {},
                           .is_not_in = false,
                           .causes = {"OOM", "Hang"}};
  job.spec = {.managed_by = "example.com/other",
              .is_suspended = true,
              .replicas = 4,
              .processes_per_worker = 8,
              .template_json = R"({"spec":{"containers":[{"image":"i","name":"worker"}]}})",
              .strategy = Strategy::kRecreateAll,
              .max_restarts = 2,
              .reset_after_seconds = 600,
              .pod_termination_timeout_seconds = 30,
              .failure_rules = {codes, causes},
              .success_policy = SuccessPolicy::kRank0,
              .has_hostnames = true,
              .deadlines = {.active_seconds = 1, .start_seconds = 2, .progress_seconds = 30},
              .clean_pod_policy = CleanPodPolicy::kAll,
              .checkpoint = CheckpointSpec{.uri = "file:///data", .every_seconds = 30, .keep = 7},
              .runtime_kind = RuntimeKind::kNative,
              .runtime_config_json = R"({"steps":10})",
              .ttl_seconds_after_finished = 3600};
  job.status = full_status();
  return job;
}

WorkerGroup full_group() {
  WorkerGroup group;
  group.meta = full_meta();
  group.spec = {.attempt = 2,
                .min_members = 2,
                .target_members = 4,
                .stabilization_seconds = 30,
                .shortage_seconds = 20,
                .pods = {{.slot = 1, .name = "gpt-2-1-0", .uid = "u1", .n = 3, .order = 5},
                         {.slot = 2, .name = "gpt-2-2-0", .uid = "", .n = 0, .order = 1}},
                .checkpoint_now = 9,
                .is_stopping = true,
                .is_rank0_enough = true,
                .is_in_place = true,
                .has_successors = true,
                .pod_hash = "0123",
                .report_seconds = 20};
  const MemberRef first{.uid = "u1", .start = "s1"}, second{.uid = "u2", .start = "s2"};
  group.status = {
      .attempt = 2,
      .term = 3,
      .generation = 7,
      .leader = Leader{.ref = first, .address = "10.0.0.1:41000", .fingerprint = "ab01"},
      .members = {{.ref = first, .address = "10.0.0.1:41000", .rank = 0},
                  {.ref = second, .address = "10.0.0.2:41000", .rank = 1}},
      .start_step = 100,
      .base_generation = 6,
      .base_members = {first, second},
      .lineage = {{.attempt = 1, .generation = 6, .start_step = 0},
                  {.attempt = 2, .generation = 7, .start_step = 100}},
      .progress = full_progress(),
      .checkpoint = full_checkpoint(),
      .failures = {full_failure()},
      .checkpoint_failures = {.count = 2, .message = "no space", .time = time_at(40)},
      .checkpoint_done = 8,
      .is_finished = true};
  Tally tally;
  tally.recoveries.in_place = 3;
  tally.recoveries.resizes = 2;
  tally.recoveries.by_cause = {{"Hang", 1}, {"WorkerLost", 2}};
  tally.time.attempt = 2;
  tally.time.since = time_at(5);
  tally.time.counted_seconds = 640;
  tally.time.generation = 7;
  tally.time.step = 120;
  tally.time.productive_seconds = 900;
  tally.time.lost_by_cause = {{"Redone", 60}};
  group.spec.before = group.status.tally = tally;
  return group;
}

json native_job() {
  return parse_json(R"({"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob",
    "metadata": {"name": "gpt"}, "spec": {"runtime": {"kind": "Native"}}})");
}

json torch_job() {
  return parse_json(R"({"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob",
    "metadata": {"name": "mesh"},
    "spec": {"replicas": 2, "runtime": {"kind": "Torch"}, "template": {"spec": {"containers": [
      {"name": "worker", "image": "busybox", "command": ["python3", "train.py"], "args": ["--steps", "10"]}]}}}})");
}

TrainingJob observed(const json& object) {
  Result<TrainingJob> job = decode_training_job(object);
  PAWL_CHECK(job.has_value(), "a sample that does not decode");
  job->meta.ns = "team";
  job->meta.uid = "job-uid";
  return *job;
}

}  // namespace pawl::api::samples
