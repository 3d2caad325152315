// A job with four workers as the API server shows it, to be changed by each test; and its snapshot.
#pragma once

#include <string>

#include "cli/cluster/snapshot.h"
#include "common/api/codec.h"
#include "common/base/json.h"

namespace pawl::cli {

struct SnapshotFixture {
  SnapshotFixture() {
    job.meta = {.name = "gpt",
                .ns = "team-a",
                .uid = "job-uid",
                .generation = 1,
                .creation_time = now - minutes(60)};
    job.spec.replicas = 4;
    job.spec.runtime_kind = api::RuntimeKind::kTorch;
    job.spec.template_json =
        R"({"spec":{"containers":[{"name":"worker","command":["x"],"resources":{"limits":{"memory":"8Gi"}}}]}})";
    job.status.observed_generation = 1;
    job.status.attempt = 2;
    say("Starting", "Starting", "0/4 workers ready");
  }

  static std::chrono::minutes minutes(int count) { return std::chrono::minutes{count}; }

  void say(const std::string& phase, const std::string& reason, const std::string& message) {
    job.status.phase = phase;
    job.status.reason = reason;
    job.status.message = message;
  }
  void hold(const std::string& type, const std::string& reason, const std::string& message) {
    job.status.conditions.push_back({.type = type,
                                     .status = "True",
                                     .reason = reason,
                                     .message = message,
                                     .last_transition_time = now - minutes(5)});
  }
  // A pod of the attempt, on a node, whose containers run; to be changed.
  SeenWorker& add_worker(int slot, std::int64_t attempt = 2) {
    SeenWorker worker;
    worker.attempt = attempt;
    worker.slot = slot;
    api::PodView& pod = worker.pod;
    const std::string place = std::to_string(attempt) + "-" + std::to_string(slot);
    pod.meta = {.name = "gpt-" + place + "-0",
                .ns = "team-a",
                .uid = "pod-" + place,
                .creation_time = now - minutes(2)};
    pod.phase = api::PodPhase::kRunning;
    pod.node = "node-" + std::to_string(slot);
    pod.worker_container = "worker";
    workers.push_back(worker);
    return workers.back();
  }
  void add_workers(int count) {
    for (int slot = 0; slot < count; ++slot) add_worker(slot);
  }
  // The gang's record: the pod of each slot has this rank.
  void form_gang(const std::vector<int>& rank_of_slot) {
    api::WorkerGroup record;
    record.status.attempt = job.status.attempt;
    record.status.generation = 1;
    for (std::size_t slot = 0; slot < rank_of_slot.size(); ++slot) {
      record.status.members.push_back({.ref = {"pod-2-" + std::to_string(slot), "start"},
                                       .address = "",
                                       .rank = rank_of_slot[slot]});
    }
    group = record;
  }
  JobSnapshot snapshot() const {
    JobSnapshot out;
    out.job = job;
    out.group = group;
    out.workers = workers;
    out.events = events;
    out.nodes = nodes;
    out.unread = unread;
    out.now = now;
    return out;
  }

  TimePoint now{std::chrono::seconds{1'800'000'000}};
  api::TrainingJob job;
  std::optional<api::WorkerGroup> group;
  std::vector<SeenWorker> workers;
  std::vector<SeenEvent> events;
  std::map<std::string, SeenNode> nodes;
  std::vector<std::string> unread;
};

}  // namespace pawl::cli
