#include "cli/local/api_owners.h"

#include "cli/local/api_objects.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

const json& owners_of(const json& object) {
  static const json none = json::array();
  const json& meta = object.at("metadata");
  const auto owners = meta.find("ownerReferences");
  return owners == meta.end() ? none : *owners;
}

bool is_waiting_for_collector(const json& object) {
  return is_deleting(object) &&
         (has_finalizer(object, kFinalizerForeground) || has_finalizer(object, kFinalizerOrphan));
}

}  // namespace

std::optional<ObjectKey> owner_key(const json& reference, const std::string& ns) {
  const Kind* kind = find_kind_of(text_of(reference, "apiVersion"), text_of(reference, "kind"));
  if (kind == nullptr) return std::nullopt;
  return key_of(*kind, ns, text_of(reference, "name"));
}

void OwnerGraph::observe(const Change& change) {
  if (!is_collected(change.key.plural)) return;
  const json& after = *change.after;
  if (change.is_deletion) {
    index(change.key, *change.before, false);
    look_at_owners(change.key, *change.before);
    look_at_dependents(after);
    work_.erase(change.key);
    return;
  }
  const bool is_new = change.before == nullptr;
  const json& owners = owners_of(after);
  if (is_new ? !owners.empty() : owners != owners_of(*change.before)) {
    if (!is_new) {
      index(change.key, *change.before, false);
      look_at_owners(change.key, *change.before);
    }
    index(change.key, after, true);
    look_at_owners(change.key, after);
    work_.insert(change.key);
  }
  if (is_waiting_for_collector(after) && (is_new || !is_waiting_for_collector(*change.before))) {
    work_.insert(change.key);
    look_at_dependents(after);
  }
}

std::set<ObjectKey> OwnerGraph::take_work() {
  std::set<ObjectKey> work;
  work.swap(work_);
  return work;
}

std::vector<ObjectKey> OwnerGraph::dependents_of(const std::string& uid) const {
  const auto found = dependents_.find(uid);
  if (found == dependents_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void OwnerGraph::index(const ObjectKey& key, const json& object, bool is_there) {
  for (const json& owner : owners_of(object)) {
    const std::string uid = text_of(owner, "uid");
    if (is_there) {
      dependents_[uid].insert(key);
      continue;
    }
    const auto found = dependents_.find(uid);
    if (found == dependents_.end()) continue;
    found->second.erase(key);
    if (found->second.empty()) dependents_.erase(found);
  }
}

void OwnerGraph::look_at_owners(const ObjectKey& key, const json& object) {
  for (const json& owner : owners_of(object)) {
    if (const auto owning = owner_key(owner, key.ns)) work_.insert(*owning);
  }
}

void OwnerGraph::look_at_dependents(const json& object) {
  for (const ObjectKey& key : dependents_of(meta_text(object, "uid"))) work_.insert(key);
}

}  // namespace pawl::local
