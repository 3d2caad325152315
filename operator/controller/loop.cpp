#include "operator/controller/loop.h"

#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "common/kube/requests.h"
#include "operator/core/pods.h"

namespace pawl::controller {
namespace {

using std::chrono::milliseconds;

// A wall clock that steps is noticed at the latest after this.
constexpr std::chrono::minutes kWaitMax{10};
constexpr char kPlacementOff[] =
    "here the scheduler decides on nodes (the chart's placement.enabled is not set)";
constexpr int kRoundsMax = 4;  // in one turn; the next one is at most a few seconds away
// Of who waits for room these get news of it now and then; of a place farther back little is to be
// told that matters, and each telling is a write.
constexpr int kFrontMax = 64;
constexpr std::int64_t kReportSecondsMax = 3600;  // of the schema

bool is_orphaned(const JobEntry& entry, const api::ObjectMeta& meta) {
  return core::is_orphan(meta, entry.job ? entry.job->meta.uid : "");
}

// The orphans of one dead job; those of another come in a later pass.
core::Orphans orphans_of(const JobKey& key, const JobEntry& entry) {
  core::Orphans orphans;
  orphans.job_name = key.name;
  const auto is_of_it = [&](const api::ObjectMeta& meta) {
    if (!is_orphaned(entry, meta)) return false;
    const std::string& uid = meta.labels.at(api::kLabelJobUid);
    if (orphans.job_uid.empty()) orphans.job_uid = uid;
    return orphans.job_uid == uid;
  };
  if (entry.group && is_of_it(entry.group->meta)) orphans.group = entry.group.get();
  for (const auto& [name, pod] : entry.pods) {
    if (is_of_it(pod->meta)) orphans.pods.push_back(pod.get());
  }
  return orphans;
}

}  // namespace

ControllerLoop::ControllerLoop(kube::Transport& transport, const Clock& clock, Random random,
                               Log& log, std::shared_ptr<Inbox> inbox, LoopOptions options)
    : transport_(transport),
      clock_(clock),
      random_(random),
      log_(log),
      inbox_(std::move(inbox)),
      options_(std::move(options)),
      policy_(options_.policy),
      queue_reporter_(transport, log, inbox_),
      pod_groups_({transport, log, inbox_}, kube::resources::kPodGroups, options_.wants_pod_groups),
      provisioning_({transport, log, inbox_}, kube::resources::kProvisioningRequests,
                    options_.placement && !options_.policy.children.provisioning_class.empty()),
      is_leading_(!options_.is_standby) {
  contact_at_.fill(clock_.steady_now());
  if (options_.placement)
    placer_.emplace(*options_.placement, options_.patience, options_.policy, options_.flavors);
}

ControllerLoop::~ControllerLoop() { cancel_requests(); }

void ControllerLoop::cancel_requests() {
  for (const auto& [id, flight] : flights_) {
    for (const auto& [action, sent] : flight.sent) transport_.cancel(sent.handle);
  }
  queue_reporter_.cancel();
  pod_groups_.cancel();
  provisioning_.cancel();
}

bool ControllerLoop::is_synced() const {
  return std::ranges::all_of(is_synced_, [](bool synced) { return synced; }) &&
         pod_groups_.is_known() && (!placer_ || placer_->is_listed()) && provisioning_.is_known() &&
         (!provisioning_.is_served() || node_requests_.is_listed());
}

SteadyPoint ControllerLoop::last_contact() const { return *std::ranges::min_element(contact_at_); }

std::string ControllerLoop::metrics() const {
  return metrics_.text(cache_, queue_.size(), flights_.size());
}

std::optional<SteadyPoint> ControllerLoop::turn() {
  Mail mail = inbox_->take();
  receive(mail);
  if (may_plan()) {
    fire_timers();
    share_out_reports();
    for (const JobKey& key : std::exchange(gated_, {})) mark(key);
    if (placer_) hold_seats();
    consider_queued();
    // Nobody is given room before all of those that are there have asked.
    const bool decides = placer_ && unseen_.empty();
    for (int i = 0; decides && i < kRoundsMax && decide_on_room(); ++i) consider_queued();
  }
  std::optional<SteadyPoint> next = ask_what_is_served();
  if (!may_plan()) return next;
  const auto report = report_queues();
  if (report) next = std::min(next.value_or(SteadyPoint::max()), *report);
  const auto search = placer_ ? placer_->next_search() : std::nullopt;
  if (search) next = std::min(next.value_or(SteadyPoint::max()), steady_of(*search));
  if (!timers_.empty()) next = std::min(next.value_or(SteadyPoint::max()), timers_.begin()->first);
  return next;
}

std::optional<SteadyPoint> ControllerLoop::ask_what_is_served() {
  const auto groups = pod_groups_.turn(clock_.steady_now());
  const auto requests = provisioning_.turn(clock_.steady_now());
  return groups && requests ? std::min(*groups, *requests) : groups ? groups : requests;
}

std::optional<SteadyPoint> ControllerLoop::report_queues() {
  if (!placer_ || !options_.reports_queues) return std::nullopt;
  return queue_reporter_.turn(clock_.steady_now(), placer_->queue_changes(),
                              [this] { return placer_->queue_statuses(); });
}

void ControllerLoop::consider_queued() {
  while (!queue_.empty() && flights_.size() < options_.runs_max) {
    const JobKey key = std::move(queue_.front());
    queue_.pop_front();
    keyed_[key].is_queued = false;
    consider(key);
  }
}

bool ControllerLoop::may_plan() const {
  return is_leading_ && clock_.steady_now() < lead_until_ && is_synced() && is_caught_up();
}

// What a leader before has given away is known before anything is.
void ControllerLoop::hold_seats() {
  if (std::exchange(are_seats_held_, true)) return;
  for (const JobKey& key : cache_.keys()) {
    const JobEntry& entry = *cache_.find(key);
    if (entry.job) placer_->hold(key, observed(key, entry, keyed_[key]), clock_.now());
  }
}

// False: it is news for nobody.
bool ControllerLoop::decide_on_room() {
  const std::vector<JobKey> keys = placer_->decide(clock_.now());
  for (const JobKey& key : keys) mark(key);
  return !keys.empty();
}

void ControllerLoop::receive(Mail& mail) {
  queue_reporter_.receive(mail);
  pod_groups_.receive(mail, clock_.steady_now());
  policy_.pod_groups = pod_groups_.outcome();
  provisioning_.receive(mail, clock_.steady_now());
  policy_.provisioning = provisioning_.outcome();
  if (placer_) placer_->receive(mail);
  if (placer_) placer_->expect_nodes(policy_.asks_by_pods || provisioning_.is_served());
  for (const JobKey& key : node_requests_.receive(mail)) mark(key);
  for (const Change& change : mail.changes) {
    const auto key = cache_.apply(change);
    if (key && !(is_mutant(Mutant::kB32NotWoken) && change.kind == Kind::kPod)) mark(*key);
  }
  for (auto& [node, signal] : mail.signals) {
    for (const JobKey& key : cache_.apply_signal(node, std::move(signal))) mark(key);
  }
  if (mail.are_nodes_listed) {
    for (const JobKey& key : cache_.note_nodes_listed()) mark(key);
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (!mail.view[kind].empty()) {
      view_[kind] = std::move(mail.view[kind]);
      contact_at_[kind] = clock_.steady_now();
    }
    is_synced_[kind] = is_synced_[kind] || mail.is_synced[kind];
  }
  for (const Answer& answer : mail.answers) {
    const auto flight = flights_.find(answer.run);
    if (flight == flights_.end()) continue;
    const SteadyPoint sent_at = flight->second.sent[answer.action].at;
    flight->second.sent.erase(answer.action);
    metrics_.count_request(
        std::chrono::duration_cast<std::chrono::microseconds>(clock_.steady_now() - sent_at));
    flight->second.run->on_answer(answer.action, answer.result);
    send_ready(answer.run, flight->second);
    if (flight->second.run->is_over()) finish(answer.run);
  }
}

void ControllerLoop::mark(const JobKey& key) {
  if (!is_leading_) return;  // lead() marks all that is there then
  Keyed& keyed = keyed_[key];
  if (keyed.run != 0) {
    keyed.is_marked = true;
  } else if (!keyed.is_queued) {
    keyed.is_queued = true;
    queue_.push_back(key);
  }
}

void ControllerLoop::fire_timers() {
  const SteadyPoint now = clock_.steady_now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const JobKey key = timers_.begin()->second;
    timers_.erase(timers_.begin());
    keyed_[key].timer.reset();
    mark(key);
  }
}

// The more gangs run, the less often each reports, so that the API server's load has a bound. The
// interval goes in powers of two and comes down late: each change is a write to every WorkerGroup.
void ControllerLoop::share_out_reports() {
  const auto& phases = cache_.jobs_by_phase();
  const auto running = phases.find(api::phase::kRunning);
  const std::int64_t gangs = running == phases.end() ? 0 : running->second;
  const std::int64_t least = options_.policy.report_seconds, writes = 2 * gangs;
  std::int64_t seconds = policy_.report_seconds;
  while (writes > seconds * options_.writes_per_second_max && seconds * 2 <= kReportSecondsMax) {
    seconds *= 2;
  }
  while (seconds > least && writes * 3 <= seconds * options_.writes_per_second_max) seconds /= 2;
  if (seconds == policy_.report_seconds) return;
  policy_.report_seconds = static_cast<int>(seconds);
  for (const JobKey& key : cache_.keys()) mark(key);
}

// A wall clock may step: not too far ahead.
SteadyPoint ControllerLoop::steady_of(TimePoint time) const {
  // Apart, so that the difference of the farthest times does not overflow.
  const TimePoint now = clock_.now();
  if (time >= now + kWaitMax) return clock_.steady_now() + kWaitMax;
  return clock_.steady_now() + std::max<SteadyPoint::duration>(time - now, milliseconds{1});
}

// One timer a key; whoever asks for an earlier time wins, and a plan asks again each time.
void ControllerLoop::wake_at(const JobKey& key, SteadyPoint time) {
  Keyed& keyed = keyed_[key];
  if (keyed.timer && *keyed.timer <= time) return;
  if (keyed.timer) timers_.erase({*keyed.timer, key});
  keyed.timer = time;
  timers_.insert({time, key});
}

void ControllerLoop::consider(const JobKey& key) {
  Keyed& keyed = keyed_[key];
  unseen_.erase(key);
  if (keyed.run != 0) return;
  if (!gate_.is_open(key, cache_, view_)) {
    gated_.insert(key);
    return;
  }
  const JobEntry* entry = cache_.find(key);
  if (placer_ && (entry == nullptr || !entry->job)) release(key, entry);
  if (entry == nullptr) return forget_if_idle(key);
  if (clock_.steady_now() < keyed.not_before) return wake_at(key, keyed.not_before);
  core::Plan plan = decide(key, *entry, keyed);
  if (plan.wake_up) wake_at(key, steady_of(*plan.wake_up));
  if (!plan.actions.empty()) start(key, *entry, std::move(plan));
}

// On a lost node some pods never end: nobody waits for the room of those for ever.
void ControllerLoop::release(const JobKey& key, const JobEntry* entry) {
  constexpr std::chrono::minutes kEndsWithin{5};  // after its grace
  if (entry == nullptr) return placer_->release(key, 0, false);
  int active = 0;
  std::optional<TimePoint> given_up;
  for (const auto& [name, pod] : entry->pods) {
    if (core::is_terminal(*pod) || !core::is_left_of(key.name, pod->meta)) continue;
    if (!pod->meta.deletion_time) {
      ++active;
    } else if (clock_.now() < *pod->meta.deletion_time + kEndsWithin) {
      given_up = std::max(given_up.value_or(TimePoint{}), *pod->meta.deletion_time + kEndsWithin);
    }
  }
  if (given_up) wake_at(key, steady_of(*given_up));
  placer_->release(key, active, given_up.has_value());
}

core::Observed ControllerLoop::observed(const JobKey& key, const JobEntry& entry,
                                        const Keyed& keyed) const {
  core::Observed seen;
  seen.job = entry.job.get();
  seen.group = entry.group.get();
  for (const auto& [name, pod] : entry.pods) seen.pods.push_back(pod.get());
  shuffle_in_simulation(seen.pods);
  seen.refusal = keyed.refusal;
  seen.status_written_at = keyed.status_written_at;
  seen.signals = cache_.signals();
  seen.node_requests = node_requests_.of(key, clock_.now());
  return seen;
}

core::Plan ControllerLoop::decide(const JobKey& key, const JobEntry& entry, const Keyed& keyed) {
  core::Plan orphans = core::plan_orphans(orphans_of(key, entry));
  if (!orphans.actions.empty() || !entry.job) return orphans;
  core::Observed seen = observed(key, entry, keyed);
  const TimePoint now = clock_.now();
  if (placer_) {
    if (const auto until = placer_->hold(key, seen, now)) wake_at(key, steady_of(*until));
  }
  const std::string left_out = placer_ ? Placer::left_out(*entry.job) : kPlacementOff;
  if (placer_ || options_.wants_pod_groups)
    seen.placed_by = Placer::placed_by(*entry.job, left_out);
  core::Seating seating;
  if (left_out.empty()) {
    seating.is_void = placer_->is_void(key, seen, now);
    placer_->tell_order(key, seating);
    seating.rank_order = placer_->rank_order(seen);
    seen.seating = &seating;
  } else if (!policy_.children.is_local) {  // where all is on one machine, nothing is far
    seating.defect = Placer::defect_of(*entry.job, left_out);
    if (!seating.defect.empty()) seen.seating = &seating;
  }
  core::Plan plan = core::plan(seen, policy_, now);
  if (!placer_) return plan;
  if (!plan.asks_for_seats) {
    placer_->leave(key);
    return plan;
  }
  const auto answer = placer_->take_answer(key, *entry.job);
  if (!answer) {
    placer_->ask(key, seen, plan, now);
    const core::Seating* last = placer_->last_refusal(key);
    // A gang that has begun says what keeps its pods: what it was told stands until it hears more.
    if (last == nullptr || plan.seats_wanted.empty()) return plan;
    seating.obstacle = last->obstacle;
    seating.lacks_quota = last->lacks_quota;
    return core::plan(seen, policy_, now);
  }
  const bool is_asking = policy_.asks_by_pods || provisioning_.is_served();
  if (!answer->seating.obstacle.empty() && (answer->ahead < kFrontMax || is_asking))
    wake_at(key, clock_.steady_now() + policy_.message_every * (1 + answer->ahead / kFrontMax));
  const core::Seating before = std::exchange(seating, answer->seating);
  seating.is_void = before.is_void;
  seating.rank_order = before.rank_order;
  placer_->tell_order(key, seating);
  return core::plan(seen, policy_, now);
}

void ControllerLoop::forget_if_idle(const JobKey& key) {
  const auto found = keyed_.find(key);
  if (found == keyed_.end() || found->second.run != 0 || found->second.is_queued) return;
  if (found->second.timer) timers_.erase({*found->second.timer, key});
  keyed_.erase(found);
}

}  // namespace pawl::controller
