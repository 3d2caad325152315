#include "sequence_mask.h"

#include <algorithm>

namespace pawl::conformance {

using nlohmann::json;

namespace {

// Places of the defaults of Kubernetes' own kinds that ApiStore leaves out; `*` is every item.
const std::map<std::string, std::vector<std::string>>& kDefaults() {
  static const std::map<std::string, std::vector<std::string>> defaults = {
      {"pods",
       {"/spec/containers/*/terminationMessagePath", "/spec/containers/*/terminationMessagePolicy",
        "/spec/containers/*/imagePullPolicy", "/spec/serviceAccount", "/spec/tolerations",
        "/spec/priority", "/spec/enableServiceLinks", "/spec/preemptionPolicy",
        "/status/qosClass"}},
      {"poddisruptionbudgets",
       {"/status/disruptionsAllowed", "/status/currentHealthy", "/status/desiredHealthy",
        "/status/expectedPods"}},
      {"services",
       {"/spec/clusterIPs", "/spec/type", "/spec/sessionAffinity", "/spec/ipFamilies",
        "/spec/ipFamilyPolicy", "/spec/internalTrafficPolicy"}},
  };
  return defaults;
}

void erase_at(json& value, const std::string& place) {
  const auto slash = place.find('/', 1);
  const std::string name = place.substr(1, slash == std::string::npos ? slash : slash - 1);
  if (name == "*" && value.is_array()) {
    for (json& item : value) erase_at(item, place.substr(slash));
    return;
  }
  if (!value.is_object() || !value.contains(name)) return;
  if (slash == std::string::npos) {
    value.erase(name);
  } else {
    erase_at(value[name], place.substr(slash));
  }
}

bool is_nothing(const json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

void erase_nothings(json& value) {
  if (!value.is_structured()) return;
  for (json& child : value) erase_nothings(child);
  if (!value.is_object()) return;
  for (auto item = value.begin(); item != value.end();)
    item = is_nothing(*item) ? value.erase(item) : std::next(item);
}

void mask_times(json& value) {
  if (!value.is_structured()) return;
  for (const char* name : {"creationTimestamp", "deletionTimestamp", "lastTransitionTime"}) {
    if (value.is_object() && value.contains(name) && !value[name].is_null()) value[name] = "(time)";
  }
  for (json& child : value) mask_times(child);
}

bool is_ours(const std::string& plural) {
  return plural == "trainingjobs" || plural == "workergroups";
}

// "" for a step that does not leave the name to the server.
std::string generated_prefix(const Step& step) {
  const json body = parse_json(step.body);
  if (!body.is_object() || !body.contains("metadata") || !body["metadata"].is_object()) return "";
  return body["metadata"].contains("name") ? "" : body["metadata"].value("generateName", "");
}

// Sentences that clients show or branch on, and those about identity, agree to the word.
bool is_sentence_compared(int status, const std::string& text) {
  if (status != 400 && status != 415 && status != 422 && status != 500) return true;
  for (const char* begin :
       {"the name of the object", "the namespace of", "specifying resource version", "name must",
        "name in URL", "resourceVersion should not", "target.name"}) {
    if (text.starts_with(begin)) return true;
  }
  return false;
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

// What stands between two marks.
void replace_between(std::string& text, const std::string& before, const std::string& after,
                     const std::string& with) {
  const auto at = text.find(before);
  if (at == std::string::npos) return;
  const auto begin = at + before.size();
  const auto end = std::min(text.find(after, begin), text.size());
  text.replace(begin, end - begin, with);
}

}  // namespace

Mask::Mask(const std::vector<Event>& events) {
  std::map<std::string, int> lives, versions;
  for (const Event& event : events) {
    const json& meta = event.object.at("metadata");
    const std::string uid = meta.at("uid"), prefix = meta.value("generateName", "");
    std::string name = meta.at("name");
    if (!prefix.empty() && name.starts_with(prefix) && name.size() == prefix.size() + 5) {
      generated_[name] = prefix + "(random)";
      name = generated_[name];
    }
    const std::string key = event.plural + "/" + name;
    if (!lives_.contains(uid)) lives_[uid] = key + "#" + std::to_string(lives[key]++);
    const std::uint64_t revision = revision_of(event.object);
    int& next = versions[lives_[uid]];
    if (event.is_bookkeeping) {
      bookkeeping_.insert(revision);
    } else {
      ++next;
    }
    versions_[revision] = lives_[uid] + "@" + std::to_string(next - 1);
  }
}

std::string Mask::life_of(const std::string& uid) const {
  const auto found = lives_.find(uid);
  return found != lives_.end() ? found->second : uid;
}

std::string Mask::version_of(const std::string& revision) const {
  const auto found = versions_.find(std::stoull(revision));
  return found != versions_.end() ? found->second : "(no watch showed this version)";
}

std::string Mask::rank_of(const std::string& revision) const {
  const auto end = versions_.upper_bound(std::stoull(revision));
  const auto changes = std::count_if(versions_.begin(), end, [&](const auto& version) {
    return !bookkeeping_.contains(version.first);
  });
  return "after " + std::to_string(changes) + " changes";
}

std::string Mask::sentence(std::string text) const {
  for (const auto& [uid, life] : lives_) replace_all(text, uid, life);
  for (const auto& [name, prefix] : generated_) replace_all(text, name, prefix);
  replace_between(text, "the ResourceVersion in the precondition (", ")", "(revision)");
  replace_between(text, "the ResourceVersion in record (", ")", "(revision)");
  replace_between(text, "Too large resource version: ", ",", "(revision)");
  replace_between(text, "current: ", "\n", "(revision)");
  replace_between(text, "/registry/pods/", "/", "(ns)");
  replace_between(text, "error looking up service account ", "/", "(ns)");
  return text;
}

json Mask::object(const std::string& plural, json object) const {
  mask_times(object);
  json& meta = object["metadata"];
  meta.erase("managedFields");
  if (meta.contains("uid")) meta["uid"] = life_of(meta["uid"]);
  if (meta.contains("resourceVersion"))
    meta["resourceVersion"] = version_of(meta["resourceVersion"]);
  if (meta.contains("namespace")) meta["namespace"] = "(ns)";
  if (meta.contains("name")) meta["name"] = sentence(meta["name"]);
  for (json& owner : meta.contains("ownerReferences") ? meta["ownerReferences"] : meta["none"])
    owner["uid"] = life_of(owner["uid"]);
  meta.erase("none");
  if (plural == "events" && object.contains("involvedObject"))
    object["involvedObject"].erase("namespace");
  if (is_ours(plural) || object.value("kind", "") == "Scale") return object;
  const auto defaults = kDefaults().find(plural);
  if (defaults != kDefaults().end()) {
    for (const std::string& place : defaults->second) erase_at(object, place);
  }
  erase_nothings(object);
  return object;
}

json Mask::status(const Step& step, const Reply& reply) const {
  const json& body = reply.body;
  json masked = {{"code", body.value("code", 0)},
                 {"status", body.value("status", "")},
                 {"reason", body.value("reason", "")}};
  json details = body.value("details", json::object());
  std::string text = sentence(body.value("message", ""));
  // An object that is refused has its name already, and no watch shows it.
  const std::string name = details.value("name", ""), prefix = generated_prefix(step);
  if (!prefix.empty() && name.starts_with(prefix)) {
    details["name"] = prefix + "(random)";
    replace_all(text, name, prefix + "(random)");
  }
  if (is_sentence_compared(reply.status, text)) masked["message"] = text;
  if (details.contains("uid")) details["uid"] = life_of(details["uid"]);
  std::set<std::string> causes;
  for (const json& cause : details.value("causes", json::array())) {
    std::string field = cause.value("field", "");
    if (field == "<nil>") continue;  // "some rules were not checked", beside an error
    if (field.starts_with(".")) field.erase(0, 1);  // the scale subresource's way to write it
    const bool is_metadata = field.starts_with("metadata");
    causes.insert(is_metadata ? field + ": " + cause.value("reason", "") : field);
  }
  details.erase("causes");
  masked["causes"] = causes;
  masked["details"] = details;
  return masked;
}

json Mask::reply(const Step& step, const Reply& reply) const {
  json masked = {{"status", reply.status}};
  const json& body = reply.body;
  const std::string kind = body.is_object() ? body.value("kind", "") : "";
  const std::string plural = plural_of(step.target);
  if (kind == "Status") {
    masked["body"] = status(step, reply);
  } else if (body.is_object() && body.contains("items")) {
    masked["body"] = {{"kind", kind}, {"apiVersion", body.value("apiVersion", "")}};
    json meta = body.at("metadata");
    const bool is_any_version = step.target.find("resourceVersion=0") != std::string::npos ||
                                step.target.find("NotOlderThan") != std::string::npos;
    meta["resourceVersion"] = is_any_version ? "any" : rank_of(meta.value("resourceVersion", "0"));
    if (!meta.value("continue", "").empty()) meta["continue"] = "(token)";
    masked["body"]["metadata"] = meta;
    for (const json& item : body.at("items"))
      masked["body"]["items"].push_back(object(plural, item));
  } else if (body.is_object() && body.contains("metadata")) {
    masked["body"] = object(plural, body);
  } else {
    masked["body"] = body;
  }
  return masked;
}

json Mask::event(const Event& event) const {
  return {{"type", event.type}, {"object", object(event.plural, event.object)}};
}

std::map<std::string, json> Mask::by_object(const std::vector<Event>& events) const {
  std::map<std::string, json> objects;
  for (const Event& one : events) {
    if (bookkeeping_.contains(revision_of(one.object))) continue;
    objects[life_of(one.object.at("metadata").at("uid"))].push_back(event(one));
  }
  return objects;
}

}  // namespace pawl::conformance
