// Who owns whom, kept up to date change by change, and what the garbage collector has to look at
// because of those changes: it never searches. A pure value; owned by ApiStore.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/local/object_store.h"

namespace pawl::local {

// The key of the object that an owner reference means, by name; empty where its kind is not served.
std::optional<ObjectKey> owner_key(const nlohmann::json& reference, const std::string& ns);

class OwnerGraph {
 public:
  void observe(const Change& change);
  // What is to be looked at, in order of the keys; it is forgotten here.
  std::set<ObjectKey> take_work();
  // Who names this UID as an owner.
  std::vector<ObjectKey> dependents_of(const std::string& uid) const;

 private:
  void index(const ObjectKey& key, const nlohmann::json& object, bool is_there);
  void look_at_owners(const ObjectKey& key, const nlohmann::json& object);
  void look_at_dependents(const nlohmann::json& object);

  std::map<std::string, std::set<ObjectKey>, std::less<>> dependents_;  // by the owner's UID
  std::set<ObjectKey> work_;
};

}  // namespace pawl::local
