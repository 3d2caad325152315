#include "cli/cluster/snapshot.h"

#include <algorithm>
#include <tuple>

#include "common/api/children.h"
#include "common/api/codec.h"
#include "common/base/json.h"
#include "operator/core/pods.h"

namespace pawl::cli {
namespace {

using nlohmann::json;
namespace resources = kube::resources;

const kube::Resource kNodes{"", "v1", "nodes", "Node", false};
constexpr std::size_t kNodesMax = 8;      // a page names no more
constexpr std::size_t kJobsNamedMax = 8;  // in one sentence

// Old and new writers of events put the time in different places.
TimePoint event_time(const json& event) {
  TimePoint newest{};
  const json series = event.value("series", json::object());
  for (const std::string& text :
       {text_at(event, "lastTimestamp"), text_at(event, "eventTime"),
        text_at(series, "lastObservedTime"), text_at(event, "firstTimestamp")}) {
    if (const auto time = parse_time(text)) newest = std::max(newest, *time);
  }
  return newest;
}

SeenNode decode_node(const json& node) {
  SeenNode seen;
  const json conditions = node.value(json::json_pointer("/status/conditions"), json::array());
  for (const json& condition : conditions) {
    if (text_at(condition, "type") == "Ready")
      seen.is_ready = text_at(condition, "status") == "True";
  }
  return seen;
}

void note(JobSnapshot& snapshot, const char* what, const Error& error) {
  snapshot.unread.push_back(std::string(what) + ": " + error.message);
}

// "; there are a, b and 3 more"
std::string jobs_text(const std::vector<json>& jobs) {
  std::string text;
  for (std::size_t i = 0; i < std::min(jobs.size(), kJobsNamedMax); ++i) {
    text += (text.empty() ? "" : ", ") + text_at(jobs[i].value("metadata", json::object()), "name");
  }
  if (jobs.size() > kJobsNamedMax)
    text += " and " + std::to_string(jobs.size() - kJobsNamedMax) + " more";
  if (jobs.empty()) return ", nor any other";
  return (jobs.size() == 1 ? "; there is " : "; there are ") + text;
}

// No job of this name: where else might it be, and what might have been meant?
std::string missing_text(Connection& connection, const std::string& name) {
  const std::string& ns = connection.ns();
  if (!connection.has_namespace(ns)) return "there is no namespace " + ns + ": correct -n";
  std::string text = "no TrainingJob " + name + " in namespace " + ns;
  const auto elsewhere = connection.list(resources::kTrainingJobs, "", "", "metadata.name=" + name);
  if (elsewhere && !elsewhere->empty()) {
    const std::string other =
        text_at(elsewhere->front().value("metadata", json::object()), "namespace");
    return text + "; there is one in namespace " + other + ": add -n " + other;
  }
  const auto others = connection.list(resources::kTrainingJobs, ns);
  return text + (others ? jobs_text(*others) : ": `pawl status` lists what there is");
}

Status read_workers(Connection& connection, JobSnapshot& snapshot, RawSnapshot* raw) {
  PAWL_TRY(pods, connection.list(resources::kPods, snapshot.job.meta.ns,
                                 api::pod_selector(snapshot.job)));
  for (const json& pod : pods) {
    if (auto worker = decode_worker(snapshot.job.meta.name, pod)) {
      snapshot.workers.push_back(std::move(*worker));
    }
  }
  // Names in one place of one attempt differ in the number at their end.
  std::ranges::sort(snapshot.workers, {}, [](const SeenWorker& worker) {
    const std::string& name = worker.pod.meta.name;
    return std::tuple{worker.attempt, worker.slot, name.size(), name};
  });
  if (raw != nullptr) raw->pods = std::move(pods);
  return {};
}

Status read_group(Connection& connection, JobSnapshot& snapshot, RawSnapshot* raw) {
  auto object = connection.get(resources::kWorkerGroups, snapshot.job.meta.name);
  if (!object && object.error().code == Code::kNotFound) return {};
  if (!object) return tl::make_unexpected(object.error());
  PAWL_TRY(group, api::decode_worker_group(*object));
  if (!core::is_owned_by(group.meta, snapshot.job.meta.uid)) return {};
  snapshot.group = std::move(group);
  if (raw != nullptr) raw->group = std::move(*object);
  return {};
}

Status read_events(Connection& connection, JobSnapshot& snapshot, RawSnapshot* raw) {
  PAWL_TRY(events, connection.list(resources::kEvents, snapshot.job.meta.ns));
  for (json& object : events) {
    const std::string about = text_at(object.value("involvedObject", json::object()), "uid");
    const bool is_ours = about == snapshot.job.meta.uid ||
                         std::ranges::any_of(snapshot.workers, [&](const SeenWorker& worker) {
                           return worker.pod.meta.uid == about;
                         });
    if (about.empty() || !is_ours) continue;
    snapshot.events.push_back(decode_event(object));
    if (raw != nullptr) raw->events.push_back(std::move(object));
  }
  std::ranges::stable_sort(snapshot.events, {}, &SeenEvent::time);
  return {};
}

void read_nodes(Connection& connection, JobSnapshot& snapshot) {
  for (const SeenWorker& worker : snapshot.workers) {
    const std::string& name = worker.pod.node;
    const bool is_asked = worker.pod.meta.deletion_time && !name.empty() &&
                          !snapshot.nodes.contains(name) && snapshot.nodes.size() < kNodesMax;
    if (!is_asked) continue;
    const auto node = connection.get(kNodes, name);
    if (node) {
      snapshot.nodes[name] = decode_node(*node);
    } else if (node.error().code == Code::kNotFound) {
      snapshot.nodes[name] = {.exists = false, .is_ready = false};
    } else {
      return note(snapshot, "nodes", node.error());
    }
  }
}

}  // namespace

Result<SeenWorker> decode_worker(const std::string& job_name, const json& pod) {
  PAWL_TRY(view, api::decode_pod(pod));
  SeenWorker worker;
  if (const auto identity = core::parse_pod_name(job_name, view.meta.name)) {
    worker.attempt = identity->attempt;
    worker.slot = identity->slot;
  }
  worker.pod = std::move(view);
  const json gates = pod.value(json::json_pointer("/spec/schedulingGates"), json::array());
  for (const json& gate : gates) worker.gates.push_back(text_at(gate, "name"));
  return worker;
}

SeenEvent decode_event(const json& event) {
  const json about = event.value("involvedObject", json::object());
  return {.is_warning = text_at(event, "type") == "Warning",
          .reason = text_at(event, "reason"),
          .message = text_at(event, "message"),
          .kind = text_at(about, "kind"),
          .name = text_at(about, "name"),
          .time = event_time(event)};
}

Result<JobSnapshot> take_snapshot(Connection& connection, const std::string& job_name,
                                  SnapshotParts parts, TimePoint now, RawSnapshot* raw) {
  if (connection.ns().empty()) {
    return fail(Code::kInvalid, "a job by its name is in one namespace: use -n instead of -A");
  }
  auto object = connection.get(resources::kTrainingJobs, job_name);
  if (!object && object.error().code == Code::kNotFound &&
      object.error().message.find("not found") != std::string::npos) {
    return fail(Code::kNotFound, missing_text(connection, job_name));
  }
  if (!object) return tl::make_unexpected(object.error());
  JobSnapshot snapshot;
  PAWL_TRY(job, api::decode_training_job(*object));
  snapshot.job = std::move(job);
  snapshot.now = now;
  if (raw != nullptr) raw->job = std::move(*object);
  if (const auto read = read_group(connection, snapshot, raw); !read) {
    note(snapshot, "WorkerGroup", read.error());
  }
  if (const auto read = read_workers(connection, snapshot, raw); !read) {
    note(snapshot, "pods", read.error());
  }
  if (parts.events) {
    const auto read = read_events(connection, snapshot, raw);
    if (!read) note(snapshot, "events", read.error());
  }
  if (parts.nodes) read_nodes(connection, snapshot);
  return snapshot;
}

std::string job_name_of(const std::string& word) {
  const auto slash = word.find('/');
  if (slash == std::string::npos) return word;
  const std::string kind = word.substr(0, slash);
  const bool is_ours = kind == "tj" || kind == "trainingjob" || kind == "trainingjobs" ||
                       kind == "trainingjob.pawl.dev" || kind == "trainingjobs.pawl.dev";
  return is_ours ? word.substr(slash + 1) : word;
}

const api::Member* member_of(const JobSnapshot& snapshot, const std::string& pod_uid) {
  if (!snapshot.group || snapshot.group->status.attempt != snapshot.job.status.attempt) {
    return nullptr;
  }
  for (const api::Member& member : snapshot.group->status.members) {
    if (member.ref.uid == pod_uid) return &member;
  }
  return nullptr;
}

std::string ranks_text(const JobSnapshot& snapshot, const api::PodView& pod) {
  const api::Member* member = member_of(snapshot, pod.meta.uid);
  if (member == nullptr) return "-";
  const int processes = api::processes_per_worker(snapshot.job);
  const int first = member->rank * processes;
  if (processes == 1) return std::to_string(first);
  return std::to_string(first) + "-" + std::to_string(first + processes - 1);
}

}  // namespace pawl::cli
