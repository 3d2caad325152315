// The objects that sequences begin with.
#include <stdexcept>

#include "cli/local/kinds.h"
#include "sequence_steps.h"

namespace pawl::conformance {

using nlohmann::json;

const std::vector<std::string>& sequence_kinds() {
  static const std::vector<std::string> kinds = {
      "trainingjobs", "workergroups",         "pods",    "serviceaccounts", "events", "roles",
      "leases",       "poddisruptionbudgets", "services"};
  return kinds;
}

namespace {

const local::Kind& kind_of(const std::string& plural) {
  for (const local::Kind& kind : local::all_kinds()) {
    if (kind.plural == plural) return kind;  // of the two kinds of events the older comes first
  }
  throw std::logic_error("no such kind: " + plural);
}

json content_of(const std::string& plural) {
  if (plural == "trainingjobs") {
    return parse_json(R"({"spec": {"replicas": 2, "runtime": {"kind": "Custom"}, "template": {
      "spec": {"containers": [{"name": "worker", "image": "x", "command": ["true"]}]}}}})");
  }
  if (plural == "workergroups") return parse_json(R"({"spec": {"attempt": 1}})");
  if (plural == "pods") {
    return parse_json(R"({"spec": {"automountServiceAccountToken": false, "containers": [
      {"name": "worker", "image": "x"}]}})");
  }
  if (plural == "events") {
    return parse_json(R"({"involvedObject": {"kind": "Pod", "name": "a", "namespace": "{ns}"},
      "reason": "Because", "message": "m", "type": "Normal", "count": 1,
      "source": {"component": "pawl"}})");
  }
  if (plural == "roles") {
    return parse_json(R"({"rules": [{"apiGroups": ["pawl.dev"], "resources": ["workergroups"],
      "verbs": ["get"]}]})");
  }
  if (plural == "leases") {
    return parse_json(R"({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15,
      "renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 0}})");
  }
  if (plural == "poddisruptionbudgets") {
    return parse_json(
        R"({"spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"a": "b"}}}})");
  }
  if (plural == "services") {
    return parse_json(R"({"spec": {"clusterIP": "None", "selector": {"a": "b"}}})");
  }
  return json::object();
}

}  // namespace

std::string collection_path(const std::string& plural) {
  const local::Kind& kind = kind_of(plural);
  const std::string root = kind.group.empty() ? "/api" : "/apis/" + std::string(kind.group);
  return root + "/" + std::string(kind.version) + "/namespaces/{ns}/" + plural;
}

json object_of(const std::string& plural, const std::string& name) {
  const local::Kind& kind = kind_of(plural);
  json object = content_of(plural);
  object["apiVersion"] = local::api_version(kind);
  object["kind"] = kind.name;
  object["metadata"] = {{"name", name}};
  return object;
}

std::vector<Step> closing_steps() {
  std::vector<Step> steps;
  for (const std::string& plural : sequence_kinds()) {
    json object = object_of(plural, kClosingName);
    object["metadata"]["labels"] = {{"k", "1"}};
    steps.push_back(
        {kube::Method::kPost, collection_path(plural), "application/json", object.dump()});
  }
  return steps;
}

std::string describe(const Step& step) {
  std::string text = std::string(kube::method_name(step.method)) + " " + step.target;
  if (!step.content_type.empty() && step.content_type != "application/json" &&
      step.content_type != "application/merge-patch+json") {
    text += " (" + step.content_type + ")";
  }
  return step.body.empty() ? text : text + " " + step.body;
}

}  // namespace pawl::conformance
