#include "sequence_steps.h"

#include <set>

#include "sequence_changes.h"

namespace pawl::conformance {
namespace {

using kube::Method;
using nlohmann::json;

constexpr char kJson[] = "application/json";
constexpr char kMergePatch[] = "application/merge-patch+json";
constexpr char kNobody[] = "00000000-0000-4000-8000-000000000000";

class Generator {
 public:
  // Mixed, because the streams of neighbouring seeds are shifts of each other.
  explicit Generator(std::uint64_t seed) : random_(mix64(seed)) {}

  Step next() {
    const std::uint64_t draw = random_.below(100);
    if (draw < 24) return create();
    if (draw < 36) return patch_metadata();
    if (draw < 48) return patch_spec();
    if (draw < 58) return patch_status();
    if (draw < 64) return scale();
    if (draw < 80) return remove();
    if (draw < 84) return finalize();
    if (draw < 88) return bind();
    if (draw < 91) return get();
    if (draw < 97) return list();
    return odd();
  }

 private:
  template <std::size_t N>
  std::string one_of(const char* const (&words)[N]) {
    return words[random_.below(N)];
  }
  std::string pick_name() { return one_of({"a", "b", "c"}); }
  // Most of the traffic is about our own kinds and pods.
  std::string pick_kind() {
    const auto& kinds = sequence_kinds();
    return random_.one_in(3) ? kinds[random_.below(kinds.size())] : kinds[random_.below(3)];
  }
  static std::string path(const std::string& plural, const std::string& name) {
    return collection_path(plural) + "/" + name;
  }
  static Step merge(const std::string& target, const json& patch) {
    return {Method::kPatch, target, kMergePatch, patch.dump()};
  }
  json labels() {
    switch (random_.below(5)) {
      case 0:
        return {{"k", "1"}};
      case 1:
        return {{"k", "2"}, {"l", ""}};
      case 2:
        return {{"k", nullptr}};
      case 3:
        return {{"pawl.dev/x", "y"}};
      default:
        return {{"k", random_.one_in(4) ? "not a value" : "1"}};
    }
  }
  static json without_nulls(json map) {
    for (auto item = map.begin(); item != map.end();)
      item = item->is_null() ? map.erase(item) : std::next(item);
    return map;
  }
  // Owners stand one tier above what they own, so that the collector's work has one outcome.
  json owner(const std::string& plural, const std::string& name) {
    json reference = {{"apiVersion", "pawl.dev/v1alpha1"},
                      {"kind", plural == "trainingjobs" ? "TrainingJob" : "WorkerGroup"},
                      {"name", name},
                      {"uid", random_.one_in(8) ? kNobody : "{uid:" + plural + "/" + name + "}"}};
    if (!random_.one_in(3)) reference["blockOwnerDeletion"] = random_.one_in(2);
    if (random_.one_in(4)) reference["controller"] = true;
    return reference;
  }
  json owners_for(const std::string& plural) {
    if (plural == "trainingjobs") return json::array();
    if (plural == "pods" && random_.one_in(2))
      return json::array({owner("workergroups", pick_name())});
    json owners = json::array({owner("trainingjobs", "a")});
    if (random_.one_in(3)) owners.push_back(owner("trainingjobs", "b"));
    return owners;
  }

  Step create() {
    const std::string plural = pick_kind();
    json object = object_of(plural, pick_name());
    json& meta = object["metadata"];
    if (random_.one_in(3)) meta["labels"] = without_nulls(labels());
    if (random_.one_in(4)) meta["ownerReferences"] = owners_for(plural);
    if (random_.one_in(6)) meta["finalizers"] = {"pawl.dev/x"};
    switch (random_.below(22)) {
      case 0:
        meta["name"] = one_of({"A", "a_b", "-a", "a.b", "a..b", "1a", "a-"});
        break;
      case 1:
        meta.erase("name");
        break;
      case 2:
        meta["namespace"] = "other";
        break;
      case 3:
        meta["resourceVersion"] = "1";
        break;
      case 4:
        meta["uid"] = kNobody;
        meta["generation"] = 7;
        meta["creationTimestamp"] = "2001-01-01T00:00:00Z";
        break;
      case 5:
        if (!generated_.insert(plural).second) break;
        meta.erase("name");
        meta["generateName"] = "gen-";
        break;
      case 6:
        object["spec"]["unknown"] = 1;
        break;
      case 7:
        object["spec"]["replicas"] = one_in_range(random_);
        break;
      case 8:
        if (plural != "pods") object["status"] = {{"phase", "Running"}};
        break;
      case 9:
        if (plural == "pods") object["spec"]["serviceAccountName"] = "b";
        break;
      case 10:
        if (plural == "trainingjobs") object["spec"] = {{"runtime", {{"kind", "Native"}}}};
        break;
      case 11:
        if (plural == "workergroups") object["spec"]["attempt"] = -1;
        break;
      default:
        break;
    }
    // What Kubernetes' own types make of a field that they do not know is left out.
    const bool is_ours = plural == "trainingjobs" || plural == "workergroups";
    if (!is_ours && object.contains("spec")) {
      object["spec"].erase("unknown");
      object["spec"].erase("replicas");
      if (object["spec"].empty()) object.erase("spec");
    }
    if (!is_ours) object.erase("status");
    const bool is_strict = is_ours && random_.one_in(6);
    return {Method::kPost, collection_path(plural) + (is_strict ? "?fieldValidation=Strict" : ""),
            kJson, object.dump()};
  }
  // A lock that holds, one that does not, and mostly none.
  void maybe_lock(const std::string& key, json& patch) {
    switch (random_.below(8)) {
      case 0:
        patch["metadata"]["resourceVersion"] = "{rv:" + key + "}";
        break;
      case 1:
        patch["metadata"]["resourceVersion"] = "{stale:" + key + "}";
        break;
      case 2:
        patch["metadata"]["uid"] = random_.one_in(2) ? kNobody : "{uid:" + key + "}";
        break;
      default:
        break;
    }
  }

  Step patch_metadata() {
    const std::string plural = pick_kind(), name = pick_name(), key = plural + "/" + name;
    json patch = {{"metadata", json::object()}};
    json& meta = patch["metadata"];
    switch (random_.below(12)) {
      case 0:
        meta["annotations"] = {{"note", "1"}};
        break;
      case 1:
        meta["annotations"] = nullptr;
        break;
      case 2:
        meta["labels"] = json::object();
        break;
      case 3:
        meta["name"] = "other";
        break;
      case 4:
        meta["namespace"] = "other";
        break;
      case 5:
        meta["deletionTimestamp"] = "2001-01-01T00:00:00Z";
        break;
      case 6:
        meta["ownerReferences"] = random_.one_in(2) ? json() : owners_for(plural);
        break;
      case 7:
        meta["creationTimestamp"] = nullptr;
        meta["generation"] = 40;
        break;
      default:
        meta["labels"] = labels();
        break;
    }
    maybe_lock(key, patch);
    return merge(path(plural, name), patch);
  }

  Step patch_spec() {
    const std::string kinds[] = {"trainingjobs",         "workergroups", "leases",
                                 "poddisruptionbudgets", "pods",         "roles"};
    const std::string plural = kinds[random_.below(random_.one_in(2) ? 2 : std::size(kinds))];
    const std::string name = pick_name(), key = plural + "/" + name;
    json patch;
    if (plural == "trainingjobs") patch["spec"] = job_change(random_);
    if (plural == "workergroups") patch["spec"] = group_change(random_);
    if (plural == "leases") patch["spec"] = {{"holderIdentity", pick_name()}};
    if (plural == "poddisruptionbudgets") patch["spec"] = {{"maxUnavailable", random_.below(2)}};
    if (plural == "pods") patch["spec"] = {{"nodeName", "n1"}};
    if (plural == "roles") patch["rules"] = json::array();
    maybe_lock(key, patch);
    return merge(path(plural, name), patch);
  }

  Step patch_status() {
    const std::string kinds[] = {"trainingjobs", "workergroups", "pods"};
    const std::string plural = kinds[random_.below(3)], name = pick_name();
    json patch;
    if (plural == "trainingjobs") patch["status"] = job_status(random_);
    if (plural == "workergroups") patch["status"] = group_status(random_);
    if (plural == "pods") patch["status"] = {{"phase", one_of({"Running", "Failed", "Pending"})}};
    // Of our kinds too labels would not be written, but managedFields would name them: a new
    // version that ApiStore does not make.
    if (plural == "pods" && random_.one_in(3)) patch["metadata"]["labels"] = {{"k", "2"}};
    if (random_.one_in(4)) patch["spec"] = {{"attempt", 9}};
    if (plural == "pods") patch.erase("spec");
    maybe_lock(plural + "/" + name, patch);
    return merge(path(plural, name) + "/status", patch);
  }

  Step scale() {
    const std::string name = pick_name(), target = path("trainingjobs", name) + "/scale";
    if (random_.one_in(4)) return {Method::kGet, target, "", ""};
    json patch = {{"spec", {{"replicas", one_in_range(random_)}}}};
    if (random_.one_in(6)) patch = {{"spec", nullptr}};
    if (random_.one_in(8)) patch = {{"metadata", {{"name", "other"}}}};
    if (random_.one_in(6))
      patch["metadata"]["resourceVersion"] = "{stale:trainingjobs/" + name + "}";
    return merge(target, patch);
  }

  Step remove() {
    const std::string plural = random_.one_in(3) ? "trainingjobs" : pick_kind();
    const std::string name = pick_name(), key = plural + "/" + name;
    json options = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
    if (!random_.one_in(4))
      options["propagationPolicy"] = one_of({"Background", "Foreground", "Orphan"});
    switch (random_.below(9)) {
      case 0:
        options["preconditions"] = {{"uid", kNobody}};
        break;
      case 1:
        options["preconditions"] = {{"resourceVersion", "{stale:" + key + "}"}};
        break;
      case 2:
        options["preconditions"] = {{"resourceVersion", "{rv:" + key + "}"}};
        break;
      case 3:
        options["gracePeriodSeconds"] = 0;
        break;
      case 4:
        options["gracePeriodSeconds"] = random_.below(50);
        break;
      case 5:
        if (random_.one_in(3)) options["propagationPolicy"] = "Never";
        break;
      case 6:
        return {Method::kDelete, path(plural, name), "", ""};
      default:
        options["preconditions"] = {{"uid", "{uid:" + key + "}"}};
        break;
    }
    return {Method::kDelete, path(plural, name), kJson, options.dump()};
  }

  Step finalize() {
    const std::string plural = pick_kind();
    json finalizers = random_.one_in(2) ? json() : json::array();
    if (random_.one_in(4)) finalizers = {"pawl.dev/x", "pawl.dev/y"};
    return merge(path(plural, pick_name()), {{"metadata", {{"finalizers", finalizers}}}});
  }

  Step bind() {
    const std::string name = pick_name();
    json binding = {{"apiVersion", "v1"},
                    {"kind", "Binding"},
                    {"metadata", {{"name", name}, {"uid", "{uid:pods/" + name + "}"}}},
                    {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "n1"}}}};
    switch (random_.below(8)) {
      case 0:
        binding["metadata"]["uid"] = kNobody;
        break;
      case 1:
        binding["metadata"].erase("name");
        break;
      case 2:
        binding["target"].erase("name");
        break;
      default:
        break;
    }
    return {Method::kPost, path("pods", name) + "/binding", kJson, binding.dump()};
  }

  Step get() {
    const std::string plural = pick_kind();
    return {Method::kGet, path(plural, pick_name()), "", ""};
  }

  Step list() {
    const std::string plural = pick_kind();
    const std::string again = plural + "}";
    const std::string queries[] = {
        "",
        "?limit=1",
        "?limit=2",
        "?limit=1&continue={continue:" + again,
        "?continue={continue:" + again,
        "?limit=2&resourceVersion={listrv:" + again,
        "?resourceVersionMatch=Exact&resourceVersion={listrv:" + again,
        "?resourceVersionMatch=NotOlderThan&resourceVersion={listrv:" + again,
        "?resourceVersionMatch=Exact",
        "?resourceVersionMatch=Never&resourceVersion=5",
        "?resourceVersion=0&limit=1",
        "?resourceVersion=abc",
        "?limit=abc",
        "?labelSelector=k%3D1",
        "?labelSelector=k%21%3D1&limit=1",
        "?labelSelector=k+in+(1,2)",
        "?labelSelector=%21k",
        "?fieldSelector=metadata.name%3Da",
        "?fieldSelector=spec.unknown%3Da",
    };
    return {Method::kGet, collection_path(plural) + queries[random_.below(std::size(queries))], "",
            ""};
  }

  Step odd() {
    const std::string plural = pick_kind(), one = path(plural, pick_name());
    switch (random_.below(9)) {
      case 0:
        return {Method::kPatch, one, "application/json", "{}"};
      case 1:
        return {Method::kPatch, one, kMergePatch, "[]"};
      case 2:
        return {Method::kPatch, one, kMergePatch, "{"};
      case 3:
        return {Method::kPatch, collection_path(plural), kMergePatch, "{}"};
      case 4:
        return {Method::kGet, one + "/nothing", "", ""};
      case 5:
        return {Method::kDelete, one, kJson, "{"};
      case 6:
        return {Method::kPost, collection_path(plural), kJson, "[]"};
      case 7:
        return merge(one, {{"metadata", {{"resourceVersion", "abc"}}}});
      default:
        return merge(one, {{"metadata", {{"labels", {{"k", 1}}}}}});
    }
  }

  Random random_;
  std::set<std::string> generated_;  // one name of each kind, so that lists keep their order
};

}  // namespace

std::vector<Step> generate_steps(std::uint64_t seed, int count) {
  Generator generator(seed);
  std::vector<Step> steps;
  for (int i = 0; i < count; ++i) steps.push_back(generator.next());
  return steps;
}

}  // namespace pawl::conformance
