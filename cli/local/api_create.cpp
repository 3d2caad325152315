// The create side of ApiStore: identity and admission of a new object, and the binding of pods.
#include <algorithm>

#include "cli/local/api_admission.h"
#include "cli/local/api_metadata.h"
#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

constexpr std::size_t kGeneratedSuffix = 5;
constexpr std::size_t kGeneratedPrefixMax = 58;
// Kubernetes' alphabet for generated names: no vowels, so that no words appear.
constexpr std::string_view kNameAlphabet = "bcdfghjklmnpqrstvwxz2456789";

// The body as an object of this kind and namespace, in the shape that is stored.
Answer<json> decode_new(const ApiTarget& target, const std::string& body) {
  const Kind& kind = *target.kind;
  PAWL_ANSWER(object, parse_body(body));
  if (text_of(object, "kind") != kind.name || text_of(object, "apiVersion") != api_version(kind)) {
    return tl::make_unexpected(bad_request("the object provided is unrecognized (must be of type " +
                                           std::string{kind.name} + " of " + api_version(kind) +
                                           ")"));
  }
  json& meta = object["metadata"];
  if (meta.is_null()) meta = json::object();
  if (const std::string wrong = wrong_shape_of(meta); !wrong.empty())
    return tl::make_unexpected(bad_request(wrong));
  const std::string ns = text_of(meta, "namespace");
  if (!ns.empty() && ns != target.ns) {
    return tl::make_unexpected(bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"));
  }
  const bool is_strict = target.query_value("fieldValidation") == "Strict";
  if (const std::string wrong = conform(kind, is_strict, object); !wrong.empty()) {
    return tl::make_unexpected(
        bad_request(std::string{kind.name} + " in version \"" + std::string{kind.version} +
                    "\" cannot be handled as a " + std::string{kind.name} + ": " + wrong));
  }
  tidy_metadata(meta);
  meta["namespace"] = target.ns;
  for (const char* owned :
       {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"}) {
    meta.erase(owned);
  }
  // Who does not count generations keeps the client's.
  if (kind.has_generation || meta.value("generation", std::int64_t{0}) == 0)
    meta.erase("generation");
  if (kind.has_status) object.erase("status");
  fill_in_builtin(kind, object);
  return object;
}

}  // namespace

std::string ApiStore::next_uid() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string uid;
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) uid += '-';
    if (i == 12) {
      uid += '4';  // version 4
    } else if (i == 16) {
      uid += "89ab"[random_.below(4)];
    } else {
      uid += kDigits[random_.below(16)];
    }
  }
  return uid;
}

void ApiStore::generate_name(json& meta) {
  const std::string prefix = text_of(meta, "generateName");
  if (!text_of(meta, "name").empty() || prefix.empty()) return;
  std::string name = prefix.substr(0, kGeneratedPrefixMax);
  for (std::size_t i = 0; i < kGeneratedSuffix; ++i) {
    name += kNameAlphabet[random_.below(kNameAlphabet.size())];
  }
  meta["name"] = std::move(name);
}

// Admission: a pod's account stands.
Verdict ApiStore::check_account(const json& pod) const {
  const std::string ns = meta_text(pod, "namespace"), name = meta_text(pod, "name");
  const std::string account = text_of(pod.at("spec"), "serviceAccountName");
  const Kind& accounts = *find_kind("", "v1", "serviceaccounts");
  if (account == "default" || store_.find(key_of(accounts, ns, account)) != nullptr) return {};
  return tl::make_unexpected(forbidden(*find_kind("", "v1", "pods"), name,
                                       "error looking up service account " + ns + "/" + account +
                                           ": serviceaccount \"" + account + "\" not found"));
}

Answer<Object> ApiStore::create(const ApiTarget& target, const std::string& body) {
  const Kind& kind = *target.kind;
  if (target.ns.empty()) {
    return tl::make_unexpected(kind.is_custom ? unknown_path()
                                              : method_not_allowed(kind, "create"));
  }
  PAWL_ANSWER(object, decode_new(target, body));
  json& meta = object["metadata"];
  generate_name(meta);
  if (kind.plural == "pods") PAWL_VERDICT(check_account(object));
  const std::string name = text_of(meta, "name");
  std::vector<api::FieldError> causes;
  if (name.empty()) {
    causes.push_back({"metadata.name", "Required value: name or generateName is required"});
  } else {
    validate_name(kind, name, causes);
  }
  validate_metadata(meta, causes);
  if (!name.empty()) {  // the rules are not asked about an object without a name
    const auto more = validate_new(kind, object);
    causes.insert(causes.end(), more.begin(), more.end());
  }
  if (!causes.empty()) return tl::make_unexpected(invalid(kind, name, std::move(causes)));
  if (!text_of(meta, "resourceVersion").empty()) {
    return tl::make_unexpected(
        internal("resourceVersion should not be set on objects to be created"));
  }
  const ObjectKey key = key_of(kind, target.ns, name);
  if (const Object present = store_.find(key); present != nullptr) {
    StatusError error = already_exists(kind, name);
    if (is_deleting(*present)) error.message = "object is being deleted: " + error.message;
    return tl::make_unexpected(std::move(error));
  }
  meta["uid"] = next_uid();
  meta["creationTimestamp"] = format_time(clock_.now());
  if (kind.has_generation) meta["generation"] = 1;
  return put(key, std::move(object));
}

// What the scheduler does: POST pods/<name>/binding {metadata: {name}, target: {name: <node>}}.
Answer<json> ApiStore::bind(const ApiTarget& target, const std::string& body) {
  PAWL_ANSWER(binding, parse_body(body));
  if (meta_text(binding, "name") != target.name) {
    return tl::make_unexpected(bad_request("name in URL does not match name in Binding object"));
  }
  const auto place = binding.find("target");
  const std::string node = place == binding.end() ? std::string{} : text_of(*place, "name");
  if (node.empty()) return tl::make_unexpected(internal("target.name: Required value"));
  PAWL_ANSWER(pod, find(target));
  const std::string uid = meta_text(binding, "uid");
  if (!uid.empty() && uid != meta_text(*pod, "uid")) {
    return tl::make_unexpected(
        conflict(*target.kind, target.name,
                 "StorageError: invalid object, Code: 4, Key: /registry/pods/" + target.ns + "/" +
                     target.name +
                     ", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
                     "precondition: " +
                     uid + ", UID in object meta: " + meta_text(*pod, "uid")));
  }
  if (is_deleting(*pod)) {
    return tl::make_unexpected(binding_conflict(
        target.name, "pod " + target.name + " is being deleted, cannot be assigned to a host"));
  }
  const std::string assigned = text_of(pod->at("spec"), "nodeName");
  if (!assigned.empty()) {
    return tl::make_unexpected(binding_conflict(
        target.name, "pod " + target.name + " is already assigned to node \"" + assigned + "\""));
  }
  json next = *pod;
  next["spec"]["nodeName"] = node;
  json& conditions = next["status"]["conditions"];
  if (conditions.is_null()) conditions = json::array();
  conditions.erase(
      std::remove_if(conditions.begin(), conditions.end(),
                     [](const json& one) { return text_of(one, "type") == "PodScheduled"; }),
      conditions.end());
  conditions.push_back({{"type", "PodScheduled"},
                        {"status", "True"},
                        {"lastTransitionTime", format_time(clock_.now())}});
  put(key_of(*target.kind, target.ns, target.name), std::move(next));
  return json{{"kind", "Status"},
              {"apiVersion", "v1"},
              {"metadata", json::object()},
              {"status", "Success"},
              {"code", 201}};
}

}  // namespace pawl::local
