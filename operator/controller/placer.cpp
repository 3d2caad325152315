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

std::string id_of(const JobKey& key) { return key.ns + "/" + key.name; }
JobKey key_of(const std::string& id) {
  const auto slash = id.find('/');
  return {id.substr(0, slash), id.substr(slash + 1)};
}

// When its pods will have ended, if its time began then. A minute to end in is more than nearly all
// templates allow.
std::optional<TimePoint> end_after(const api::TrainingJob& job, std::optional<TimePoint> start) {
  const auto& limit = job.spec.deadlines.active_seconds;
  if (!limit || !start) return std::nullopt;
  return *start + std::chrono::seconds{*limit} + std::chrono::minutes{1};
}

// How long its pods will be there if they are placed now: the time of a first attempt begins then.
std::optional<std::chrono::seconds> run_max(const api::TrainingJob& job, TimePoint now) {
  const api::TrainingJobStatus& status = job.status;
  const bool is_first = !status.start_time || status.attempt_time <= status.start_time;
  const auto end = end_after(job, is_first ? now : status.start_time);
  if (!end) return std::nullopt;
  return std::chrono::ceil<std::chrono::seconds>(std::max(*end, now) - now);
}

// Of a gang that has begun; nothing: it only grows.
std::optional<TimePoint> lacking_since(const api::TrainingJob& job) {
  const auto& conditions = job.status.conditions;
  const auto restarting =
      std::ranges::find(conditions, api::condition::kRestarting, &api::Condition::type);
  const bool is_lacking = restarting != conditions.end() && restarting->status == "True";
  return is_lacking ? restarting->last_transition_time : std::nullopt;
}

}  // namespace

Placer::Placer(const placement::Levels& levels, admission::Patience patience,
               api::ChildOptions children)
    : levels_(levels), children_(std::move(children)), ledger_(levels.labels()), line_(patience) {}

bool Placer::is_listed() const {
  return are_hosts_listed_ && are_bookings_listed_ && are_classes_listed_;
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
    has_new_classes_ = true;
  }
  are_hosts_listed_ = are_hosts_listed_ || mail.are_hosts_listed;
  are_bookings_listed_ = are_bookings_listed_ || mail.are_bookings_listed;
  are_classes_listed_ = are_classes_listed_ || mail.are_classes_listed;
}

// ---- what is kept for a job

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

void Placer::hold(const JobKey& key, const core::Observed& seen) {
  const auto asked = asked_.find(key);
  if (asked != asked_.end() && !asked->second.offered.empty()) return;  // in no view yet
  ledger_.expect_end(id_of(key), end_after(*seen.job, seen.job->status.start_time));
  Held& held = held_[key];
  const std::vector<core::HeldSeat> seats = core::held_seats(seen);
  if (!seats.empty()) requests(*seen.job, held);
  promise(key, seats, held);
  if (held.pods.empty()) held_.erase(key);
}

void Placer::let_go(const JobKey& key) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  promise(key, {}, found->second);
  held_.erase(found);
}

void Placer::release(const JobKey& key) {
  ledger_.expect_end(id_of(key), std::nullopt);
  leave(key);
  let_go(key);
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
    const placement::Host* host = ledger_.find(node.name);
    return host == nullptr || !wanted.allow(*host) || ledger_.is_overbooked(node.name, each);
  });
}

// ---- who asks for what

// As if it had no nodes yet: it may have had some.
Result<json> Placer::pod_of(const api::TrainingJob& job, TimePoint now) const {
  api::ChildOptions children = children_;
  children.now = now;
  api::TrainingJob unplaced = job;
  unplaced.status.placement = {};
  return api::worker_pod_of(unplaced, job.status.attempt, 0, 0, children);
}

Result<std::int64_t> Placer::priority_of(const api::TrainingJob& job, const json& pod) const {
  const std::string own = job.spec.scheduling ? job.spec.scheduling->priority_class_name : "";
  const std::string name = own.empty() ? text_at(member_of(pod, "spec"), "priorityClassName") : own;
  const auto found = name.empty()
                         ? std::ranges::find_if(
                               classes_, [](const auto& entry) { return entry.second.is_default; })
                         : classes_.find(name);
  if (found != classes_.end()) return found->second.value;
  if (own.empty()) return 0;  // of the template's the API server says what is wrong with it
  return fail(Code::kInvalid, "spec.scheduling.priorityClassName: there is no PriorityClass \"" +
                                  own + "\": create it, or name another one");
}

Result<int> Placer::required_depth(const api::TrainingJob& job) const {
  const std::string level = api::required_level(job.spec.scheduling);
  if (level.empty()) return 0;
  if (const auto depth = levels_.depth_of(level)) return *depth;
  std::string known = placement::kHostLevel;
  for (int depth = levels_.host_depth() - 1; depth > 0; --depth)
    known += ", " + levels_.name_at(depth);
  return fail(Code::kInvalid, "spec.scheduling.topology: this cluster has no level \"" + level +
                                  "\" (it has " + known +
                                  "): name one of these, or have the level added to "
                                  "placement.levels of the chart");
}

// What is wrong with its place in line does not hold up a gang that has begun.
Result<admission::Gang> Placer::gang_of(const JobKey& key, const api::TrainingJob& job,
                                        bool is_underway, TimePoint now) const {
  PAWL_TRY(pod, pod_of(job, now));
  const auto priority = priority_of(job, pod);
  if (!priority && !is_underway) return tl::make_unexpected(priority.error());
  const auto depth = required_depth(job);
  if (!depth && !is_underway) return tl::make_unexpected(depth.error());
  admission::Gang gang{
      .id = id_of(key),
      .is_underway = is_underway,
      .priority = priority.value_or(0),
      .since = job.meta.creation_time.value_or(TimePoint{}),
      .waits_since = is_underway ? lacking_since(job) : job.status.attempt_time.value_or(now),
      .run_max = run_max(job, now),
      .shape = {placement::requests_of(pod), placement::Demands::of(member_of(pod, "spec"))},
      .ask = {.units = job.spec.replicas, .required_depth = depth.value_or(0)}};
  for (const api::ExcludedNode& node : job.status.excluded_nodes) {
    const bool is_over = node.until && node.cause != api::kCauseInterrupted && now >= *node.until;
    if (api::is_only_avoided(node) && !is_over) gang.avoided.insert(node.name);
  }
  return gang;
}

void Placer::ask(const JobKey& key, const core::Observed& seen, const core::Plan& plan,
                 TimePoint now) {
  const api::TrainingJob& job = *seen.job;
  if (plan.seats_wanted.empty()) let_go(key);  // what it has cannot be used
  Asked& asked = asked_[key];
  asked = {.attempt = job.status.attempt,
           .generation = job.meta.generation,
           .replicas = job.spec.replicas,
           .wanted = plan.seats_wanted};
  auto gang = gang_of(key, job, !asked.wanted.empty(), now);
  if (gang && gang->is_underway) {
    gang->ask.units = static_cast<int>(asked.wanted.size());
    for (const api::PodView* pod : seen.pods) {
      if (!pod->node.empty() && !core::is_terminal(*pod) && !core::is_terminating(*pod))
        gang->beside.push_back(pod->node);
    }
  }
  if (gang) {
    line_.join(std::move(*gang));
  } else {
    line_.leave(id_of(key));
    asked.answer = Answer{{.defect = gang.error().message}};
    answered_.push_back(key);
  }
}

void Placer::leave(const JobKey& key) {
  const auto found = asked_.find(key);
  if (found == asked_.end()) return;
  const std::vector<std::string> offered = std::move(found->second.offered);
  asked_.erase(found);
  line_.leave(id_of(key));
  if (offered.empty()) return;
  Held& held = held_[key];
  for (const std::string& pod : offered) {
    ledger_.withdraw(pod);
    std::erase(held.pods, pod);
    is_freed_ = true;
  }
  if (held.pods.empty()) held_.erase(key);
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
  if (!asked.offered.empty()) asked_.erase(found);
  return answer;
}

// ---- who gets what

void Placer::book(const admission::Gang& gang, const placement::Placement& placed, TimePoint now) {
  const JobKey key = key_of(gang.id);
  Asked& asked = asked_.at(key);
  std::vector<api::PlacedPod> pods = asked.wanted;
  for (int slot = 0; asked.wanted.empty() && slot < gang.ask.units; ++slot)
    pods.push_back({slot, 0, ""});
  auto next = pods.begin();
  for (const placement::Share& share : placed.shares) {
    for (int i = 0; i < share.units; ++i, ++next) next->node = ledger_.topology().host(share.host);
  }
  if (gang.run_max) ledger_.expect_end(gang.id, now + *gang.run_max);
  Held& held = held_[key];
  held.requests = gang.shape.requests;
  held.generation = asked.generation;
  for (const api::PlacedPod& pod : pods) {
    const std::string name =
        ledger_key(key, api::pod_name(key.name, asked.attempt, pod.slot, pod.n));
    ledger_.promise(name, {.host = pod.node, .requests = held.requests, .owner = gang.id});
    held.pods.push_back(name);
    asked.offered.push_back(name);
  }
  asked.answer = Answer{};
  if (asked.wanted.empty()) {
    asked.answer->seating.offer = status_of(placed, asked.attempt);
  } else {
    asked.answer->seating.later = std::move(pods);
  }
}

api::PlacementStatus Placer::status_of(const placement::Placement& placed, std::int64_t attempt) {
  const placement::Topology& topology = ledger_.topology();
  api::PlacementStatus status{.attempt = attempt, .level = levels_.name_at(placed.depth)};
  for (const placement::Share& share : placed.shares)
    status.nodes.push_back({topology.host(share.host), share.units});
  status.domain = placement::domain_of(topology, placed.depth, placed.shares.front().host).path;
  return status;
}

std::vector<JobKey> Placer::decide(TimePoint now) {
  std::vector<JobKey> keys = std::exchange(answered_, {});
  if (std::exchange(has_new_classes_, false)) {
    for (const auto& [key, asked] : asked_) {
      if (asked.offered.empty()) keys.push_back(key);
    }
  }
  const auto verdicts =
      line_.round(ledger_, std::exchange(is_freed_, false), now,
                  [&](const auto& gang, const auto& placed) { book(gang, placed, now); });
  for (const admission::Verdict& verdict : verdicts) {
    const JobKey key = key_of(verdict.id);
    keys.push_back(key);
    Asked& asked = asked_.at(key);
    if (!verdict.placement) asked.answer = refusal(verdict, asked.replicas, now);
  }
  return keys;
}

}  // namespace pawl::controller
