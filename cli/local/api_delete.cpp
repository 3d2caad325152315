// Deletion in ApiStore as the real server does it: preconditions, graceful deletion of pods,
// finalizers and propagation.
#include "cli/local/api_delete.h"

#include <algorithm>
#include <chrono>

#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

std::optional<StatusError> check_preconditions(const Kind& kind, const json& object,
                                               const DeletePlan& plan) {
  const std::string name = meta_text(object, "name");
  if (!plan.uid.empty() && plan.uid != meta_text(object, "uid")) {
    return precondition_failed(
        kind, name,
        "the UID in the precondition (" + plan.uid + ") does not match the UID in record (" +
            meta_text(object, "uid") + "). The object might have been deleted and then recreated");
  }
  const std::string& version = plan.resource_version;
  if (!version.empty() && version != meta_text(object, "resourceVersion")) {
    return precondition_failed(kind, name,
                               "the ResourceVersion in the precondition (" + version +
                                   ") does not match the ResourceVersion in record (" +
                                   meta_text(object, "resourceVersion") +
                                   "). The object might have been modified");
  }
  return std::nullopt;
}

// Without grace left (finalizers hold the pod) there is nothing to hasten: it is deleted like any
// other object.
bool is_graceful(const Kind& kind, const json& object) {
  if (kind.plural != "pods") return false;
  return !is_deleting(object) ||
         object.at("metadata").value("deletionGracePeriodSeconds", std::int64_t{0}) > 0;
}

// Foreground and Orphan are finalizers that the garbage collector takes off when it is done;
// without a policy those that are there stay.
void set_propagation(json& object, const std::string& propagation) {
  if (propagation.empty()) return;
  const char* wanted = propagation == "Orphan"       ? kFinalizerOrphan
                       : propagation == "Foreground" ? kFinalizerForeground
                                                     : nullptr;
  for (const char* finalizer : {kFinalizerOrphan, kFinalizerForeground}) {
    const bool is_wanted = wanted != nullptr && std::string_view{wanted} == finalizer;
    if (!is_wanted) drop_finalizer(object, finalizer);
    if (is_wanted && !has_finalizer(object, finalizer))
      object["metadata"]["finalizers"].push_back(finalizer);
  }
}

void set_deletion(json& object, TimePoint now, std::int64_t grace_seconds) {
  if (!is_deleting(object)) raise_generation(object);
  object["metadata"]["deletionTimestamp"] = format_time(now + std::chrono::seconds{grace_seconds});
  object["metadata"]["deletionGracePeriodSeconds"] = grace_seconds;
}

std::int64_t grace_of_pod(const json& pod, std::optional<std::int64_t> asked) {
  const json& spec = pod.at("spec");
  const std::string phase =
      pod.contains("status") ? text_of(pod.at("status"), "phase") : std::string{};
  // Nothing runs: nothing has to be waited for.
  if (text_of(spec, "nodeName").empty() || phase == "Failed" || phase == "Succeeded") return 0;
  const std::int64_t grace =
      asked.value_or(spec.value("terminationGracePeriodSeconds", std::int64_t{0}));
  return grace < 0 ? 1 : grace;
}

json success_of(const Kind& kind, const json& object) {
  json details = {{"name", meta_text(object, "name")},
                  {"kind", kind.plural},
                  {"uid", meta_text(object, "uid")}};
  if (!kind.group.empty()) details["group"] = kind.group;
  return {{"kind", "Status"},
          {"apiVersion", "v1"},
          {"metadata", json::object()},
          {"status", "Success"},
          {"details", std::move(details)}};
}

// From the body, and without one from the query.
Answer<DeletePlan> read_options(const ApiTarget& target, const std::string& body) {
  DeletePlan plan;
  if (body.empty()) {
    plan.propagation = target.query_value("propagationPolicy");
    if (const auto seconds = parse_revision(target.query_value("gracePeriodSeconds")))
      plan.grace_seconds = static_cast<std::int64_t>(std::min<std::uint64_t>(*seconds, 1u << 30));
  } else {
    const json options = parse_json(body);
    if (!options.is_object())
      return tl::make_unexpected(internal("couldn't get version/kind; json parse error"));
    if (const auto wanted = options.find("preconditions"); wanted != options.end()) {
      plan.uid = text_of(*wanted, "uid");
      plan.resource_version = text_of(*wanted, "resourceVersion");
    }
    plan.propagation = text_of(options, "propagationPolicy");
    const auto seconds = options.find("gracePeriodSeconds");
    if (seconds != options.end() && !seconds->is_null()) {
      if (!seconds->is_number_integer())
        return tl::make_unexpected(internal("json: cannot unmarshal gracePeriodSeconds"));
      const auto grace = seconds->get<std::int64_t>();
      plan.grace_seconds = grace < 0 ? 1 : grace;
    }
  }
  const bool is_known = plan.propagation.empty() || plan.propagation == "Background" ||
                        plan.propagation == "Foreground" || plan.propagation == "Orphan";
  if (is_known) return plan;
  return tl::make_unexpected(invalid_options(
      "DeleteOptions",
      {"propagationPolicy", "Unsupported value: \"" + plan.propagation +
                                "\": supported values: \"Foreground\", \"Background\", \"Orphan\", "
                                "\"nil\""}));
}

}  // namespace

Answer<Object> ApiStore::remove(const ApiTarget& target, const std::string& body) {
  PAWL_ANSWER(plan, read_options(target, body));
  PAWL_ANSWER(object, find(target));
  return remove(*target.kind, object, plan);
}

Answer<Object> ApiStore::remove(const Kind& kind, const Object& object, const DeletePlan& plan) {
  if (auto refusal = check_preconditions(kind, *object, plan))
    return tl::make_unexpected(std::move(*refusal));
  if (is_graceful(kind, *object)) return remove_pod(kind, object, plan);
  json next = *object;
  set_propagation(next, is_collected(kind.plural) ? plan.propagation : "Background");
  if (has_any_finalizer(next)) {
    if (!is_deleting(next)) set_deletion(next, clock_.now(), 0);
    return next == *object ? object : put(key_of(kind, *object), std::move(next));
  }
  const Object last = take(key_of(kind, *object), *object);
  if (kind.returns_deleted) return last;
  return std::make_shared<const json>(success_of(kind, *object));
}

Answer<Object> ApiStore::remove_pod(const Kind& kind, const Object& pod, const DeletePlan& plan) {
  const ObjectKey key = key_of(kind, *pod);
  json next = *pod;
  std::int64_t grace = 0;
  if (is_deleting(*pod)) {
    // A deletion under way can only be hastened; nothing else about it changes.
    const auto left = pod->at("metadata").value("deletionGracePeriodSeconds", std::int64_t{0});
    grace = plan.grace_seconds.value_or(left);
    if (grace >= left) return pod;
    const auto until = parse_time(meta_text(*pod, "deletionTimestamp"));
    set_deletion(next, until ? *until - std::chrono::seconds{left} : clock_.now(), grace);
  } else {
    grace = grace_of_pod(*pod, plan.grace_seconds);
    set_deletion(next, clock_.now(), grace);
  }
  set_propagation(next, plan.propagation);
  // One that is deleted at once is seen terminating first.
  const Object terminating = put(key, std::move(next));
  if (grace > 0 || has_any_finalizer(*terminating)) return terminating;
  return take(key, *terminating);
}

}  // namespace pawl::local
