#include "tests/sim/people.h"

#include <algorithm>

#include "common/api/contract.h"

namespace pawl::sim {

using kube::resources::kPods;
using kube::resources::kTrainingJobs;
using kube::resources::kWorkerGroups;
using nlohmann::json;

namespace {

std::string phase_of(const json& job) {
  return job.contains("status") ? job["status"].value("phase", "") : "";
}

int slice_size(const json& job) {
  return job.value(json::json_pointer("/spec/scheduling/slices/size"), 1);
}

}  // namespace

bool is_over(const json& job) {
  const std::string phase = phase_of(job);
  return phase == "Complete" || phase == "Failed";
}

People::People(Engine& engine, ApiServer& api, const Knobs& knobs, Truth& truth)
    : engine_(engine), api_(api), knobs_(knobs), truth_(truth) {
  for (int i = 0; i < knobs.jobs; ++i) {
    // One name is as long as names may be.
    names_.push_back(i == 1 ? std::string(api::kJobNameMax - 1, 'x') + "1"
                            : "job-" + std::to_string(i));
  }
}

json People::draw_spec() {
  Random& random = engine_.random();
  const json container = {{"name", "worker"}, {"image", "i"}, {"command", {"/train"}}};
  const bool is_native = !random.one_in(4) || knobs_.is_restless;
  const int patience = random.one_in(2) ? 10 : 60;
  json spec = {{"replicas", 1 + random.below(4) + (knobs_.is_restless ? 2 : 0)},
               {"runtime", {{"kind", is_native ? "Native" : "Custom"}}},
               {"template", {{"spec", {{"containers", json::array({container})}}}}},
               {"failurePolicy",
                {{"maxRestarts", random.one_in(3) ? random.below(3) : 6},
                 {"podTerminationTimeoutSeconds", patience}}}};
  if (knobs_.recreates_all) spec["failurePolicy"]["strategy"] = "RecreateAll";
  if (is_native && !random.one_in(4)) spec["checkpoint"] = {{"uri", "file:///store"}};
  if (random.one_in(4)) spec["ttlSecondsAfterFinished"] = random.one_in(2) ? 0 : 30;
  if (random.one_in(8)) spec["suspend"] = true;
  if (knobs_.are_elastic && is_native && !knobs_.recreates_all) {
    constexpr int kWaits[] = {0, 2, 10};
    spec["elastic"] = {{"minReplicas", 1 + random.below(spec["replicas"].get<std::uint64_t>())},
                       {"stabilizationSeconds", kWaits[random.below(3)]},
                       {"onShortage", random.one_in(3) ? "Wait" : "Shrink"},
                       {"shortageSeconds", 1 + random.below(30)}};
  }
  if (knobs_.spot_nodes > 0 && !random.one_in(6))
    spec["capacity"] = draw_capacity(spec["replicas"]);
  if (knobs_.slow > 0 && !random.one_in(4)) {
    spec["failurePolicy"]["rules"] =
        json::array({{{"name", "slow"}, {"action", "ReplaceNode"}, {"onCauses", {"Straggler"}}}});
  }
  if (knobs_.places) draw_scheduling(spec);
  if (knobs_.hold_start > 0 && !random.one_in(3))
    spec["scheduling"]["startTimeoutSeconds"] = random.one_in(2) ? 20 : 60;
  if (knobs_.has_spares && !knobs_.recreates_all && !random.one_in(3))
    spec["scheduling"]["spares"] = random.one_in(3) ? 2 : 1;
  if (knobs_.has_slices) draw_slices(spec);
  return spec;
}

// All on one host only where the gang waits for its lost members, and Pawl decides on their nodes.
void People::draw_scheduling(json& spec) {
  Random& random = engine_.random();
  if (random.one_in(3)) spec["scheduling"]["priorityClassName"] = kUrgent;
  const bool is_alone = !spec.contains("elastic") && !spec.contains("capacity");
  if (random.one_in(3) && is_alone) {
    const char* level = random.one_in(2) && !knobs_.has_slices ? "host" : "rack";
    spec["scheduling"]["topology"] = json::array({{{"level", level}, {"mode", "Required"}}});
  }
  const bool has_quota = !spec.contains("capacity") && spec["replicas"] <= kMostOfBoth;
  if (knobs_.has_queues && has_quota && !random.one_in(4)) {
    const bool is_first = random.one_in(2) || spec["replicas"] > kMostOfSecond;
    spec["scheduling"]["queueName"] = is_first ? "first" : "second";
  }
}

void People::draw_slices(json& spec) {
  const int replicas = spec["replicas"], size = replicas % 3 == 0 ? 3 : 2;
  const bool has_spares = spec.contains(json::json_pointer("/scheduling/spares"));
  if (spec.contains("elastic") || spec.contains("capacity") || has_spares) return;
  const char* level = engine_.random().one_in(2) ? "host" : "rack";
  if (replicas % size == 0) spec["scheduling"]["slices"] = {{"size", size}, {"level", level}};
}

// What workers take of it are pods. Every job fits into either, alone.
std::vector<api::TrainingQueue> sim_queues() {
  api::TrainingQueue first, second;
  first.meta.name = "first";
  first.meta.resource_version = second.meta.resource_version = "1";
  first.quotas = {{"pods", "3", "", "2"}};
  second.meta.name = "second";
  second.quotas = {{"pods", "2", std::to_string(kMostOfSecond - 2), ""}};
  second.weight = 2;
  second.is_fifo = true;
  return {first, second};
}

json People::draw_capacity(int replicas) {
  Random& random = engine_.random();
  if (random.one_in(5)) return {{"spot", "Never"}};
  json capacity = {{"spot", random.one_in(3) ? "Allow" : "Prefer"}};
  const auto most = static_cast<std::uint64_t>(replicas) + 1;
  if (random.one_in(2)) capacity["onDemandMin"] = random.below(most);
  return capacity;
}

// The first one gives way to the others.
void People::crowd(const std::string& name, json& spec) const {
  const bool is_first = name == names_.front();
  spec["replicas"] = std::min(spec["replicas"].get<int>(), kMostOfBoth);
  for (const char* field : {"capacity", "scheduling", "elastic"}) spec.erase(field);
  if (knobs_.has_queues) spec["scheduling"]["queueName"] = "first";
  if (!is_first) {
    spec["scheduling"]["priorityClassName"] = kUrgent;
  } else {
    spec["replicas"] = 4;
    spec["runtime"]["kind"] = "Native";
    spec["elastic"] = {{"minReplicas", 1}, {"stabilizationSeconds", 0}, {"shortageSeconds", 5}};
  }
}

void People::create_job(const std::string& name) {
  json spec = draw_spec();
  if (knobs_.is_crowded) crowd(name, spec);
  create_job(name, spec);
}

void People::create_job(const std::string& name, const json& spec) {
  engine_.trace("the user creates " + name + " " + spec.dump());
  api_.call(Actor::kUser, kube::create_request(kTrainingJobs, kNamespace,
                                               {{"apiVersion", api::kApiVersion},
                                                {"kind", "TrainingJob"},
                                                {"metadata", {{"name", name}}},
                                                {"spec", spec}}));
}

std::string People::any_job() { return names_[engine_.random().below(names_.size())]; }

json People::job(const std::string& name) {
  const local::Object found = api_.find(kTrainingJobs, name);
  return found == nullptr ? json() : *found;
}

AttemptTruth* People::truth_of(const json& job) {
  const json::json_pointer attempt{"/status/attempt"};
  const std::int64_t number = job.contains(attempt) ? job.at(attempt).get<std::int64_t>() : 0;
  return &truth_.of(job["metadata"]["uid"], number);
}

void People::patch(Actor actor, const kube::Resource& resource, const std::string& name,
                   const json& body) {
  api_.handle(actor, kube::merge_patch_request(resource, kNamespace, name, body));
}

// ---- the user

void People::set_suspended(const std::string& name, bool is_suspended) {
  engine_.trace(std::string("the user ") + (is_suspended ? "suspends " : "resumes ") + name);
  patch(Actor::kUser, kTrainingJobs, name, {{"spec", {{"suspend", is_suspended}}}});
}

void People::toggle_suspend() {
  const std::string name = any_job();
  const json found = job(name);
  if (found.is_null()) return;
  set_suspended(name, !found["spec"].value("suspend", false));
}

void People::set_replicas(const std::string& name, int replicas) {
  const json found = job(name);
  if (found.is_null()) return;
  const int size = slice_size(found);
  replicas = std::max(size, replicas - replicas % size);  // more might be beyond its quota
  engine_.trace("the user scales " + name + " to " + std::to_string(replicas));
  ++truth_.jobs[found["metadata"]["uid"]].edits;
  ++truth_of(found)->sizes;
  patch(Actor::kUser, kTrainingJobs, name, {{"spec", {{"replicas", replicas}}}});
}

void People::set_spares(const std::string& name, const json& found) {
  const int spares = static_cast<int>(engine_.random().below(3));
  engine_.trace("the user gives " + name + " " + std::to_string(spares) + " spares");
  ++truth_.jobs[found["metadata"]["uid"]].edits;
  ++truth_of(found)->sizes;
  patch(Actor::kUser, kTrainingJobs, name, {{"spec", {{"scheduling", {{"spares", spares}}}}}});
}

// Down and up again at once, some times (B02).
void People::scale() {
  std::string name = any_job();
  json found = job(name);
  // Most of those that are drawn do not run at that moment.
  for (int tries = 0; tries < 3 && (found.is_null() || phase_of(found) != "Running"); ++tries) {
    name = any_job();
    found = job(name);
  }
  if (found.is_null()) return;
  const bool may_have_spares = knobs_.has_spares && !knobs_.recreates_all && slice_size(found) == 1;
  if (may_have_spares && engine_.random().one_in(3)) return set_spares(name, found);
  const int before = found["spec"].value("replicas", 1);
  set_replicas(name, 1 + static_cast<int>(engine_.random().below(4)));
  if (engine_.random().one_in(2)) {
    engine_.after(engine_.between(milliseconds{1}, milliseconds{3'000}),
                  [this, name, before] { set_replicas(name, before); });
  }
}

// Only a suspended job's template can be edited; the store refuses the rest.
void People::edit_template() {
  const std::string name = any_job();
  const json found = job(name);
  if (found.is_null()) return;
  const json container = {
      {"name", "worker"}, {"image", "i" + std::to_string(++count_)}, {"command", {"/train"}}};
  // The operator may see nothing of a suspension that was so short.
  const bool is_taken = found["spec"].value("suspend", false);
  if (is_taken) ++truth_.jobs[found["metadata"]["uid"]].edits;
  patch(Actor::kUser, kTrainingJobs, name,
        {{"spec", {{"template", {{"spec", {{"containers", json::array({container})}}}}}}}});
}

// The store refuses more anchors than workers.
void People::edit_capacity() {
  const std::string name = any_job();
  const json found = job(name);
  if (found.is_null()) return;
  json capacity = draw_capacity(found["spec"].value("replicas", 1));
  if (!capacity.contains("onDemandMin")) capacity["onDemandMin"] = nullptr;
  engine_.trace("the user wants " + name + " to have capacity " + capacity.dump());
  truth_.jobs[found["metadata"]["uid"]].capacity_edited = engine_.elapsed();
  patch(Actor::kUser, kTrainingJobs, name, {{"spec", {{"capacity", capacity}}}});
}

void People::delete_job(const std::string& name, const std::string& propagation) {
  const json found = job(name);
  if (found.is_null()) return;
  engine_.trace("the user deletes " + name + " (" + propagation + ")");
  const bool is_early = api_.find(kWorkerGroups, name) == nullptr;
  if (is_early && propagation == "Orphan") {
    truth_.jobs[found["metadata"]["uid"]].is_trail_lost = true;
  }
  api_.handle(Actor::kUser,
              kube::delete_request(kTrainingJobs, kNamespace, name,
                                   {.uid = found["metadata"]["uid"], .propagation = propagation}));
}

void People::delete_and_maybe_recreate() {
  constexpr const char* kPolicies[] = {"Background", "Foreground", "Orphan"};
  const std::string name = any_job();
  delete_job(name, kPolicies[engine_.random().below(3)]);
  if (engine_.random().one_in(4)) return;
  engine_.after(engine_.between(milliseconds{1}, milliseconds{5'000}),
                [this, name] { create_job(name); });
}

void People::settle() {
  for (const std::string& name : names_) {
    const json found = job(name);
    if (!found.is_null() && found["spec"].value("suspend", false)) set_suspended(name, false);
  }
  for (const std::string& pod : strangers_) {
    if (const local::Object found = api_.find(kPods, pod)) {
      if (found->at("metadata").contains("ownerReferences")) continue;
      api_.handle(Actor::kMonkey, kube::delete_request(kPods, kNamespace, pod,
                                                       {.uid = found->at("metadata").at("uid")}));
    }
  }
}

// ---- the monkey

void People::delete_group() {
  const std::string name = any_job();
  const json found = job(name);
  const local::Object group = api_.find(kWorkerGroups, name);
  if (group == nullptr || found.is_null() || is_over(found)) return;
  ++truth_of(found)->records;
  // It may be what an orphaned predecessor left.
  const auto& labels = group->at("metadata").at("labels");
  truth_.jobs[labels.value(api::kLabelJobUid, "")].is_trail_lost = true;
  api_.count_fault("group deleted");
  engine_.trace("the monkey deletes WorkerGroup " + name);
  api_.handle(Actor::kMonkey, kube::delete_request(kWorkerGroups, kNamespace, name,
                                                   {.uid = group->at("metadata").at("uid")}));
}

void People::delete_status() {
  const std::string name = any_job();
  const json found = job(name);
  if (found.is_null() || is_over(found) || !found.contains("status")) return;
  ++truth_of(found)->records;
  truth_.jobs[found["metadata"]["uid"]].was_status_cut = true;
  api_.count_fault("status deleted");
  engine_.trace("the monkey deletes the status of " + name);
  api_.set_status(Actor::kMonkey, kTrainingJobs, name, nullptr);
}

// Fields that the schema calls optional: nobody may rely on them (B10).
void People::cut_status() {
  constexpr const char* kFields[] = {"completionTime", "startTime", "lastFailure", "progress",
                                     "checkpoint",     "message",   "reason"};
  const std::string name = any_job();
  const json found = job(name);
  const char* field = kFields[engine_.random().below(7)];
  if (found.is_null() || !found.contains("status") || !found["status"].contains(field)) return;
  truth_.jobs[found["metadata"]["uid"]].was_status_cut = true;
  api_.count_fault("status field removed");
  engine_.trace("the monkey removes status." + std::string(field) + " of " + name);
  api_.set_status(Actor::kMonkey, kTrainingJobs, name, {{field, nullptr}});
}

// A pod with a name like ours, sometimes in the way of one of ours, and with our label.
void People::put_foreign_pod() {
  const std::string name = any_job();
  const json found = job(name);
  if (found.is_null()) return;
  const json::json_pointer at{"/status/attempt"};
  const std::int64_t attempt = found.contains(at) ? found.at(at).get<std::int64_t>() : 0;
  const std::int64_t distance = engine_.random().one_in(2) ? 1 : 900;
  const std::string pod = name + "-" + std::to_string(attempt + distance) + "-0-0";
  api_.count_fault("foreign pod");
  if (distance == 1) strangers_.insert(pod);
  engine_.trace("the monkey creates pod " + pod);
  api_.handle(Actor::kMonkey,
              kube::create_request(
                  kPods, kNamespace,
                  {{"apiVersion", "v1"},
                   {"kind", "Pod"},
                   {"metadata", {{"name", pod}, {"labels", {{api::kLabelManagedBy, "pawl"}}}}},
                   {"spec", {{"containers", json::array({{{"name", "x"}, {"image", "x"}}})}}}}));
  // What is not in the way stays: nobody may mind it.
  if (distance != 1) return;
  engine_.after(engine_.between(seconds{1}, seconds{40}), [this, pod] {
    const local::Object found_pod = api_.find(kPods, pod);
    if (found_pod == nullptr || found_pod->at("metadata").contains("ownerReferences")) return;
    api_.handle(Actor::kMonkey, kube::delete_request(kPods, kNamespace, pod,
                                                     {.uid = found_pod->at("metadata").at("uid")}));
  });
}

void People::write_foreign_field() {
  const std::string name = any_job();
  const bool is_group = engine_.random().one_in(2);
  const kube::Resource& resource = is_group ? kWorkerGroups : kTrainingJobs;
  const local::Object found = api_.find(resource, name);
  if (found == nullptr) return;
  const std::string value = std::to_string(++count_);
  api_.count_fault("foreign annotation");
  patch(Actor::kMonkey, resource, name, {{"metadata", {{"annotations", {{"other", value}}}}}});
  foreign_[{resource.plural, found->at("metadata").at("uid")}] = value;
}

void People::strip_owner() {
  for (const local::Object& pod : api_.all(kPods)) {
    const std::string name = pod->at("metadata").at("name");
    engine_.trace("the monkey takes its owner from pod " + name);
    api_.count_fault("owner removed");
    return patch(Actor::kMonkey, kPods, name, {{"metadata", {{"ownerReferences", nullptr}}}});
  }
}

void People::chat_on(milliseconds period, std::function<bool()> goes_on) {
  if (!goes_on()) return;
  const std::string value = std::to_string(++count_);
  for (const std::string& name : names_) {
    patch(Actor::kMonkey, kTrainingJobs, name,
          {{"metadata", {{"annotations", {{"chat", value}}}}}});
  }
  engine_.after(period, [this, period, goes_on = std::move(goes_on)] { chat_on(period, goes_on); });
}

void People::chat() {
  api_.count_fault("chatty writer");
  const std::string name = any_job();
  for (int i = 0; i < 100; ++i) {
    engine_.after(milliseconds{100} * i, [this, name, i] {
      patch(Actor::kMonkey, kTrainingJobs, name,
            {{"metadata", {{"annotations", {{"chat", std::to_string(i)}}}}}});
    });
  }
}

}  // namespace pawl::sim
