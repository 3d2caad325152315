#include "tests/sim/oracles.h"

#include <algorithm>

#include "common/api/codec.h"

namespace pawl::sim {

using kube::resources::kPods;
using kube::resources::kTrainingJobs;
using kube::resources::kWorkerGroups;
using nlohmann::json;

namespace {

// Generous: a job of four workers that starts anew each two seconds needs some hundreds.
constexpr seconds kViewLag{3};
constexpr int kRequestsPerMinuteMax = 6'000;
constexpr int kStatusWritesPerMinuteMax = 500;  // of one job
constexpr std::size_t kObjectBytesMax = 48 * 1024;

}  // namespace

bool is_owned_by(const json& object, const std::string& uid) {
  const auto& meta = object.at("metadata");
  if (!meta.contains("ownerReferences")) return false;
  return std::ranges::any_of(meta.at("ownerReferences"),
                             [&](const json& owner) { return owner.value("uid", "") == uid; });
}

Oracles::Oracles(Engine& engine, ApiServer& api, const Knobs& knobs, Truth& truth)
    : engine_(engine), api_(api), knobs_(knobs), truth_(truth) {
  api_.observe(*this);
}

void Oracles::fail(const std::string& oracle, const std::string& message) {
  if (failure_) return;
  failure_ = Failure{oracle, message};
  engine_.trace("FAILED " + oracle + ": " + message);
  engine_.stop();
}

std::optional<api::TrainingJob> Oracles::job_of(const std::string& uid) const {
  for (const local::Object& object : api_.all(kTrainingJobs)) {
    if (object->at("metadata").at("uid") != uid) continue;
    auto job = api::decode_training_job(*object);
    return job ? std::optional{std::move(*job)} : std::nullopt;
  }
  return std::nullopt;
}

local::Object Oracles::group_of(const std::string& job_uid) const {
  for (const local::Object& object : api_.all(kWorkerGroups)) {
    if (is_owned_by(*object, job_uid)) return object;
  }
  return nullptr;
}

int Oracles::active_pods(const std::string& job_uid) const {
  int count = 0;
  for (const local::Object& pod : api_.all(kPods)) {
    if (!is_owned_by(*pod, job_uid) || is_terminal_pod(*pod)) continue;
    if (!is_given_up(*pod, job_uid)) ++count;
  }
  return count;
}

int Oracles::noticed_pods(const std::string& job_uid) const {
  constexpr seconds kLateMax{10};
  const local::Object group = group_of(job_uid);
  const auto record = group ? api::decode_worker_group(*group) : fail_with({}, "no group");
  int count = active_pods(job_uid);
  for (const local::Object& pod : api_.all(kPods)) {
    if (!is_owned_by(*pod, job_uid) || is_terminal_pod(*pod) || is_given_up(*pod, job_uid))
      continue;
    const auto made = parse_time(text_at_pointer(*pod, "/metadata/creationTimestamp"));
    const bool is_on_record =
        record && std::ranges::any_of(record->spec.pods, [&](const api::EligiblePod& one) {
          return one.uid == text_at_pointer(*pod, "/metadata/uid");
        });
    if (made && engine_.clock().now() - *made <= kLateMax && !is_on_record) --count;
  }
  return count;
}

bool Oracles::has_given_up_pods(const std::string& job_uid) const {
  return std::ranges::any_of(api_.all(kPods), [&](const local::Object& pod) {
    return is_owned_by(*pod, job_uid) && is_given_up(*pod, job_uid);
  });
}

// The API server's deletion time is the end of the grace period. The operator's clock may be ahead.
bool Oracles::is_given_up(const json& pod, const std::string& job_uid) const {
  constexpr seconds kClockAhead{31};
  const auto deleted = parse_time(text_at_pointer(pod, "/metadata/deletionTimestamp"));
  const auto job = job_of(job_uid);
  if (!deleted || !job) return false;
  const seconds early = knobs_.clock_step > 0 ? kClockAhead : seconds{0};
  const seconds patience{job->spec.pod_termination_timeout_seconds};
  return engine_.clock().now() + early >= *deleted + patience;
}

void Oracles::on_request(Actor actor, const kube::HttpRequest& request) {
  if (actor != Actor::kOperator && actor != Actor::kLauncher) return;
  o04_writes_are_guarded(actor, request);
  if (actor != Actor::kOperator) return;
  o08_no_hot_loop(request);
  o02_no_second_creation(request);
}

// Every deletion carries the UID of what it means, every change of ours the version it was decided
// on.
void Oracles::o04_writes_are_guarded(Actor actor, const kube::HttpRequest& request) {
  const std::string who = actor_name(actor);
  if (request.method == kube::Method::kDelete) {
    const json body = parse_json(request.body);
    if (!body.is_object() || text_at_pointer(body, "/preconditions/uid").empty()) {
      fail("O4", who + " deletes " + request.target + " without a UID");
    }
  } else if (request.method == kube::Method::kPatch) {
    const json body = parse_json(request.body);
    if (text_at_pointer(body, "/metadata/resourceVersion").empty()) {
      fail("O4", who + " writes " + request.target + " without a resourceVersion");
    }
  }
}

void Oracles::o08_no_hot_loop(const kube::HttpRequest& request) {
  if (engine_.elapsed() - minute_ > seconds{60}) {
    minute_ = engine_.elapsed();
    requests_this_minute_ = 0;
    status_writes_.clear();
  }
  if (++requests_this_minute_ > kRequestsPerMinuteMax) {
    fail("O8", "the operator sent " + std::to_string(requests_this_minute_) +
                   " requests within a minute");
  }
  const Path path = path_of(request);
  if (request.method != kube::Method::kPatch || path.subresource != "status") return;
  if (++status_writes_[path.name] > kStatusWritesPerMinuteMax) {
    fail("O8", "the status of " + path.name + " is written over and over");
  }
}

// Where nothing goes wrong, nothing is asked for twice.
void Oracles::o02_no_second_creation(const kube::HttpRequest& request) {
  if (!is_calm() || request.method != kube::Method::kPost) return;
  const json body = parse_json(request.body);
  const std::string uid = text_at_pointer(body, "/metadata/ownerReferences/0/uid");
  if (uid.empty() || path_of(request).plural == "events") return;
  // What a deleted job left is in the way, and goes: then its children are asked for again.
  for (const auto& [key, object] : api_.store().objects()) {
    const bool is_there = key.plural == path_of(request).plural &&
                          key.name == text_at_pointer(body, "/metadata/name");
    if (is_there && !is_owned_by(*object, uid)) obstructed_.insert(uid);
  }
  if (obstructed_.contains(uid)) return;
  std::string what = text_at_pointer(body, "/kind") + " " + text_at_pointer(body, "/metadata/name");
  const auto job = job_of(uid);
  if (job && job->meta.deletion_time) return;  // a view that is behind makes it ask for conflicts
  const auto gone = gone_.find(uid);
  if (gone != gone_.end() && engine_.elapsed() - gone->second.since < kViewLag) return;
  // Each attempt that runs sees to it that there is one, and each edit of the job that changes how
  // many pods it keeps; an edit that the operator has yet to see, or a launcher's word in the
  // record, voids the write that follows, and both are made anew.
  if (text_at_pointer(body, "/kind") == "PodDisruptionBudget" && job) {
    if (job->status.observed_generation < job->meta.generation) return;
    what += " of attempt " + std::to_string(job->status.attempt) + " and generation " +
            std::to_string(job->meta.generation);
    const Written& written = record_writes_[uid];
    // The newest may be one that the operator had yet to see.
    const int unseen = engine_.elapsed() - written.last < kViewLag ? 1 : 0;
    const int first =
        writes_at_creation_.try_emplace(uid + what, written.count - unseen).first->second;
    if (++creations_[uid + what] <= 1 + written.count - first) return;
    return fail("O2", what + " is made more often than launchers have written the record");
  }
  if (++creations_[uid + what] > 1) fail("O2", what + " is created twice though nothing failed");
}

void Oracles::on_change(Actor actor, const local::Change& change) {
  o09_old_attempts_leave();
  const json& after = *change.after;
  const std::string plural{change.key.plural};
  if (actor == Actor::kOperator) ++operator_writes_;
  if (plural == "trainingjobs") {
    const std::string uid = text_at_pointer(after, "/metadata/uid");
    const bool is_gone = change.is_deletion || after.at("metadata").contains("deletionTimestamp");
    if (is_gone) gone_.try_emplace(uid, Gone{engine_.elapsed(), truth_.blind});
    if (is_left_to_scheduler(change.before)) left_out_[uid] = engine_.elapsed();
    if (actor != Actor::kOperator) return;
    o13_objects_stay_small(change);
    change.is_deletion ? i11_ttl_is_over(after) : on_job_written(change);
  } else if (plural == "workergroups") {
    o13_objects_stay_small(change);
    if (actor == Actor::kLauncher) {
      Written& written = record_writes_[text_at_pointer(after, "/metadata/ownerReferences/0/uid")];
      written = {written.count + 1, engine_.elapsed()};
    }
    if (actor == Actor::kLauncher) o09_record_moves_forward(change);
    if (actor == Actor::kLauncher) o09_old_attempts_are_silent(change);
    if (actor == Actor::kLauncher) i38_commits_are_counted(change);
    if (actor == Actor::kLauncher) i35_gang_is_large_enough(change);
    if (actor == Actor::kLauncher) i50_gang_is_small_enough(change);
    if (actor == Actor::kLauncher) i51_ranks_have_their_order(change);
    if (actor == Actor::kLauncher) i37_no_victim_is_named(change);
    if (actor != Actor::kOperator || change.is_deletion) return;
    i51_deals_with_pods(change);
    i01_group_follows_status(change);
    i02_children_before_group(change);
    i33_places_have_losses(change);
  } else if (plural == "pods") {
    if (!text_at_pointer(after, kTerminationMessage).empty())
      ended_.try_emplace(text_at_pointer(after, "/metadata/uid"),
                         Gone{engine_.elapsed(), truth_.blind});
    if (actor != Actor::kOperator) return;
    const bool is_dying = change.is_deletion || after.at("metadata").contains("deletionTimestamp");
    const bool was_dying =
        change.before != nullptr && change.before->at("metadata").contains("deletionTimestamp");
    if (change.before == nullptr) on_pod_created(after);
    if (is_dying && !was_dying) on_pod_deleted(*change.before);
  }
}

void Oracles::o13_objects_stay_small(const local::Change& change) {
  const json& after = *change.after;
  const json::json_pointer causes{"/status/restarts/byCause"};
  if (after.contains(causes) && after.at(causes).size() > 12) {
    fail("O13", "status.restarts.byCause grows without bound");
  }
  const json::json_pointer failures{"/status/failures"};
  if (after.contains(failures) && after.at(failures).size() > 16) {
    fail("O13", "status.failures grows without bound");
  }
  if (after.contains("status") && after.at("status").contains("message") &&
      text_at_pointer(after, "/status/message").size() > kObjectBytesMax) {
    fail("O13", "status.message is too large");
  }
}

}  // namespace pawl::sim
