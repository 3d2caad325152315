// The write side of ApiStore for what exists: merge patches of an object or of its status, under
// optimistic locks.
#include <nlohmann/json.hpp>

#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/api/codec.h"
#include "common/api/validate.h"

namespace pawl::local {
namespace {

constexpr char kMergePatch[] = "application/merge-patch+json";

// Fields of metadata that nobody writes: absent in the result means unchanged, another value is
// refused.
constexpr const char* kImmutableMeta[] = {"uid", "creationTimestamp", "deletionTimestamp",
                                          "deletionGracePeriodSeconds"};

Verdict check_identity(const Kind& kind, const nlohmann::json& before,
                       const nlohmann::json& after) {
  const std::string name = meta_text(before, "name");
  if (meta_text(after, "name") != name) {
    return tl::make_unexpected(bad_request("the name of the object (" + meta_text(after, "name") +
                                           ") does not match the name on the URL (" + name + ")"));
  }
  if (meta_text(after, "namespace") != meta_text(before, "namespace")) {
    return tl::make_unexpected(bad_request(
        "the namespace of the object (" + meta_text(after, "namespace") +
        ") does not match the namespace on the request (" + meta_text(before, "namespace") + ")"));
  }
  const std::string version = meta_text(after, "resourceVersion");
  if (!version.empty() && version != meta_text(before, "resourceVersion")) {
    return tl::make_unexpected(modified_meanwhile(kind, name));
  }
  return {};
}

// Gives the server's own fields back their values.
Verdict keep_metadata(const Kind& kind, const nlohmann::json& before, nlohmann::json& after) {
  const auto& old_meta = before.at("metadata");
  auto& meta = after["metadata"];
  for (const char* field : kImmutableMeta) {
    if (!meta.contains(field) && old_meta.contains(field)) meta[field] = old_meta[field];
    if (meta.contains(field) && (!old_meta.contains(field) || meta[field] != old_meta[field])) {
      return tl::make_unexpected(
          invalid(kind, meta_text(before, "name"),
                  {{std::string{"metadata."} + field,
                    "Invalid value: " + meta[field].dump() + ": field is immutable"}}));
    }
  }
  for (const char* field : {"generation", "resourceVersion"}) {
    meta.erase(field);
    if (old_meta.contains(field)) meta[field] = old_meta[field];
  }
  return {};
}

Verdict check_finalizers(const Kind& kind, const nlohmann::json& before,
                         const nlohmann::json& after) {
  if (!is_deleting(before) || !has_any_finalizer(after)) return {};
  for (const auto& finalizer : after.at("metadata").at("finalizers")) {
    if (has_finalizer(before, finalizer.get<std::string>())) continue;
    return tl::make_unexpected(invalid(kind, meta_text(before, "name"),
                                       {{"metadata.finalizers",
                                         "Forbidden: no new finalizers can be added if the object "
                                         "is being deleted, found new finalizers [" +
                                             finalizer.dump() + "]"}}));
  }
  return {};
}

Verdict validate_change(const Kind& kind, bool is_status, const nlohmann::json& before,
                        const nlohmann::json& after) {
  std::vector<api::FieldError> errors;
  if (kind.plural == "trainingjobs") {
    if (!is_status) {
      nlohmann::json written = after;
      written.erase("status");
      errors = api::validate_training_job(written);
    }
    if (errors.empty()) errors = api::validate_training_job_update(before, after);
  } else if (kind.plural == "workergroups") {
    const auto group = api::decode_worker_group(after);
    if (!group) errors.push_back({is_status ? "status" : "spec", group.error().message});
    if (errors.empty()) errors = api::validate_worker_group_update(before, after);
  } else if (kind.plural == "pods" && !is_status && before.at("spec") != after.at("spec")) {
    errors.push_back(
        {"spec",
         "Forbidden: pod updates may not change fields other than "
         "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
         "`spec.tolerations` (only additions to existing tolerations),"
         "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
         "negative)"});
  }
  if (errors.empty()) return {};
  return tl::make_unexpected(invalid(kind, meta_text(before, "name"), std::move(errors)));
}

}  // namespace

Answer<nlohmann::json> ApiStore::patch(const ApiTarget& target, const kube::HttpRequest& request) {
  const Kind& kind = *target.kind;
  if (request.content_type.substr(0, request.content_type.find(';')) != kMergePatch) {
    return tl::make_unexpected(unsupported_media_type(request.content_type));
  }
  PAWL_ANSWER(patch, parse_body(request.body));
  PAWL_ANSWER(before, find(target));
  nlohmann::json after = *before;
  after.merge_patch(patch);
  PAWL_VERDICT(check_metadata(after));
  PAWL_VERDICT(check_identity(kind, *before, after));
  const bool is_status = target.subresource == "status";
  if (is_status) {
    // A status patch writes status and nothing else.
    nlohmann::json next = *before;
    next.erase("status");
    if (after.contains("status") && !after["status"].is_null()) next["status"] = after["status"];
    after = std::move(next);
  } else {
    PAWL_VERDICT(keep_metadata(kind, *before, after));
    if (kind.has_status) {
      after.erase("status");
      if (before->contains("status")) after["status"] = before->at("status");
    }
    PAWL_VERDICT(check_finalizers(kind, *before, after));
  }
  // Without a difference nothing is written: no event, the same resourceVersion.
  if (after == *before) return *before;
  PAWL_VERDICT(validate_change(kind, is_status, *before, after));
  if (!is_status && kind.has_generation && content_of(after) != content_of(*before))
    raise_generation(after);
  return *write(kind, std::move(after));
}

// Stores the object, or removes it if that was the last thing its deletion waited for.
Object ApiStore::write(const Kind& kind, nlohmann::json object) {
  const ObjectKey key = key_of(kind, object);
  const auto& meta = object.at("metadata");
  const bool is_grace_over = meta.value("deletionGracePeriodSeconds", std::int64_t{0}) == 0;
  if (is_deleting(object) && !has_any_finalizer(object) && is_grace_over) {
    return store_.remove(key, std::move(object));
  }
  return store_.put(key, std::move(object));
}

}  // namespace pawl::local
