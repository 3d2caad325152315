#include "crd_server.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>

#include "common/api/codec.h"
#include "common/kube/config.h"
#include "common/kube/cpprest_transport.h"

namespace pawl::conformance {

using api::FieldError;
using nlohmann::json;

namespace {

constexpr char kCrds[] = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
constexpr char kDryRun[] = "dryRun=All&fieldValidation=Strict";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string collection_of(const std::string& resource) {
  const std::string all = "/apis/pawl.dev/v1alpha1/";
  return all + (resource == "trainingqueues" ? "" : "namespaces/default/") + resource;
}

std::string name_of(const json& object) { return object["metadata"]["name"].get<std::string>(); }

bool is_established(const json& crd) {
  const json conditions = crd.value(json::json_pointer("/status/conditions"), json::array());
  for (const json& condition : conditions) {
    if (condition["type"] == "Established" && condition["status"] == "True") return true;
  }
  return false;
}

// `strict decoding error: unknown field "spec.a", unknown field "spec.b"`
std::vector<FieldError> unknown_fields_in(const std::string& message) {
  constexpr std::string_view kMark = "unknown field \"";
  std::vector<FieldError> errors;
  for (std::size_t at = message.find(kMark); at != std::string::npos;
       at = message.find(kMark, at)) {
    at += kMark.size();
    const std::size_t end = message.find('"', at);
    errors.push_back({message.substr(at, end - at), message});
  }
  return errors;
}

void collect_messages(const json& node, std::set<std::string>& messages) {
  if (node.is_object() && node.contains("x-kubernetes-validations")) {
    for (const json& rule : node["x-kubernetes-validations"]) messages.insert(rule["message"]);
  }
  if (!node.is_structured()) return;
  for (const json& child : node) collect_messages(child, messages);
}

// What comes along with an error at the same field.
bool is_remark(const std::string& text) {
  for (const char* remark : {"some validation rules were not checked",
                             "must validate at least one schema (anyOf)", "accessor error"}) {
    if (text.find(remark) != std::string::npos) return true;
  }
  return false;
}

std::vector<FieldError> errors_of(const json& status) {
  const std::string message = status.value("message", "");
  std::vector<FieldError> errors = unknown_fields_in(message);
  if (!errors.empty()) return errors;
  const json causes = status.value(json::json_pointer("/details/causes"), json::array());
  for (const json& cause : causes) {
    std::string field = cause.value("field", "");
    const std::string text = cause.value("message", "");
    if (is_remark(text)) continue;
    if (field.starts_with(".")) field.erase(0, 1);  // the scale subresource's way to write it
    errors.push_back({field, text});
  }
  return errors;
}

}  // namespace

CrdServer::CrdServer(const std::string& kubeconfig) {
  const Result<kube::ClusterConfig> config = kube::load_kubeconfig(kubeconfig);
  REQUIRE(config.has_value());
  auto transport = kube::make_transport(*config, clock_, {.user_agent = "pawl-test"});
  REQUIRE(transport.has_value());
  transport_ = std::move(*transport);
  put_crds();
  // What a run that was cut off may have left.
  for (const std::string resource : {"trainingjobs", "workergroups", "trainingqueues"}) {
    for (const char* name : {"/full", "/rule"})
      send(kube::Method::kDelete, collection_of(resource) + name);
  }
}

CrdServer::~CrdServer() {
  if (!standing_.is_null())
    send(kube::Method::kDelete, standing_collection_ + "/" + name_of(standing_));
}

CrdServer::Answer CrdServer::send(kube::Method method, const std::string& target,
                                  const json& body) {
  kube::HttpRequest request{.method = method, .target = target};
  if (!body.is_null()) {
    const bool is_patch = method == kube::Method::kPatch;
    request.content_type = is_patch ? "application/merge-patch+json" : "application/json";
    request.body = body.dump();
  }
  const Result<kube::HttpResponse> response = kube::send_and_wait(*transport_, std::move(request));
  INFO(target);
  if (!response) FAIL(response.error().message);
  return {response->status, parse_json(response->body)};
}

void CrdServer::put_crds() {
  for (const std::string resource : {"trainingjobs", "workergroups", "trainingqueues"}) {
    const std::string target = kCrds + resource + ".pawl.dev";
    kube::HttpRequest apply{
        .method = kube::Method::kPatch,
        .target = target + "?fieldManager=pawl-test&force=true",
        .content_type = "application/apply-patch+yaml",
        .body = text_of(std::string(PAWL_SOURCE_DIR) + "/crds/" + resource + ".yaml")};
    const Result<kube::HttpResponse> applied = kube::send_and_wait(*transport_, std::move(apply));
    REQUIRE(applied.has_value());
    INFO(applied->body);
    REQUIRE(applied->status / 100 == 2);
    const SteadyPoint deadline = clock_.steady_now() + std::chrono::seconds(30);
    while (!is_established(send(kube::Method::kGet, target).body) ||
           send(kube::Method::kGet, collection_of(resource)).status != 200) {
      REQUIRE(clock_.steady_now() < deadline);
    }
  }
}

std::set<std::string> CrdServer::rule_messages() {
  std::set<std::string> messages;
  for (const std::string resource : {"trainingjobs", "workergroups", "trainingqueues"}) {
    collect_messages(send(kube::Method::kGet, kCrds + resource + ".pawl.dev").body["spec"],
                     messages);
  }
  return messages;
}

void CrdServer::remove_standing() {
  if (standing_.is_null()) return;
  const Answer removed =
      send(kube::Method::kDelete, standing_collection_ + "/" + name_of(standing_));
  REQUIRE(removed.status == 200);
  standing_ = nullptr;
}

void CrdServer::stand(const CrdCase& item) {
  const std::string collection = collection_of(item.resource);
  if (item.before == standing_ && collection == standing_collection_) return;
  remove_standing();
  if (item.before.is_null()) return;
  json object = item.before;
  object.erase("status");
  const Answer created = send(kube::Method::kPost, collection, object);
  INFO(created.body.dump());
  REQUIRE(created.status == 201);
  standing_ = item.before;
  standing_collection_ = collection;
  if (!item.before.contains("status")) return;
  const Answer patched = send(kube::Method::kPatch, collection + "/" + name_of(object) + "/status",
                              {{"status", item.before["status"]}});
  INFO(patched.body.dump());
  REQUIRE(patched.status == 200);
}

std::vector<FieldError> CrdServer::verdict(const CrdCase& item) {
  stand(item);
  const std::string collection = collection_of(item.resource);
  Answer answer;
  if (item.write == Write::kCreate) {
    answer = send(kube::Method::kPost, collection + "?" + kDryRun, item.after);
  } else {
    const bool is_status = item.write == Write::kPatchStatus;
    const std::string target =
        collection + "/" + name_of(item.before) + (is_status ? "/status?" : "?") + kDryRun;
    const json patch = api::merge_patch_between(item.before, item.after);
    answer = send(kube::Method::kPatch, target, patch);
  }
  if (answer.status / 100 == 2) return {};
  const std::vector<FieldError> errors = errors_of(answer.body);
  INFO(item.name << ": " << answer.status << " " << answer.body.dump());
  CHECK_FALSE(errors.empty());
  return errors;
}

}  // namespace pawl::conformance
