#include "cli/local/object_store.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/check.h"

namespace pawl::local {

ObjectKey key_of(const Kind& kind, std::string ns, std::string name) {
  return ObjectKey{kind.group, kind.plural, std::move(ns), std::move(name)};
}

Object ObjectStore::find(const ObjectKey& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

Object ObjectStore::record(const ObjectKey& key, nlohmann::json object, bool is_deletion) {
  ++revision_;
  object["metadata"]["resourceVersion"] = std::to_string(revision_);
  auto version = std::make_shared<const nlohmann::json>(std::move(object));
  history_.push_back(Change{revision_, key, find(key), version, is_deletion});
  while (history_.size() > history_max_) {
    compacted_ = history_.front().revision;
    history_.pop_front();
  }
  return version;
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

std::optional<std::map<ObjectKey, Object>> ObjectStore::objects_at(const Kind& kind,
                                                                   std::uint64_t revision) const {
  if (revision < compacted_) return std::nullopt;
  std::map<ObjectKey, Object> objects;
  for (const auto& [key, object] : objects_) {
    if (key.group == kind.group && key.plural == kind.plural) objects.emplace(key, object);
  }
  // Undo what happened since, newest first.
  for (auto change = history_.rbegin(); change != history_.rend() && change->revision > revision;
       ++change) {
    if (change->key.group != kind.group || change->key.plural != kind.plural) continue;
    if (change->before == nullptr) {
      objects.erase(change->key);
    } else {
      objects[change->key] = change->before;
    }
  }
  return objects;
}

void ObjectStore::compact(std::uint64_t revision) {
  while (!history_.empty() && history_.front().revision <= revision) history_.pop_front();
  compacted_ = std::max(compacted_, std::min(revision, revision_));
}

}  // namespace pawl::local
