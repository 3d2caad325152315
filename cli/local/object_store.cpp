#include "cli/local/object_store.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/json.h"

namespace pawl::local {

ObjectKey key_of(const Kind& kind, std::string ns, std::string name) {
  return ObjectKey{kind.group, kind.plural, std::move(ns), std::move(name)};
}

Object ObjectStore::find(const ObjectKey& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

const std::deque<const Change*>& ObjectStore::history_of(const Kind& kind) const {
  static const std::deque<const Change*> none;
  const auto found = history_of_.find({kind.group, kind.plural});
  return found == history_of_.end() ? none : found->second;
}

Object ObjectStore::record(const ObjectKey& key, nlohmann::json object, bool is_deletion) {
  ++revision_;
  object["metadata"]["resourceVersion"] = std::to_string(revision_);
  auto version = std::make_shared<const nlohmann::json>(std::move(object));
  history_.push_back(Change{revision_, key, find(key), version, is_deletion});
  history_of_[{key.group, key.plural}].push_back(&history_.back());
  while (history_.size() > history_max_) forget_oldest();
  return version;
}

void ObjectStore::forget_oldest() {
  const Change& oldest = history_.front();
  compacted_ = oldest.revision;
  history_of_[{oldest.key.group, oldest.key.plural}].pop_front();
  history_.pop_front();
}

Object ObjectStore::put(const ObjectKey& key, nlohmann::json object) {
  Object version = record(key, std::move(object), false);
  objects_[key] = version;
  return version;
}

Object ObjectStore::remove(const ObjectKey& key, nlohmann::json last) {
  PAWL_CHECK(find(key) != nullptr, "removed an object that is not there");
  Object version = record(key, std::move(last), true);
  objects_.erase(key);
  return version;
}

void ObjectStore::visit_now(const Kind& kind, const std::string& ns, const Visit& visit) const {
  for (auto at = objects_.lower_bound(key_of(kind, ns, "")); at != objects_.end(); ++at) {
    const ObjectKey& key = at->first;
    if (key.group != kind.group || key.plural != kind.plural) return;
    if (!ns.empty() && key.ns != ns) return;
    if (!visit(key, at->second)) return;
  }
}

bool ObjectStore::visit_at(const Kind& kind, const std::string& ns, std::uint64_t revision,
                           const Visit& visit) const {
  if (revision < compacted_) return false;
  const auto& changes = history_of(kind);
  if (changes.empty() || changes.back()->revision <= revision) {
    visit_now(kind, ns, visit);
    return true;
  }
  std::map<ObjectKey, Object> objects;
  visit_now(kind, ns, [&](const ObjectKey& key, const Object& object) {
    objects.emplace_hint(objects.end(), key, object);
    return true;
  });
  // Undo what happened since, newest first.
  for (auto change = changes.rbegin(); change != changes.rend() && (*change)->revision > revision;
       ++change) {
    const ObjectKey& key = (*change)->key;
    if (!ns.empty() && key.ns != ns) continue;
    if ((*change)->before == nullptr) {
      objects.erase(key);
    } else {
      objects[key] = (*change)->before;
    }
  }
  for (const auto& [key, object] : objects) {
    if (!visit(key, object)) break;
  }
  return true;
}

void ObjectStore::compact(std::uint64_t revision) {
  while (!history_.empty() && history_.front().revision <= revision) forget_oldest();
  compacted_ = std::max(compacted_, std::min(revision, revision_));
}

}  // namespace pawl::local
