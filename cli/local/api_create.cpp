// The create side of ApiStore: identity, defaults and validation of a new object, and the binding
// of pods.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/api/codec.h"
#include "common/api/validate.h"

namespace pawl::local {
namespace {

constexpr std::size_t kGeneratedSuffix = 5;
constexpr std::size_t kGeneratedPrefixMax = 58;
constexpr std::size_t kNameMax = 253;
// Kubernetes' alphabet for generated names: no vowels, so that no words appear.
constexpr std::string_view kNameAlphabet = "bcdfghjklmnpqrstvwxz2456789";
constexpr std::int64_t kPodGraceSeconds = 30;

bool is_dns_name(const std::string& name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > kNameMax) return false;
  if (!is_alphanumeric(name.front()) || !is_alphanumeric(name.back())) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_alphanumeric(c) || c == '-' || c == '.'; });
}

// Adds the members of `defaults` that `target` lacks, object by object.
void fill_in(nlohmann::json& target, const nlohmann::json& defaults) {
  for (const auto& [key, value] : defaults.items()) {
    if (!target.contains(key)) {
      target[key] = value;
    } else if (target[key].is_object() && value.is_object()) {
      fill_in(target[key], value);
    }
  }
}

// What the schema of our kinds would do: refuse, then fill in the defaults.
Answer<nlohmann::json> admit_training_job(const Kind& kind, nlohmann::json object) {
  const std::string name = meta_text(object, "name");
  const auto errors = api::validate_training_job(object);
  if (!errors.empty()) return tl::make_unexpected(invalid(kind, name, errors));
  const auto job = api::decode_training_job(object);
  if (!job) return tl::make_unexpected(invalid(kind, name, {{"spec", job.error().message}}));
  const nlohmann::json defaulted = api::encode_training_job(*job);
  fill_in(object["spec"], defaulted.value("spec", nlohmann::json::object()));
  return object;
}

Answer<nlohmann::json> admit_worker_group(const Kind& kind, nlohmann::json object) {
  const auto group = api::decode_worker_group(object);
  if (!group) {
    return tl::make_unexpected(
        invalid(kind, meta_text(object, "name"), {{"spec", group.error().message}}));
  }
  return object;
}

void prepare_pod(nlohmann::json& pod) {
  auto& spec = pod["spec"];
  fill_in(spec, {{"restartPolicy", "Always"},
                 {"terminationGracePeriodSeconds", kPodGraceSeconds},
                 {"dnsPolicy", "ClusterFirst"},
                 {"schedulerName", "default-scheduler"},
                 {"serviceAccountName", "default"}});
  pod["status"] = {{"phase", "Pending"}};
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

Answer<std::string> ApiStore::name_for(const Kind& kind, const nlohmann::json& meta) {
  std::string name = text_of(meta, "name");
  const std::string prefix = text_of(meta, "generateName");
  if (name.empty() && !prefix.empty()) {
    name = prefix.substr(0, kGeneratedPrefixMax);
    for (std::size_t i = 0; i < kGeneratedSuffix; ++i) {
      name += kNameAlphabet[random_.below(kNameAlphabet.size())];
    }
  }
  if (name.empty()) {
    return tl::make_unexpected(
        invalid(kind, "", {{"metadata.name", "Required value: name or generateName is required"}}));
  }
  const bool is_free_form = kind.group == "rbac.authorization.k8s.io";
  if (!is_free_form && !is_dns_name(name)) {
    return tl::make_unexpected(
        invalid(kind, name,
                {{"metadata.name", "Invalid value: \"" + name +
                                       "\": a lowercase RFC 1123 subdomain must consist of lower "
                                       "case alphanumeric characters, '-' or '.', and "
                                       "must start and end with an alphanumeric character"}}));
  }
  return name;
}

Answer<nlohmann::json> ApiStore::create(const ApiTarget& target, const std::string& body) {
  const Kind& kind = *target.kind;
  PAWL_ANSWER(object, parse_body(body));
  if (text_of(object, "kind") != kind.name || text_of(object, "apiVersion") != api_version(kind)) {
    return tl::make_unexpected(bad_request("the object provided is unrecognized (must be of type " +
                                           std::string{kind.name} + " of " + api_version(kind) +
                                           ")"));
  }
  if (target.ns.empty()) return tl::make_unexpected(method_not_allowed(kind, "create"));
  if (!object["metadata"].is_object()) object["metadata"] = nlohmann::json::object();
  auto& meta = object["metadata"];
  const std::string ns = text_of(meta, "namespace");
  if (!ns.empty() && ns != target.ns) {
    return tl::make_unexpected(bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"));
  }
  if (!text_of(meta, "resourceVersion").empty()) {
    StatusError error;  // the real server gives no reason either
    error.message = "resourceVersion should not be set on objects to be created";
    return tl::make_unexpected(error);
  }
  PAWL_VERDICT(check_metadata(object));
  PAWL_ANSWER(name, name_for(kind, meta));
  meta["name"] = name;
  meta["namespace"] = target.ns;
  for (const char* owned :
       {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
        "resourceVersion", "selfLink"}) {
    meta.erase(owned);
  }
  if (kind.has_status) object.erase("status");
  if (kind.plural == "trainingjobs") {
    PAWL_ANSWER(admitted, admit_training_job(kind, std::move(object)));
    object = std::move(admitted);
  } else if (kind.plural == "workergroups") {
    PAWL_ANSWER(admitted, admit_worker_group(kind, std::move(object)));
    object = std::move(admitted);
  } else if (kind.plural == "pods") {
    prepare_pod(object);
    const std::string account = text_of(object["spec"], "serviceAccountName");
    const Kind& accounts = *find_kind("", "v1", "serviceaccounts");
    if (account != "default" && store_.find(key_of(accounts, target.ns, account)) == nullptr) {
      return tl::make_unexpected(forbidden(kind, name,
                                           "error looking up service account " + target.ns + "/" +
                                               account + ": serviceaccount \"" + account +
                                               "\" not found"));
    }
  }
  const ObjectKey key = key_of(kind, target.ns, name);
  if (store_.find(key) != nullptr) return tl::make_unexpected(already_exists(kind, name));
  object["metadata"]["uid"] = next_uid();
  object["metadata"]["creationTimestamp"] = format_time(clock_.now());
  if (kind.has_generation) object["metadata"]["generation"] = 1;
  return *store_.put(key, std::move(object));
}

// What the scheduler does: POST pods/<name>/binding {target: {name: <node>}}.
Answer<nlohmann::json> ApiStore::bind(const ApiTarget& target, const std::string& body) {
  PAWL_ANSWER(pod, find(target));
  PAWL_ANSWER(binding, parse_body(body));
  const std::string node =
      binding.contains("target") ? text_of(binding["target"], "name") : std::string{};
  if (node.empty()) return tl::make_unexpected(bad_request("target.name is required"));
  const Kind& kind = *target.kind;
  const std::string uid = meta_text(binding, "uid");
  if (!uid.empty() && uid != meta_text(*pod, "uid")) {
    return tl::make_unexpected(conflict(kind, target.name,
                                        "Precondition failed: UID in precondition: " + uid +
                                            ", UID in object meta: " + meta_text(*pod, "uid")));
  }
  if (is_deleting(*pod)) {
    return tl::make_unexpected(
        conflict(kind, target.name,
                 "pod " + target.name + " is being deleted, cannot be assigned to a host"));
  }
  const std::string assigned = text_of(pod->at("spec"), "nodeName");
  if (!assigned.empty()) {
    return tl::make_unexpected(
        conflict(kind, target.name,
                 "pod " + target.name + " is already assigned to node \"" + assigned + "\""));
  }
  nlohmann::json next = *pod;
  next["spec"]["nodeName"] = node;
  next["status"]["conditions"].push_back({{"type", "PodScheduled"},
                                          {"status", "True"},
                                          {"lastTransitionTime", format_time(clock_.now())}});
  store_.put(key_of(kind, target.ns, target.name), std::move(next));
  return nlohmann::json{{"kind", "Status"},
                        {"apiVersion", "v1"},
                        {"metadata", nlohmann::json::object()},
                        {"status", "Success"},
                        {"code", 201}};
}

}  // namespace pawl::local
