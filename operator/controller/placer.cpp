#include "operator/controller/placer.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/api/children.h"
#include "common/base/json.h"
#include "operator/controller/placer_gang.h"
#include "operator/controller/queue_limits.h"
#include "operator/core/node_steps.h"
#include "operator/core/pods.h"

namespace pawl::controller {
namespace {

// A lost worker's place, which needs no quota, does not wait for room to grow in.
std::vector<api::PlacedPod> first_wanted(const std::vector<api::PlacedPod>& wanted,
                                         const std::set<int>& charged) {
  std::vector<api::PlacedPod> lost;
  std::ranges::copy_if(wanted, std::back_inserter(lost),
                       [&](const auto& pod) { return charged.contains(pod.slot); });
  return lost.empty() ? wanted : lost;
}

// Where its members are, or are to be.
std::vector<std::string> nodes_of(const core::Observed& seen) {
  std::multiset<std::string> nodes;  // one for each pod
  std::set<std::string> known;
  for (const api::PodView* pod : seen.pods) {
    const bool is_bound = !pod->node.empty();
    if (is_bound || core::is_terminating(*pod)) known.insert(pod->meta.name);
    if (is_bound && !core::is_terminal(*pod) && !core::is_terminating(*pod))
      nodes.insert(pod->node);
  }
  for (const core::HeldSeat& seat : core::held_seats(seen)) {
    if (!known.contains(seat.pod)) nodes.insert(seat.node);
  }
  return {nodes.begin(), nodes.end()};
}

// Those that are lacking are no more than its spares: without them it is whole.
bool has_all_but_spares(const api::TrainingJob& job, const core::Plan& plan) {
  const int spares = plan.pods_wanted - job.spec.replicas;
  return spares > 0 && std::cmp_less_equal(plan.seats_wanted.size(), spares);
}

}  // namespace

Placer::Placer(const placement::Levels& levels, admission::Patience patience, core::Policy policy,
               Flavors flavors)
    : levels_(levels),
      policy_(std::move(policy)),
      flavors_(std::move(flavors)),
      ledger_(levels.labels()),
      line_(patience) {}

bool Placer::is_listed() const {
  return are_hosts_listed_ && are_bookings_listed_ && are_classes_listed_ && are_queues_listed_;
}

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
  for (const auto& [name, priority] : mail.classes) {
    if (priority) {
      classes_[name] = *priority;
    } else {
      classes_.erase(name);
    }
    has_new_rules_ = true;
  }
  for (auto& [name, queue] : mail.queues) {
    const bool is_news = queue ? quotas_.set(name, limits_of(*queue)) : quotas_.drop(name);
    is_freed_ = is_freed_ || is_news;
    has_new_rules_ = has_new_rules_ || is_news;
    if (queue) {
      queues_[name] = std::move(*queue);
    } else {
      queues_.erase(name);
    }
    if (is_news) rename_charges(name);
  }
  are_hosts_listed_ = are_hosts_listed_ || mail.are_hosts_listed;
  are_bookings_listed_ = are_bookings_listed_ || mail.are_bookings_listed;
  are_classes_listed_ = are_classes_listed_ || mail.are_classes_listed;
  are_queues_listed_ = are_queues_listed_ || mail.are_queues_listed;
}

// ---- what is kept for a job

void Placer::learn(const api::TrainingJob& job, Held& held) const {
  if (held.generation == job.meta.generation) return;
  const auto pod = api::worker_pod_of(job, job.status.attempt, 0, 0, policy_.children);
  held.requests = pod ? placement::requests_of(*pod) : placement::Resources{};
  held.flavor = pod ? flavor_of(flavors_, placement::Demands::of(member_of(*pod, "spec"))) : "";
  held.priority = pod ? priority_of(job, *pod).value_or(0) : 0;
  held.generation = job.meta.generation;
}

void Placer::promise(const JobKey& key, const std::vector<core::HeldSeat>& seats, Held& held) {
  std::set<std::string> kept;
  for (const core::HeldSeat& seat : seats) {
    const std::string pod = ledger_key(key, seat.pod);
    ledger_.promise(pod, {.host = seat.node, .requests = held.requests, .owner = id_of(key)});
    kept.insert(pod);
  }
  for (const std::string& pod : held.pods) {
    if (kept.contains(pod)) continue;
    ledger_.withdraw(pod);
    is_freed_ = true;
  }
  held.pods.assign(kept.begin(), kept.end());
}

std::optional<TimePoint> Placer::hold(const JobKey& key, const core::Observed& seen,
                                      TimePoint now) {
  const auto asked = asked_.find(key);
  if (asked != asked_.end() && !asked->second.offered.empty())
    return std::nullopt;  // in no view yet
  ledger_.expect_end(id_of(key), end_after(*seen.job, seen.job->status.start_time));
  Held& held = held_[key];
  note_anywhere(key, core::waits_anywhere(seen));
  const std::vector<core::HeldSeat> seats = core::held_seats(seen);
  if (!seats.empty()) learn(*seen.job, held);
  promise(key, seats, held);
  const auto until = charge(key, seen, held, now);
  note_occupant(key, seen, held, now);
  if (held.is_forgotten()) held_.erase(key);
  return until;
}

void Placer::let_go(const JobKey& key) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  promise(key, {}, found->second);
  if (found->second.is_forgotten()) held_.erase(found);
}

void Placer::release(const JobKey& key, int pods, bool is_ending) {
  ledger_.expect_end(id_of(key), std::nullopt);
  note_anywhere(key, false);
  leave(key);
  let_go(key);
  Held& held = held_[key];  // charged it may be for what is in no view yet
  held.charged.clear();
  held.charged_workers = std::min(held.charged_workers, pods);
  held.charged_attempt = -1;
  charge(key, held);
  is_ending ? preemptor_.note_end(id_of(key)) : preemptor_.note(id_of(key), std::nullopt);
  if (held.is_forgotten()) held_.erase(key);
}

bool Placer::is_void(const JobKey& key, const core::Observed& seen, TimePoint now) {
  const api::PlacementStatus& placement = seen.job->status.placement;
  const bool is_of_now = placement.attempt == seen.job->status.attempt;
  if (!is_of_now || placement.nodes.empty() || !seen.pods.empty()) return false;
  const auto asked = asked_.find(key);
  if (asked != asked_.end() && asked->second.wanted.empty()) return true;  // given back since
  const auto pod = pod_of(*seen.job, now);
  if (!pod) return false;
  const placement::Demands wanted = placement::Demands::of(member_of(*pod, "spec"));
  const placement::Resources each = placement::requests_of(*pod);
  return std::ranges::any_of(placement.nodes, [&](const api::PlacedNode& node) {
    if (node.name == api::kAnyNode) return !policy_.asks_by_pods;
    const placement::Host* host = ledger_.find(node.name);
    return host == nullptr || !wanted.allow(*host) || ledger_.is_overbooked(node.name, each);
  });
}

// ---- who asks for what

void Placer::ask(const JobKey& key, const core::Observed& seen, const core::Plan& plan,
                 TimePoint now) {
  const api::TrainingJob& job = *seen.job;
  if (plan.seats_wanted.empty()) let_go(key);  // what it has cannot be used
  const auto before = held_.find(key);
  std::set<int> charged = before == held_.end() ? std::set<int>{} : before->second.charged;
  const core::Staff staff = core::staff_of(seen, now);
  // Nodes that it was given in this attempt and could not use are no quota that it keeps, nor is
  // what a pod still has that it does without.
  const int kept = staff.is_between ? std::min(staff.kept, job.spec.replicas) : 0;
  std::erase_if(charged, [&](int slot) { return staff.given_up.contains(slot); });
  Asked& asked = asked_[key];
  if (asked.attempt != job.status.attempt) asked = {};
  hopeless_.erase(key);
  asked = {.attempt = job.status.attempt,
           .generation = job.meta.generation,
           .wanted = first_wanted(plan.seats_wanted, charged),
           .is_elastic = plan.members_least < job.spec.replicas || has_all_but_spares(job, plan),
           .refusal = std::move(asked.refusal),
           .lacks_nodes_since = asked.lacks_nodes_since,
           .asks_by_pods_after = core::asks_by_pods_after(job.status, policy_)};
  charge(key, seen, held_[key], now);
  auto gang = gang_of(key, job, !asked.wanted.empty(), now);
  const bool is_refused = seen.refusal && !core::is_of_node_request(*seen.refusal);
  if (gang) gang->is_refused = gang->is_refused || is_refused;
  if (gang) asked.whole = gang->ask;
  asked.is_elastic = asked.is_elastic && !asked.whole.has_slices();
  if (gang && asked.wanted.empty()) {
    want_all(plan, kept, *gang);
  } else if (gang) {
    const int lacking = static_cast<int>(plan.seats_wanted.size());
    gang->is_enough = plan.pods_wanted - lacking >= plan.members_least;
    if (gang->ask.slices.size > 1 && !want_slice(seen, asked, *gang))
      return refuse(key, asked, {.obstacle = "the others of their slice come or go first"});
    want_more(seen, asked, charged, *gang);
  }
  if (!gang) return refuse(key, asked, {.defect = gang.error().message});
  if (asked.wanted.empty() && is_hopeless(key, *gang, plan.members_least))
    return refuse(key, asked,
                  {.defect = hopeless_text(*gang, plan.members_least), .never_fits = true});
  const admission::Gang* known = line_.find(gang->id);
  if (known == nullptr || !admission::is_same_wish(*known, *gang)) preemptor_.want();
  line_.join(std::move(*gang));
}

// It is not in line, and holds nobody up.
void Placer::refuse(const JobKey& key, Asked& asked, core::Seating seating) {
  line_.leave(id_of(key));
  preemptor_.want();
  asked.answer = Answer{std::move(seating)};
  answered_.push_back(key);
}

// `kept`: workers that it has quota for.
void Placer::want_all(const core::Plan& plan, int kept, admission::Gang& gang) {
  const int all = gang.ask.units;
  gang.kept_units = std::min(kept, all);
  gang.keeps_quota = kept > 0 && !gang.queue.empty();
  if (gang.ask.has_slices()) return;
  gang.ask.units = plan.seats_least;
  gang.more_units = plan.members_least < all ? all - gang.ask.units : 0;
}

// Who can do without them takes of them what there is, and of new ones what nobody else waits for.
void Placer::want_more(const core::Observed& seen, const Asked& asked, const std::set<int>& charged,
                       admission::Gang& gang) {
  const int all = static_cast<int>(asked.wanted.size());
  gang.kept_units = static_cast<int>(std::ranges::count_if(
      asked.wanted, [&](const auto& pod) { return charged.contains(pod.slot); }));
  gang.ask.units = asked.is_elastic ? 1 : all;
  gang.more_units = all - gang.ask.units;
  gang.is_growth = asked.is_elastic && gang.kept_units == 0;
  gang.is_underway = !gang.is_growth;
  if (gang.is_growth) gang.waits_since.reset();
  gang.own = nodes_of(seen);
  if (gang.beside.empty()) gang.beside = gang.own;
}

void Placer::leave(const JobKey& key) {
  const auto found = asked_.find(key);
  if (found == asked_.end()) return;
  const std::vector<std::string> offered = std::move(found->second.offered);
  asked_.erase(found);
  hopeless_.erase(key);
  line_.leave(id_of(key));
  preemptor_.want();
  if (offered.empty()) return;
  note_anywhere(key, false);
  Held& held = held_[key];
  for (const std::string& pod : offered) {
    ledger_.withdraw(pod);
    std::erase(held.pods, pod);
    is_freed_ = true;
  }
  charge(key, held);
  if (held.is_forgotten()) held_.erase(key);
}

std::optional<Placer::Answer> Placer::take_answer(const JobKey& key, const api::TrainingJob& job) {
  const auto found = asked_.find(key);
  if (found == asked_.end() || !found->second.answer) return std::nullopt;
  const Asked& asked = found->second;
  if (asked.attempt != job.status.attempt || asked.generation != job.meta.generation) {
    leave(key);
    return std::nullopt;
  }
  auto answer = std::exchange(found->second.answer, std::nullopt);
  if (!asked.offered.empty()) {
    asked_.erase(found);
  } else {
    found->second.refusal = answer->seating;
  }
  return answer;
}

const core::Seating* Placer::last_refusal(const JobKey& key) const {
  const auto found = asked_.find(key);
  const bool is_told = found != asked_.end() && found->second.refusal;
  return is_told ? &*found->second.refusal : nullptr;
}

// ---- who gets what

void Placer::book(const admission::Gang& gang, const placement::Placement& placed, TimePoint now) {
  const JobKey key = key_of(gang.id);
  Asked& asked = asked_.at(key);
  const int units = admission::units_of(placed);
  std::vector<api::PlacedPod> pods = asked.wanted;
  for (int slot = 0; asked.wanted.empty() && slot < units; ++slot) pods.push_back({slot, 0, ""});
  pods.resize(static_cast<std::size_t>(units));
  auto next = pods.begin();
  for (const placement::Share& share : placed.shares) {
    for (int i = 0; i < share.units; ++i, ++next) next->node = ledger_.topology().host(share.host);
  }
  if (gang.run_max) ledger_.expect_end(gang.id, now + *gang.run_max);
  offer(gang, pods);
  if (!asked.wanted.empty()) return;
  note_booked(gang, units, now);
  asked.answer->seating.offer = status_of(placed, asked.attempt);
}

// Promised until they are bound, where they have nodes.
void Placer::offer(const admission::Gang& gang, const std::vector<api::PlacedPod>& pods) {
  const JobKey key = key_of(gang.id);
  Asked& asked = asked_.at(key);
  Held& held = held_[key];
  held.queue = gang.queue;
  held.requests = gang.shape.requests;
  held.flavor = flavor_of(flavors_, gang.shape.demands);
  held.priority = gang.priority;
  held.generation = asked.generation;
  for (const api::PlacedPod& pod : pods) {
    const std::string name =
        ledger_key(key, api::pod_name(key.name, asked.attempt, pod.slot, pod.n));
    if (pod.node != api::kAnyNode) {
      ledger_.promise(name, {.host = pod.node, .requests = held.requests, .owner = gang.id});
      held.pods.push_back(name);
    }
    asked.offered.push_back(name);
  }
  asked.answer = Answer{};
  if (!asked.wanted.empty()) asked.answer->seating.later = pods;
  preemptor_.want();  // who was asked before it may have something else by now
}

api::PlacementStatus Placer::status_of(const placement::Placement& placed, std::int64_t attempt) {
  const placement::Topology& topology = ledger_.topology();
  api::PlacementStatus status{.attempt = attempt, .level = levels_.name_at(placed.depth)};
  for (const placement::Share& share : placed.shares)
    status.nodes.push_back({topology.host(share.host), share.units});
  status.domain = placement::domain_of(topology, placed.depth, placed.shares.front().host).path;
  return status;
}

void Placer::give_room(TimePoint now, std::vector<JobKey>& keys) {
  const auto verdicts =
      line_.round({ledger_, quotas_}, std::exchange(is_freed_, false), now,
                  [&](const auto& gang, const auto& placed) { book(gang, placed, now); });
  bool has_taken_quota = false;
  for (const admission::Verdict& verdict : verdicts) {
    const JobKey key = key_of(verdict.id);
    keys.push_back(key);
    if (verdict.placement) continue;
    Asked& asked = asked_.at(key);
    const admission::Gang& gang = *line_.find(verdict.id);
    asked.answer = refusal(verdict, asked, now);
    // What is kept of quotas is known of the state before: one more at a time.
    const bool needs_quota = !gang.queue.empty();
    if ((needs_quota && has_taken_quota) || !may_be_anywhere(gang, asked, now)) continue;
    has_taken_quota = has_taken_quota || needs_quota;
    book_anywhere(admission::Gang(gang), now);  // the line drops it
  }
}

// Who has to leave is asked for those alone that get nothing as it is.
std::vector<JobKey> Placer::decide(TimePoint now) {
  std::vector<JobKey> keys = std::exchange(answered_, {});
  if (std::exchange(has_new_rules_, false)) {
    for (const auto& [key, asked] : asked_) {
      if (asked.offered.empty()) keys.push_back(key);
    }
    for (auto& [key, held] : held_) {
      held.generation = -1;  // priorities are learnt anew
      keys.push_back(key);
    }
  }
  review_hopeless(keys);
  if (is_freed_) preemptor_.want();
  if (!std::exchange(is_restored_, true)) preemptor_.restore({ledger_, quotas_}, line_, now);
  give_room(now, keys);
  const auto awaited = line_.awaited();
  for (const std::string& id : preemptor_.search({ledger_, quotas_}, line_, now))
    keys.push_back(key_of(id));
  if (line_.awaited() != awaited) give_room(now, keys);
  return keys;
}

}  // namespace pawl::controller
