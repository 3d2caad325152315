// Deletion in ApiStore as the real server does it: preconditions, graceful deletion of pods,
// finalizers, propagation; and the garbage collector, which on a cluster is a controller of its own
// and here an explicit step.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"

namespace pawl::local {

struct ApiStore::DeletePlan {
  std::string uid, resource_version;  // preconditions, "" for none
  std::optional<std::int64_t> grace_seconds;
  std::string propagation;  // "", Background, Foreground, Orphan
};

namespace {

std::string reference_uid(const nlohmann::json& reference) { return text_of(reference, "uid"); }

std::optional<StatusError> check_preconditions(const Kind& kind, const nlohmann::json& object,
                                               const std::string& uid, const std::string& version) {
  const std::string name = meta_text(object, "name");
  if (!uid.empty() && uid != meta_text(object, "uid")) {
    return conflict(kind, name,
                    "the UID in the precondition (" + uid + ") does not match the UID in record (" +
                        meta_text(object, "uid") +
                        "). The object might have been deleted and then recreated");
  }
  if (!version.empty() && version != meta_text(object, "resourceVersion")) {
    return conflict(kind, name,
                    "the ResourceVersion in the precondition (" + version +
                        ") does not match the ResourceVersion in record (" +
                        meta_text(object, "resourceVersion") +
                        "). The object might have been modified");
  }
  return std::nullopt;
}

// Foreground and Orphan are finalizers that the garbage collector takes off when it is done.
void set_propagation(nlohmann::json& object, const std::string& propagation) {
  if (propagation.empty()) return;
  drop_finalizer(object, kFinalizerOrphan);
  drop_finalizer(object, kFinalizerForeground);
  if (propagation == "Orphan") object["metadata"]["finalizers"].push_back(kFinalizerOrphan);
  if (propagation == "Foreground") object["metadata"]["finalizers"].push_back(kFinalizerForeground);
}

void set_deletion(nlohmann::json& object, TimePoint now, std::int64_t grace_seconds) {
  if (!is_deleting(object)) raise_generation(object);
  object["metadata"]["deletionTimestamp"] = format_time(now + std::chrono::seconds{grace_seconds});
  object["metadata"]["deletionGracePeriodSeconds"] = grace_seconds;
}

std::int64_t grace_of_pod(const nlohmann::json& pod, std::optional<std::int64_t> asked) {
  const nlohmann::json& spec = pod.at("spec");
  const std::string phase =
      pod.contains("status") ? text_of(pod.at("status"), "phase") : std::string{};
  // Nothing runs: nothing has to be waited for.
  if (text_of(spec, "nodeName").empty() || phase == "Failed" || phase == "Succeeded") return 0;
  const std::int64_t grace =
      asked.value_or(spec.value("terminationGracePeriodSeconds", std::int64_t{0}));
  return grace < 0 ? 1 : grace;
}

nlohmann::json success_of(const Kind& kind, const nlohmann::json& object) {
  nlohmann::json details = {{"name", meta_text(object, "name")},
                            {"kind", kind.plural},
                            {"uid", meta_text(object, "uid")}};
  if (!kind.group.empty()) details["group"] = kind.group;
  return {{"kind", "Status"},
          {"apiVersion", "v1"},
          {"metadata", nlohmann::json::object()},
          {"status", "Success"},
          {"details", std::move(details)}};
}

}  // namespace

Answer<nlohmann::json> ApiStore::remove(const ApiTarget& target, const std::string& body) {
  PAWL_ANSWER(object, find(target));
  DeletePlan plan;
  nlohmann::json options = nlohmann::json::object();
  if (!body.empty()) {
    PAWL_ANSWER(parsed, parse_body(body));
    options = std::move(parsed);
  }
  if (options.contains("preconditions")) {
    plan.uid = text_of(options["preconditions"], "uid");
    plan.resource_version = text_of(options["preconditions"], "resourceVersion");
  }
  plan.propagation = text_of(options, "propagationPolicy");
  if (plan.propagation.empty()) plan.propagation = target.query_value("propagationPolicy");
  if (options.contains("gracePeriodSeconds") && options["gracePeriodSeconds"].is_number_integer()) {
    plan.grace_seconds = options["gracePeriodSeconds"].get<std::int64_t>();
  } else if (const auto seconds = parse_revision(target.query_value("gracePeriodSeconds"))) {
    plan.grace_seconds = static_cast<std::int64_t>(std::min<std::uint64_t>(*seconds, 1u << 30));
  }
  const bool is_known = plan.propagation.empty() || plan.propagation == "Background" ||
                        plan.propagation == "Foreground" || plan.propagation == "Orphan";
  if (!is_known) {
    return tl::make_unexpected(
        invalid(*target.kind, target.name,
                {{"propagationPolicy", "Unsupported value: \"" + plan.propagation +
                                           "\": supported values: \"Foreground\", "
                                           "\"Background\", \"Orphan\""}}));
  }
  return remove(*target.kind, object, plan);
}

Answer<nlohmann::json> ApiStore::remove(const Kind& kind, const Object& object,
                                        const DeletePlan& plan) {
  if (auto refusal = check_preconditions(kind, *object, plan.uid, plan.resource_version)) {
    return tl::make_unexpected(std::move(*refusal));
  }
  const ObjectKey key = key_of(kind, *object);
  const bool is_graceful = kind.plural == "pods";
  nlohmann::json next = *object;
  std::int64_t grace = 0;
  if (is_graceful && is_deleting(*object)) {
    // A deletion under way can only be hastened.
    const std::int64_t left =
        object->at("metadata").value("deletionGracePeriodSeconds", std::int64_t{0});
    grace = plan.grace_seconds.value_or(left);
    if (left > 0 && grace >= left) return *object;
    if (left > 0) {
      const auto until = parse_time(meta_text(*object, "deletionTimestamp"));
      const TimePoint start = until ? *until - std::chrono::seconds{left} : clock_.now();
      set_deletion(next, start, grace);
    }
  } else if (is_graceful) {
    grace = grace_of_pod(*object, plan.grace_seconds);
    set_deletion(next, clock_.now(), grace);
  }
  set_propagation(next, plan.propagation);
  if (!is_graceful && has_any_finalizer(next) && !is_deleting(next))
    set_deletion(next, clock_.now(), 0);
  if (grace > 0 || has_any_finalizer(next)) {
    if (next == *object) return *object;
    return *store_.put(key, std::move(next));
  }
  // A pod that is deleted at once is seen terminating first; other kinds just go.
  if (is_graceful && next != *object) next = *store_.put(key, std::move(next));
  const Object last = store_.remove(key, is_graceful ? std::move(next) : *object);
  return kind.returns_deleted ? *last : success_of(kind, *object);
}

int ApiStore::collect_garbage() {
  std::vector<ObjectKey> keys;
  for (const auto& [key, object] : store_.objects()) {
    const auto& meta = object->at("metadata");
    if (meta.contains("ownerReferences") || has_any_finalizer(*object)) keys.push_back(key);
  }
  int writes = 0;
  for (const ObjectKey& key : keys) writes += collect(key);
  return writes;
}

int ApiStore::collect(const ObjectKey& key) {
  const Object object = store_.find(key);
  if (object == nullptr) return 0;  // went earlier in this pass
  const Kind* kind = find_kind_of(text_of(*object, "apiVersion"), text_of(*object, "kind"));
  if (kind == nullptr) return 0;
  if (is_deleting(*object)) {
    if (has_finalizer(*object, kFinalizerOrphan))
      return finish_finalizer(*kind, object, kFinalizerOrphan);
    if (has_finalizer(*object, kFinalizerForeground))
      return finish_finalizer(*kind, object, kFinalizerForeground);
    return 0;
  }
  return release_from_owners(*kind, object);
}

// Orphan: the dependents forget the owner. Foreground: they are deleted, and those that block are
// waited for.
int ApiStore::finish_finalizer(const Kind& kind, const Object& owner,
                               const std::string& finalizer) {
  const std::string uid = meta_text(*owner, "uid");
  const std::string ns = meta_text(*owner, "namespace");
  std::vector<Object> dependents;
  for (const auto& [key, object] : store_.objects()) {
    if (key.ns != ns || !object->at("metadata").contains("ownerReferences")) continue;
    const auto& owners = object->at("metadata").at("ownerReferences");
    if (std::any_of(owners.begin(), owners.end(),
                    [&](const auto& ref) { return reference_uid(ref) == uid; })) {
      dependents.push_back(object);
    }
  }
  int writes = 0;
  bool is_blocked = false;
  for (const Object& dependent : dependents) {
    const Kind* dependent_kind =
        find_kind_of(text_of(*dependent, "apiVersion"), text_of(*dependent, "kind"));
    if (dependent_kind == nullptr) continue;
    nlohmann::json next = *dependent;
    auto& owners = next["metadata"]["ownerReferences"];
    if (finalizer == kFinalizerOrphan) {
      owners.erase(std::remove_if(owners.begin(), owners.end(),
                                  [&](const auto& ref) { return reference_uid(ref) == uid; }),
                   owners.end());
      if (owners.empty()) next["metadata"].erase("ownerReferences");
      write(*dependent_kind, std::move(next));
      ++writes;
      continue;
    }
    is_blocked = is_blocked || std::any_of(owners.begin(), owners.end(), [&](const auto& ref) {
                   return reference_uid(ref) == uid && ref.value("blockOwnerDeletion", false);
                 });
    if (is_deleting(*dependent)) continue;
    collect_as(*dependent_kind, dependent, "Foreground");
    ++writes;
  }
  if (is_blocked) return writes;
  nlohmann::json next = *owner;
  drop_finalizer(next, finalizer);
  write(kind, std::move(next));
  return writes + 1;
}

// An object goes when none of its owners is left; while some are, it only forgets the absent ones.
int ApiStore::release_from_owners(const Kind& kind, const Object& object) {
  const auto& meta = object->at("metadata");
  if (!meta.contains("ownerReferences") || meta.at("ownerReferences").empty()) return 0;
  nlohmann::json present = nlohmann::json::array();
  for (const auto& reference : meta.at("ownerReferences")) {
    const Kind* owner_kind =
        find_kind_of(text_of(reference, "apiVersion"), text_of(reference, "kind"));
    const Object owner = owner_kind == nullptr
                             ? nullptr
                             : store_.find(key_of(*owner_kind, meta_text(*object, "namespace"),
                                                  text_of(reference, "name")));
    // An owner of a kind that is not served here may well exist: nothing is deleted on its account.
    if (owner_kind == nullptr ||
        (owner != nullptr && meta_text(*owner, "uid") == reference_uid(reference))) {
      present.push_back(reference);
    }
  }
  if (present.size() == meta.at("ownerReferences").size()) return 0;
  if (present.empty()) {
    const bool is_orphaning = has_finalizer(*object, kFinalizerOrphan);
    const bool is_foreground = has_finalizer(*object, kFinalizerForeground);
    collect_as(kind, object, is_orphaning ? "Orphan" : is_foreground ? "Foreground" : "Background");
    return 1;
  }
  nlohmann::json next = *object;
  next["metadata"]["ownerReferences"] = std::move(present);
  write(kind, std::move(next));
  return 1;
}

void ApiStore::collect_as(const Kind& kind, const Object& object, const std::string& propagation) {
  DeletePlan plan;
  plan.uid = meta_text(*object, "uid");
  plan.propagation = propagation;
  static_cast<void>(remove(kind, object, plan));  // the precondition holds: nobody wrote in between
}

}  // namespace pawl::local
