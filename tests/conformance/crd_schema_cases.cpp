
#include "common/api/schema.h"
#include "crd_cases.h"

namespace pawl::conformance {

using nlohmann::json;
using Pointer = json::json_pointer;

namespace {

// Collects the changes of one object's values; `write` says how they reach the server.
class Mutations {
 public:
  Mutations(std::string resource, Write write, json before, json full)
      : resource_(std::move(resource)),
        write_(write),
        before_(std::move(before)),
        full_(std::move(full)) {}

  void walk(const json& node, const Pointer& at);
  std::vector<CrdCase> take() { return std::move(cases_); }

 private:
  void add(const Pointer& at, const json& value, const std::string& what) {
    json after = full_;
    after[at] = value;
    cases_.push_back({at.to_string() + ": " + what, resource_, write_, before_, std::move(after)});
  }
  void remove(const Pointer& at, const std::string& name) {
    json after = full_;
    after[at].erase(name);
    cases_.push_back(
        {at.to_string() + ": without " + name, resource_, write_, before_, std::move(after)});
  }
  void change_type(const json& node, const Pointer& at);
  void change_number(const json& node, const Pointer& at);
  void change_string(const json& node, const Pointer& at);
  void change_list(const json& node, const Pointer& at);
  void change_object(const json& node, const Pointer& at);

  std::string resource_;
  Write write_;
  json before_, full_;
  std::vector<CrdCase> cases_;
};

void Mutations::change_type(const json& node, const Pointer& at) {
  const json& old = full_[at];
  const std::string type = node.value("type", "");
  for (const json& value : {json("word"), json(7), json(true), json::array(), json::object()}) {
    // The API server takes an empty list for a time; nothing here is worth agreeing on that.
    if (value.is_array() && node.value("format", "") == "date-time") continue;
    const bool is_same = value.type() == old.type() || (value.is_number() && old.is_number());
    if (!is_same) add(at, value, std::string("is ") + value.type_name());
  }
  if (type == "integer") add(at, 1.5, "is a fraction");
  // In a merge patch null removes the field.
  if (write_ == Write::kCreate) add(at, nullptr, "is null");
}

// The API server takes 2.0 for an integer, but not where CEL or the scale subresource reads it.
bool is_read_as_integer(const Pointer& at) {
  const std::string path = at.to_string();
  for (const char* field : {"/replicas", "/onDemandMin", "/attempt", "/term", "/generation",
                            "/processesPerWorker", "/everySeconds"}) {
    if (path.ends_with(field)) return true;
  }
  return false;
}

void Mutations::change_number(const json& node, const Pointer& at) {
  if (node.contains("minimum")) {
    const auto least = node["minimum"].get<std::int64_t>();
    add(at, least, "is the least");
    add(at, least - 1, "is below the least");
  }
  if (node.contains("maximum")) {
    const auto most = node["maximum"].get<std::int64_t>();
    add(at, most, "is the most");
    add(at, most + 1, "is above the most");
  }
  add(at, 3'000'000'000LL, "is more than 32 bits");
  if (!is_read_as_integer(at)) add(at, 2.0, "is a whole fraction");
}

void Mutations::change_string(const json& node, const Pointer& at) {
  if (node.contains("maxLength")) {
    const auto most = node["maxLength"].get<std::size_t>();
    if (!node.contains("pattern")) add(at, std::string(most, 'a'), "is as long as allowed");
    add(at, std::string(most + 1, 'a'), "is too long");
    std::string umlauts;
    for (std::size_t i = 0; i < most; ++i) umlauts += "\xC3\xA4";
    if (!node.contains("pattern"))
      add(at, umlauts, "has as many characters as allowed, of two bytes");
  }
  add(at, "", "is empty");
  if (node.contains("enum") || node.contains("pattern") || node.contains("format")) {
    add(at, "!! no such word", "has no meaning");
  }
}

void Mutations::change_list(const json& node, const Pointer& at) {
  const json list = full_[at];
  const json keys = node.value("x-kubernetes-list-map-keys", json::array());
  add(at, json::array(), "is empty");
  if (list.empty()) return;
  json twice = list;
  twice.push_back(list[0]);
  add(at, twice, "has its first item twice");
  if (!node.contains("maxItems")) return;
  json many = json::array();
  for (std::size_t i = 0; i <= node["maxItems"].get<std::size_t>(); ++i) {
    json item = list[0];
    for (const json& key : keys) {
      if (item[key.get<std::string>()].is_string())
        item[key.get<std::string>()] = "k" + std::to_string(i);
    }
    many.push_back(std::move(item));
  }
  add(at, many, "has too many items");
  many.erase(many.size() - 1);
  add(at, many, "has as many items as allowed");
}

void Mutations::change_object(const json& node, const Pointer& at) {
  if (node.contains("properties")) {
    json more = full_[at];
    more["pawlUnknown"] = 1;
    add(at, more, "has an unknown field");
  }
  for (const json& name : node.value("required", json::array()))
    remove(at, name.get<std::string>());
  if (!node.contains("maxProperties")) return;
  json many = full_[at];
  const json first = many.begin().value();
  const auto most = node["maxProperties"].get<std::size_t>();
  for (std::size_t i = 0; many.size() < most; ++i) many["k" + std::to_string(i)] = first;
  add(at, many, "has as many keys as allowed");
  many["one-more"] = first;
  add(at, many, "has too many keys");
}

void Mutations::walk(const json& node, const Pointer& at) {
  const json value = full_[at];
  if (value.is_null()) return;
  change_type(node, at);
  if (value.is_number()) change_number(node, at);
  if (value.is_string()) change_string(node, at);
  if (value.is_array()) {
    change_list(node, at);
    for (std::size_t i = 0; i < value.size(); ++i) walk(node["items"], at / i);
  }
  if (!value.is_object()) return;
  change_object(node, at);
  for (const auto& [name, child] : value.items()) {
    if (node.contains("properties") && node["properties"].contains(name)) {
      walk(node["properties"][name], at / name);
    } else if (node.contains("additionalProperties")) {
      walk(node["additionalProperties"], at / name);
    }
  }
}

std::vector<CrdCase> cases_of(const char* kind, const std::string& resource, const json& full) {
  const json schema = api::Schema(kind).expanded();
  json without_status = full;
  without_status.erase("status");
  Mutations spec(resource, Write::kCreate, nullptr, without_status);
  spec.walk(schema["properties"]["spec"], Pointer("/spec"));
  Mutations status(resource, Write::kPatchStatus, without_status, full);
  status.walk(schema["properties"]["status"], Pointer("/status"));
  std::vector<CrdCase> cases = spec.take();
  for (CrdCase& item : status.take()) cases.push_back(std::move(item));
  return cases;
}

}  // namespace

std::vector<CrdCase> schema_cases() {
  std::vector<CrdCase> cases = cases_of("TrainingJob", "trainingjobs", full_training_job());
  for (CrdCase& item : cases_of("WorkerGroup", "workergroups", full_worker_group())) {
    cases.push_back(std::move(item));
  }
  for (CrdCase& item : cases_of("TrainingQueue", "trainingqueues", full_training_queue())) {
    cases.push_back(std::move(item));
  }
  return cases;
}

}  // namespace pawl::conformance
