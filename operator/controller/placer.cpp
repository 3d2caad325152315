#include "operator/controller/placer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/api/children.h"
#include "common/api/contract.h"
#include "common/api/pod_scheduling.h"
#include "common/base/json.h"

namespace pawl::controller {
namespace {

using nlohmann::json;

std::string ledger_key(const JobKey& key, const std::string& pod) { return key.ns + "/" + pod; }

// As a user would write it: thousandths of processors, and bytes in the largest unit without rest.
std::string text_of(const std::string& resource, std::int64_t quantity) {
  if (resource == placement::kCpu) {
    return quantity % 1'000 == 0 ? std::to_string(quantity / 1'000)
                                 : std::to_string(quantity) + "m";
  }
  const bool is_bytes = resource == "memory" || resource == "ephemeral-storage";
  std::string unit;
  for (const char* larger : {"Ki", "Mi", "Gi", "Ti"}) {
    if (!is_bytes || quantity < 1'024 || quantity % 1'024 != 0) break;
    quantity /= 1'024;
    unit = larger;
  }
  return std::to_string(quantity) + unit;
}

std::string text_of(const placement::Resources& requests) {
  std::string text;
  for (const auto& [resource, quantity] : requests) {
    if (resource == placement::kPods || quantity == 0) continue;
    text += (text.empty() ? "" : ", ") + resource + " " + text_of(resource, quantity);
  }
  return text;
}

std::string counted(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

Placer::Placer(const PlacementOptions& options, api::ChildOptions children)
    : children_(std::move(children)), ledger_(options.levels) {}

void Placer::receive(Mail& mail) {
  for (auto& [name, host] : mail.hosts) {
    const bool is_news = host ? ledger_.set_host(std::move(*host)) : ledger_.drop_host(name);
    is_freed_ = is_freed_ || is_news;
  }
  for (auto& [pod, booking] : mail.bookings) {
    const bool is_free =
        booking ? ledger_.see_pod(pod, std::move(*booking)) : ledger_.drop_pod(pod);
    is_freed_ = is_freed_ || is_free;
  }
  are_hosts_listed_ = are_hosts_listed_ || mail.are_hosts_listed;
  are_bookings_listed_ = are_bookings_listed_ || mail.are_bookings_listed;
}

const placement::Resources& Placer::requests(const api::TrainingJob& job, Held& held) const {
  if (held.generation != job.meta.generation) {
    const auto pod = api::worker_pod_of(job, job.status.attempt, 0, 0, children_);
    held.requests = pod ? placement::requests_of(*pod) : placement::Resources{};
    held.generation = job.meta.generation;
  }
  return held.requests;
}

void Placer::promise(const JobKey& key, const std::vector<core::HeldSeat>& seats, Held& held) {
  std::set<std::string> kept;
  for (const core::HeldSeat& seat : seats) {
    const std::string pod = ledger_key(key, seat.pod);
    ledger_.promise(pod, {seat.node, held.requests, false});
    kept.insert(pod);
  }
  for (const std::string& pod : held.pods) {
    if (kept.contains(pod)) continue;
    ledger_.withdraw(pod);
    is_freed_ = true;
  }
  held.pods.assign(kept.begin(), kept.end());
}

void Placer::hold(const JobKey& key, const core::Observed& seen) {
  Held& held = held_[key];
  const std::vector<core::HeldSeat> seats = core::held_seats(seen);
  if (!seats.empty()) requests(*seen.job, held);
  promise(key, seats, held);
  if (held.pods.empty()) held_.erase(key);
}

void Placer::release(const JobKey& key) {
  waiting_.erase(key);
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  promise(key, {}, found->second);
  held_.erase(found);
}

// Machines that are only to be avoided count as full, as long as there is room without them.
std::optional<placement::Placement> Placer::place(const api::TrainingJob& job,
                                                  const placement::Shape& shape, TimePoint now) {
  const placement::Ask ask{.units = job.spec.replicas};
  const placement::Topology& topology = ledger_.topology();
  const placement::Room& room = ledger_.room(shape);
  std::set<std::string> avoided;
  for (const api::ExcludedNode& node : job.status.excluded_nodes) {
    const bool is_over = node.until && node.cause != api::kCauseInterrupted && now >= *node.until;
    if (api::is_only_avoided(node) && !is_over) avoided.insert(node.name);
  }
  if (!avoided.empty()) {
    placement::Room others = room;
    for (int host = 0; host < topology.hosts(); ++host) {
      if (avoided.contains(topology.host(host))) others.units[static_cast<std::size_t>(host)] = 0;
    }
    if (auto placed = placement::place(topology, others, ask)) return placed;
  }
  return placement::place(topology, room, ask);
}

api::PlacementStatus Placer::status_of(const placement::Placement& placed, std::int64_t attempt) {
  const placement::Topology& topology = ledger_.topology();
  api::PlacementStatus status{.attempt = attempt};
  for (const placement::Share& share : placed.shares)
    status.nodes.push_back({topology.host(share.host), share.units});
  for (const placement::Domain& domain : topology.domains(placed.depth)) {
    const int first = placed.shares.front().host;
    if (domain.first_host <= first && first < domain.end_host) status.domain = domain.path;
  }
  return status;
}

std::string Placer::obstacle(const api::TrainingJob& job, const placement::Shape& shape) {
  const placement::Room& room = ledger_.room(shape);
  int fit = 0, nodes = 0;
  for (const int units : room.units) {
    fit += units;
    nodes += units > 0 ? 1 : 0;
  }
  const std::string each = text_of(shape.requests);
  return "no room for " + counted(job.spec.replicas, "worker") +
         (each.empty() ? "" : " of " + each + " each") + ": " + std::to_string(fit) +
         " would fit, on " + std::to_string(nodes) + " of " +
         counted(static_cast<int>(room.units.size()), "node") +
         "; it starts when pods end or nodes are added";
}

// Of a job whose template makes pods; of another size it may have been placed already.
placement::Demands Placer::demands(const api::TrainingJob& job, TimePoint now) const {
  api::ChildOptions children = children_;
  children.now = now;
  api::TrainingJob unplaced = job;
  unplaced.status.placement = {};
  const auto pod = api::worker_pod_of(unplaced, job.status.attempt, 0, 0, children);
  return pod ? placement::Demands::of(member_of(*pod, "spec")) : placement::Demands{};
}

bool Placer::is_void(const core::Observed& seen, TimePoint now) {
  const api::PlacementStatus& placement = seen.job->status.placement;
  const bool is_of_now = placement.attempt == seen.job->status.attempt;
  if (!is_of_now || placement.nodes.empty() || !seen.pods.empty()) return false;
  const placement::Demands wanted = demands(*seen.job, now);
  Held unheld;
  const placement::Resources& each = requests(*seen.job, unheld);
  return std::ranges::any_of(placement.nodes, [&](const api::PlacedNode& node) {
    const placement::Host* host = ledger_.find(node.name);
    return host == nullptr || !wanted.allow(*host) || ledger_.is_overbooked(node.name, each);
  });
}

core::Seating Placer::seat(const JobKey& key, const api::TrainingJob& job, TimePoint now) {
  Held& held = held_[key];
  promise(key, {}, held);  // an offer that nobody took
  const placement::Shape shape{requests(job, held), demands(job, now)};
  const auto placed = place(job, shape, now);
  if (!placed) {
    waiting_[key] = job.meta.creation_time.value_or(TimePoint{});
    held_.erase(key);
    return {.obstacle = obstacle(job, shape)};
  }
  waiting_.erase(key);
  core::Seating seating{.offer = status_of(*placed, job.status.attempt)};
  std::vector<core::HeldSeat> seats;
  for (int slot = 0; slot < job.spec.replicas; ++slot) {
    seats.push_back({api::pod_name(job, job.status.attempt, slot, 0),
                     api::node_of(*seating.offer, job.status.attempt, slot)});
  }
  promise(key, seats, held);
  return seating;
}

std::vector<JobKey> Placer::take_hopeful() {
  if (!std::exchange(is_freed_, false)) return {};
  std::vector<Waiting> sorted;
  for (const auto& [key, since] : std::exchange(waiting_, {})) sorted.push_back({since, key});
  std::ranges::sort(sorted);
  std::vector<JobKey> keys;
  for (Waiting& waiting : sorted) keys.push_back(std::move(waiting.key));
  return keys;
}

}  // namespace pawl::controller
