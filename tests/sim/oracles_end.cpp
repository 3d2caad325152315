// Oracles over what is there in the end: faults have stopped, time has passed.
#include <algorithm>
#include <set>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "tests/sim/oracles.h"
#include "tests/sim/worker.h"

namespace pawl::sim {

using kube::resources::kPods;
using kube::resources::kTrainingJobs;
using nlohmann::json;

std::string Oracles::unsettled() const {
  for (const local::Object& job : api_.all(kTrainingJobs)) {
    const std::string name = text_at_pointer(*job, "/metadata/name");
    if (job->at("metadata").contains("deletionTimestamp")) {
      // In the foreground: it stays for as long as a pod on a dead node does.
      if (has_given_up_pods(job->at("metadata").at("uid"))) continue;
      return name + " is still being deleted";
    }
    if (!is_over(*job)) {
      return name + " is " + text_at_pointer(*job, "/status/phase") + ": " +
             text_at_pointer(*job, "/status/reason") + ": " +
             text_at_pointer(*job, "/status/message");
    }
    if (job->at("spec").contains("ttlSecondsAfterFinished")) return name + " waits for its TTL";
    const int active = active_pods(job->at("metadata").at("uid"));
    if (active > 0) return name + " has ended and " + std::to_string(active) + " pods run on";
  }
  return "";
}

bool Oracles::is_settled() const { return unsettled().empty(); }

void Oracles::check_settled() { o01_jobs_came_to_an_end(); }

void Oracles::check_end(const Nodes& nodes, const People& people) {
  o01_jobs_came_to_an_end();
  o02_foreign_fields_stay(people);
  o09_old_attempts_leave();
  o10_nothing_is_left();
  o11_what_is_over_runs_nothing(nodes);
}

// Also L1: whatever happened, the job comes to its end once it is left alone.
void Oracles::i36_nobody_stays(const Nodes& nodes) {
  for (const local::Object& pod : api_.all(kPods)) {
    const std::string node = text_at_pointer(*pod, "/spec/nodeName");
    if (!nodes.signals().contains(node) || is_terminal_pod(*pod)) continue;
    if (pod->at("metadata").contains("deletionTimestamp")) continue;
    fail("I36", "pod " + text_at_pointer(*pod, "/metadata/name") + " stays on " + node +
                    ", which is to go");
  }
}

void Oracles::i42_slow_one_has_left() {
  for (const local::Object& pod : api_.all(kPods)) {
    const auto facts = facts_of(*pod);
    if (!facts || is_terminal_pod(*pod) || pod->at("metadata").contains("deletionTimestamp"))
      continue;
    const JobTruth& truth = truth_.jobs[facts->job_uid];
    if (truth.slow.contains(text_at_pointer(*pod, "/metadata/uid")))
      fail("I42", "pod " + text_at_pointer(*pod, "/metadata/name") + " holds up its gang still");
  }
}

void Oracles::i33_leader_can_write(const PeerNet& net) {
  for (const local::Object& group : api_.all(kube::resources::kWorkerGroups)) {
    const Worker* leader = net.find(text_at_pointer(*group, "/status/leader/address"));
    if (leader != nullptr && leader->is_blind())
      fail("I33", "the leader does not reach the API server, and leads on");
  }
}

void Oracles::i33_cut_pairs_are_parted(const Training& training) {
  std::set<std::string> there;
  for (const local::Object& pod : api_.all(kPods)) {
    if (!is_terminal_pod(*pod) && !pod->at("metadata").contains("deletionTimestamp"))
      there.insert(text_at_pointer(*pod, "/metadata/uid"));
  }
  for (const auto& [first, second] : training.cut_pairs()) {
    if (there.contains(first) && there.contains(second))
      fail("I33", "two pods that do not reach each other are both there still");
  }
}

void Oracles::o01_jobs_came_to_an_end() {
  const std::string why = unsettled();
  if (!why.empty()) fail("O1", why);
}

void Oracles::o02_foreign_fields_stay(const People& people) {
  for (const auto& [key, object] : api_.store().objects()) {
    const auto found =
        people.foreign().find({std::string(key.plural), text_at_pointer(*object, "/metadata/uid")});
    if (found == people.foreign().end()) continue;
    if (text_at_pointer(*object, "/metadata/annotations/other") != found->second) {
      fail("O2", key.name + " has lost an annotation that somebody else wrote");
    }
  }
}

void Oracles::o10_nothing_is_left() {
  std::set<std::string> jobs;
  for (const local::Object& job : api_.all(kTrainingJobs)) {
    jobs.insert(text_at_pointer(*job, "/metadata/uid"));
  }
  for (const auto& [key, object] : api_.store().objects()) {
    const auto& meta = object->at("metadata");
    if (!meta.contains("labels") || !meta.at("labels").contains(api::kLabelJobUid)) continue;
    const std::string uid = meta.at("labels").at(api::kLabelJobUid);
    // A known gap: without a WorkerGroup nothing tells of children that were orphaned. A job of the
    // same name takes them away.
    if (jobs.contains(uid) || truth_.jobs[uid].is_trail_lost) continue;
    fail("O10", std::string(key.plural) + "/" + key.name + " is left of a job that is gone");
  }
}

void Oracles::o11_what_is_over_runs_nothing(const Nodes& nodes) {
  for (const local::Object& pod : api_.all(kPods)) {
    if (nodes.runs(text_at_pointer(*pod, "/metadata/uid"))) {
      fail("O11", "pod " + text_at_pointer(*pod, "/metadata/name") + " runs on");
    }
  }
}

// A checkpoint that is shown to others is whole.
void Oracles::check_training(Training& training) {
  if (!training.invented().empty()) fail("O12", training.invented());
  for (const auto& [uid, truth] : truth_.jobs) {
    for (const Published& one : training.published(uid)) {
      if (one.shards > 0 && one.shards == one.world_size) continue;
      fail("O12", "the checkpoint of step " + std::to_string(one.step) + " is torn");
    }
  }
}

}  // namespace pawl::sim
