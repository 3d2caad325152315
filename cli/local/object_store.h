// The storage below the embedded API: objects by key, one revision counter, and the history of
// changes that watches and consistent lists read. What etcd is to an API server. A pure value
// without clock or threads; owned by ApiStore. It does not know what an object means. No call looks
// at objects of another kind than it was asked about, nor at changes of another kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
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
  // `after` as JSON, made when it is first shown: the answer to the write and every watch use it.
  mutable std::string text = {};
};

class ObjectStore {
 public:
  ObjectStore(std::uint64_t first_revision, std::size_t history_max)
      : revision_(first_revision), compacted_(first_revision), history_max_(history_max) {}
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  std::uint64_t revision() const { return revision_; }
  // Everything at or below this revision is forgotten: watches from before it, and lists at it, are
  // Gone.
  std::uint64_t compacted() const { return compacted_; }
  const std::map<ObjectKey, Object>& objects() const { return objects_; }
  const std::deque<Change>& history() const { return history_; }
  // The changes of one kind, oldest first; they live as long as history() holds them.
  const std::deque<const Change*>& history_of(const Kind& kind) const;

  Object find(const ObjectKey& key) const;  // null if absent
  // Both give the object the next revision as its metadata.resourceVersion and return that version.
  Object put(const ObjectKey& key, nlohmann::json object);
  Object remove(const ObjectKey& key, nlohmann::json last);

  // The objects of a kind as they were at `revision`, in order of namespace and name, those of one
  // namespace where `ns` is not empty. Stops when `visit` returns false. False when the revision is
  // compacted.
  using Visit = std::function<bool(const ObjectKey&, const Object&)>;
  bool visit_at(const Kind& kind, const std::string& ns, std::uint64_t revision,
                const Visit& visit) const;
  void compact(std::uint64_t revision);

 private:
  using KindName = std::pair<std::string_view, std::string_view>;

  Object record(const ObjectKey& key, nlohmann::json object, bool is_deletion);
  void forget_oldest();
  void visit_now(const Kind& kind, const std::string& ns, const Visit& visit) const;

  std::uint64_t revision_;
  std::uint64_t compacted_;
  std::size_t history_max_;
  std::map<ObjectKey, Object> objects_;
  std::deque<Change> history_;
  std::map<KindName, std::deque<const Change*>> history_of_;
};

}  // namespace pawl::local
