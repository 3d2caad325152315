// The write side of ApiStore for what exists: merge patches of an object, of its status or of its
// scale, under optimistic locks.
#include <iterator>

#include "cli/local/api_admission.h"
#include "cli/local/api_metadata.h"
#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

constexpr char kMergePatch[] = "application/merge-patch+json";

// The metadata that the patch leads to.
Answer<json> patched_metadata(const json& before, const json& patch) {
  json meta = before.at("metadata");
  if (const auto change = patch.find("metadata"); change != patch.end()) {
    meta.merge_patch(*change);
    if (meta.is_null()) meta = json::object();
  }
  if (const std::string wrong = wrong_shape_of(meta); !wrong.empty())
    return tl::make_unexpected(invalid_patch(wrong));
  return meta;
}

// Gives the server's own fields back their values; what a client may not write is a cause.
void keep_metadata(const json& old_meta, json& meta, std::vector<api::FieldError>& causes) {
  for (const char* field : {"namespace", "creationTimestamp", "generation", "resourceVersion"}) {
    meta.erase(field);
    if (old_meta.contains(field)) meta[field] = old_meta[field];
  }
  // Once it is set nobody clears it.
  if (old_meta.contains("deletionTimestamp"))
    meta["deletionTimestamp"] = old_meta["deletionTimestamp"];
  for (const char* field : {"uid", "deletionTimestamp", "deletionGracePeriodSeconds"}) {
    if (!meta.contains(field) && old_meta.contains(field)) meta[field] = old_meta[field];
    if (meta.contains(field) && (!old_meta.contains(field) || meta[field] != old_meta[field])) {
      causes.push_back({std::string{"metadata."} + field,
                        "Invalid value: " + meta[field].dump() + ": field is immutable"});
    }
  }
}

void check_finalizers(const json& before, const json& meta, std::vector<api::FieldError>& causes) {
  if (!is_deleting(before) || !meta.contains("finalizers")) return;
  std::string fresh;
  for (const auto& finalizer : meta.at("finalizers")) {
    if (has_finalizer(before, finalizer.get<std::string>())) continue;
    fresh += (fresh.empty() ? "" : ", ") + finalizer.dump();
  }
  if (fresh.empty()) return;
  causes.push_back({"metadata.finalizers",
                    "Forbidden: no new finalizers can be added if the object is being deleted, "
                    "found new finalizers []string{" +
                        fresh + "}"});
}

}  // namespace

Answer<Object> ApiStore::patch(const ApiTarget& target, const kube::HttpRequest& request) {
  if (request.content_type.substr(0, request.content_type.find(';')) != kMergePatch)
    return tl::make_unexpected(unsupported_media_type(request.content_type));
  PAWL_ANSWER(before, find(target));
  const json patch = parse_json(request.body);
  if (!patch.is_object()) {
    return tl::make_unexpected(
        bad_request("error decoding patch: the body of the request is not a JSON object"));
  }
  if (target.subresource == "scale") return patch_scale(target, before, patch);
  PAWL_ANSWER(meta, patched_metadata(*before, patch));
  PAWL_VERDICT(check_identity(*target.kind, before->at("metadata"), meta));
  if (target.subresource == "status") return patch_status(target, before, patch, std::move(meta));
  return patch_object(target, before, patch, std::move(meta));
}

// Everything but the status.
Answer<Object> ApiStore::patch_object(const ApiTarget& target, const Object& before,
                                      const json& patch, json meta) {
  const Kind& kind = *target.kind;
  json after = *before;
  json status;
  if (kind.has_status && after.contains("status")) {
    status = std::move(after["status"]);
    after.erase("status");
  }
  after.erase("metadata");
  for (const auto& [name, value] : patch.items()) {
    if (name == "metadata" || (name == "status" && kind.has_status)) continue;
    after.merge_patch({{name, value}});
  }
  after["metadata"] = std::move(meta);
  const bool is_strict = target.query_value("fieldValidation") == "Strict";
  if (const std::string wrong = conform(kind, is_strict, after); !wrong.empty())
    return tl::make_unexpected(invalid_patch(wrong));
  if (!status.is_null()) after["status"] = std::move(status);
  return change(kind, before, std::move(after), false);
}

// The status, and with Kubernetes' own kinds the metadata too.
Answer<Object> ApiStore::patch_status(const ApiTarget& target, const Object& before,
                                      const json& patch, json meta) {
  const Kind& kind = *target.kind;
  json after = *before;
  if (const auto wanted = patch.find("status"); wanted != patch.end()) {
    json status = after.value("status", json());
    status.merge_patch(*wanted);
    conform_status(kind, status);
    if (status.is_null()) {
      after.erase("status");
    } else {
      after["status"] = std::move(status);
    }
  }
  if (!kind.is_custom) {
    const json& old_meta = before->at("metadata");
    if (kind.plural == "pods") {
      meta.erase("ownerReferences");
      if (old_meta.contains("ownerReferences"))
        meta["ownerReferences"] = old_meta["ownerReferences"];
    }
    after["metadata"] = std::move(meta);
  }
  return change(kind, before, std::move(after), true);
}

Answer<Object> ApiStore::change(const Kind& kind, const Object& before, json after,
                                bool is_status) {
  json& meta = after["metadata"];
  std::vector<api::FieldError> causes;
  if (!is_status || !kind.is_custom) {
    tidy_metadata(meta);
    keep_metadata(before->at("metadata"), meta, causes);
    check_finalizers(*before, meta, causes);
    if (meta != before->at("metadata")) validate_metadata(meta, causes);
  }
  // Without a difference nothing is written: no event, the same resourceVersion.
  if (causes.empty() && after == *before) return before;
  auto more = validate_change(kind, is_status, *before, after);
  causes.insert(causes.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  if (!causes.empty())
    return tl::make_unexpected(invalid(kind, text_of(meta, "name"), std::move(causes)));
  if (!is_status && kind.has_generation && !has_same_content(after, *before))
    raise_generation(after);
  return write(kind, before, std::move(after));
}

// Stores the object, or removes it if that was the last thing its deletion waited for. Then the
// answer is what would have been stored, and the watchers see what was.
Object ApiStore::write(const Kind& kind, const Object& before, json after) {
  const ObjectKey key = key_of(kind, *before);
  const auto& meta = before->at("metadata");
  const bool is_grace_over = meta.value("deletionGracePeriodSeconds", std::int64_t{0}) == 0;
  if (is_deleting(*before) && !has_any_finalizer(after) && is_grace_over) {
    take(key, *before);
    return std::make_shared<const json>(std::move(after));
  }
  return put(key, std::move(after));
}

}  // namespace pawl::local
