// Oracles over nodes and quotas: where pods are made, and how many at one time.
#include <map>
#include <set>

#include "common/api/codec.h"
#include "common/base/clock.h"
#include "operator/controller/placer.h"
#include "operator/controller/queue_limits.h"
#include "operator/core/failures.h"
#include "operator/core/plan.h"
#include "tests/sim/oracles.h"
#include "tests/sim/people.h"

namespace pawl::sim {

using kube::resources::kPods;
using nlohmann::json;

namespace {

// By the machine's name, which ends with its number (Nodes::hosts).
std::string rack_of(const std::string& node) {
  const auto dash = node.rfind('-');
  return dash == std::string::npos ? node : std::to_string(std::stoi(node.substr(dash + 1)) / 2);
}

}  // namespace

bool Oracles::is_left_to_scheduler(const local::Object& job) const {
  if (!knobs_.places || job == nullptr) return false;
  const auto decoded = api::decode_training_job(*job);
  return decoded && !controller::Placer::left_out(*decoded).empty();
}

// Who comes into a gang that the scheduler has placed is the scheduler's, too.
void Oracles::i43_pod_is_placed(const json& pod, const PodFacts& facts) {
  const auto job = job_of(facts.job_uid);
  if (!knobs_.places || !job || truth_.jobs[facts.job_uid].was_status_cut) return;
  if (!is_capacity_seen(facts.job_uid) || !controller::Placer::left_out(*job).empty()) return;
  const auto left_out = left_out_.find(facts.job_uid);
  if (left_out != left_out_.end() && !is_seen(left_out->second)) return;  // decided before
  const auto moves = job->status.restarts.by_cause.find(core::cause::kUnschedulable);
  if (moves != job->status.restarts.by_cause.end() && moves->second >= core::Policy{}.moves_max)
    return;
  const api::PlacementStatus& placement = job->status.placement;
  if (placement.attempt != facts.attempt && facts.n > 0) return;
  const std::string node = node_of(placement, facts.attempt, facts.slot, facts.n);
  const std::string wanted = node == api::kAnyNode ? "" : node;
  if (node.empty() || bound_for(pod) != wanted)
    fail("I43", "pod " + text_at_pointer(pod, "/metadata/name") + " is made for \"" +
                    bound_for(pod) + "\", and its status says \"" + node + "\"");
}

// Of the attempts that are under way, and of those that stop; what is left of others is on its way
// out. A pod that is given up counts no more.
void Oracles::i44_quotas_are_kept(const json& pod, const PodFacts& facts) {
  const auto job = job_of(facts.job_uid);
  if (!knobs_.has_queues || !job || controller::queue_name(*job).empty()) return;
  std::map<std::string, std::set<std::pair<std::string, int>>> used;  // by queue: job and slot
  for (const local::Object& other : api_.all(kPods)) {
    const auto theirs = facts_of(*other);
    if (!theirs || !is_owned_by(*other, theirs->job_uid) || is_terminal_pod(*other)) continue;
    const auto owner = job_of(theirs->job_uid);
    if (!owner || theirs->attempt != owner->status.attempt) continue;
    if (is_given_up(*other, theirs->job_uid)) continue;
    if (truth_.jobs[theirs->job_uid].was_status_cut) return;
    used[controller::queue_name(*owner)].insert({theirs->job_uid, theirs->slot});
  }
  const auto first = used["first"].size(), second = used["second"].size();
  if (second > kMostOfSecond || first + second > kMostOfBoth) {
    fail("I44", "pod " + text_at_pointer(pod, "/metadata/name") + " is made, and the queues use " +
                    std::to_string(first) + " and " + std::to_string(second));
  }
}

// Of an attempt that ends for its start.
void Oracles::i46_start_had_its_time(const JobWrite& write) {
  const auto& scheduling = write.before.spec.scheduling;
  if (!scheduling || !scheduling->start_timeout_seconds)
    return fail("I46", "a start has taken too long, and may take for ever");
  if (is_true(write.before, condition::kRunning)) fail("I46", "it runs, and is to start again");
  const auto& begun = write.before.status.attempt_time;
  const seconds limit{*scheduling->start_timeout_seconds};
  if (knobs_.clock_step == 0 && begun && engine_.clock().now() < *begun + limit)
    fail("I46", "a start has had less than its time");
}

// Of an attempt that ends because its nodes did not come.
void Oracles::i52_nodes_had_their_time(const JobWrite& write) {
  const TrainingJobStatus& before = write.before.status;
  api_.count_fault("nodes did not come");
  if (!is_anywhere(before.placement)) fail("I52", "nodes did not come, and none were to");
  if (is_true(write.before, condition::kRunning)) fail("I52", "it runs, and waits for nodes");
  const auto waited = core::Policy{}.provisioning_after + kAnywhereMax;
  if (knobs_.clock_step == 0 && before.attempt_time &&
      engine_.clock().now() < *before.attempt_time + waited)
    fail("I52", "nodes had less than their time to come");
}

// Of a pod that was made without a node: none has come for it, and it has waited for as long as it
// may (I52). The operator's clock may be ahead.
bool Oracles::has_found_no_node(const json& pod, const PodFacts& facts) const {
  constexpr seconds kClockAhead{31};
  const auto job = job_of(facts.job_uid);
  const auto since = parse_time(text_at_pointer(pod, "/metadata/creationTimestamp"));
  if (!knobs_.asks_by_pods || !job || !since) return false;
  const api::PlacementStatus& placement = job->status.placement;
  const bool is_anywhere =
      node_of(placement, facts.attempt, facts.slot, facts.n) == api::kAnyNode ||
      api::is_given_up(placement, facts.attempt, facts.slot, facts.n);  // as it is deleted
  const bool is_bound = !text_at_pointer(pod, "/spec/nodeName").empty() || !bound_for(pod).empty();
  const seconds early = knobs_.clock_step > 0 ? kClockAhead : seconds{0};
  return is_anywhere && !is_bound && engine_.clock().now() + early >= *since + kAnywhereMax;
}

// It has waited for room until then, in this attempt.
void Oracles::i52_has_waited(const JobWrite& write) {
  const TrainingJobStatus &before = write.before.status, &after = write.after.status;
  const bool was_there =
      is_anywhere(before.placement) && before.placement.attempt == after.placement.attempt;
  const auto& later = after.placement.later;
  const bool is_later = std::ranges::find(later, kAnyNode, &PlacedPod::node) != later.end();
  if ((is_later || is_anywhere(after.placement)) && !knobs_.asks_by_pods)
    return fail("I52", "no autoscaler hears of pods here");
  if (is_later && later != before.placement.later) api_.count_fault("member without a node");
  if (was_there || !is_anywhere(after.placement)) return;
  api_.count_fault("gang without nodes");
  if (knobs_.clock_step == 0 && after.attempt_time &&
      engine_.clock().now() < *after.attempt_time + core::Policy{}.provisioning_after)
    fail("I52", write.after.meta.name + " has not waited for room");
}

// By each slot's node, or its last one: what comes in place of a lost member has the same domain,
// or all of its slice has another one.
void Oracles::i53_slices_are_whole(const JobWrite& write) {
  const TrainingJobStatus& status = write.after.status;
  const auto& scheduling = write.after.spec.scheduling;
  if (!scheduling || !scheduling->slices || status.placement.nodes.empty()) return;
  if (status.placement == write.before.status.placement) return;
  const auto [size, level] = *scheduling->slices;
  std::vector<std::string> nodes;  // by slot
  for (const PlacedNode& node : status.placement.nodes)
    nodes.insert(nodes.end(), static_cast<std::size_t>(node.workers), node.name);
  for (const PlacedPod& pod : status.placement.later) {
    nodes.resize(std::max(nodes.size(), static_cast<std::size_t>(pod.slot) + 1));
    nodes[static_cast<std::size_t>(pod.slot)] = pod.node;
  }
  std::map<std::size_t, std::set<std::string>> domains;  // by slice
  for (std::size_t slot = 0; slot < nodes.size(); ++slot) {
    if (nodes[slot].empty()) continue;
    const std::string domain = level == "host" ? nodes[slot] : rack_of(nodes[slot]);
    domains[slot / static_cast<std::size_t>(size)].insert(domain);
  }
  api_.count_fault("slices are placed");
  for (const auto& [slice, touched] : domains) {
    if (touched.size() > 1)
      fail("I53", "slice " + std::to_string(slice) + " of " + write.after.meta.name + " lies in " +
                      std::to_string(touched.size()) + " domains");
  }
}

}  // namespace pawl::sim
