// The storage below the embedded API: objects by key, one revision counter, and the history of
// changes that watches and consistent lists read. What etcd is to an API server. A pure value
// without clock or threads; owned by ApiStore. It does not know what an object means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/local/kinds.h"

namespace pawl::local {

// Immutable, so that a watch can hold an old version at the cost of a pointer.
using Object = std::shared_ptr<const nlohmann::json>;

struct ObjectKey {
  std::string_view group, plural;  // of the constant table in kinds.h
  std::string ns, name;
  auto operator<=>(const ObjectKey&) const = default;
};

ObjectKey key_of(const Kind& kind, std::string ns, std::string name);

struct Change {
  std::uint64_t revision = 0;
  ObjectKey key;
  Object before;  // null: the object was created
  Object after;   // the new version; of a deletion the last one, at the deletion's revision
  bool is_deletion = false;
};

class ObjectStore {
 public:
  ObjectStore(std::uint64_t first_revision, std::size_t history_max)
      : revision_(first_revision), compacted_(first_revision), history_max_(history_max) {}

  std::uint64_t revision() const { return revision_; }
  // Everything at or below this revision is forgotten: watches from before it, and lists at it, are
  // Gone.
  std::uint64_t compacted() const { return compacted_; }
  const std::map<ObjectKey, Object>& objects() const { return objects_; }
  const std::deque<Change>& history() const { return history_; }

  Object find(const ObjectKey& key) const;  // null if absent
  // Both give the object the next revision as its metadata.resourceVersion and return that version.
  Object put(const ObjectKey& key, nlohmann::json object);
  Object remove(const ObjectKey& key, nlohmann::json last);

  // The objects of one kind as they were at `revision`; empty when that is compacted.
  std::optional<std::map<ObjectKey, Object>> objects_at(const Kind& kind,
                                                        std::uint64_t revision) const;
  void compact(std::uint64_t revision);

 private:
  Object record(const ObjectKey& key, nlohmann::json object, bool is_deletion);

  std::uint64_t revision_;
  std::uint64_t compacted_;
  std::size_t history_max_;
  std::map<ObjectKey, Object> objects_;
  std::deque<Change> history_;
};

}  // namespace pawl::local
