// The garbage collector, which on a cluster is a controller of its own and here an explicit step.
// It decides as kube-controller-manager's does, and looks only at what changed (api_owners.h).
#include <algorithm>

#include "cli/local/api_delete.h"
#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

const Kind& kind_of(const ObjectKey& key) {
  const auto& kinds = all_kinds();
  return *std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) {
    return kind.plural == key.plural && kind.group == key.group;
  });
}

bool is_deleting_dependents(const json& object) {
  return is_deleting(object) && has_finalizer(object, kFinalizerForeground);
}

bool is_blocking(const json& dependent, const std::string& owner_uid) {
  const auto& owners = dependent.at("metadata").at("ownerReferences");
  return std::any_of(owners.begin(), owners.end(), [&](const json& owner) {
    return text_of(owner, "uid") == owner_uid && owner.value("blockOwnerDeletion", false);
  });
}

}  // namespace

int ApiStore::collect_garbage() {
  int writes = 0;
  for (const ObjectKey& key : owners_.take_work()) writes += collect(key);
  return writes;
}

int ApiStore::collect(const ObjectKey& key) {
  const Object object = store_.find(key);
  if (object == nullptr) return 0;  // went earlier in this pass
  const Kind& kind = kind_of(key);
  if (is_deleting(*object)) {
    if (has_finalizer(*object, kFinalizerOrphan)) return orphan_dependents(kind, object);
    return is_deleting_dependents(*object) ? finish_foreground(kind, object) : 0;
  }
  return release_from_owners(kind, object);
}

// The dependents forget the owner; then the owner may go.
int ApiStore::orphan_dependents(const Kind& kind, const Object& owner) {
  const std::string uid = meta_text(*owner, "uid");
  int writes = 0;
  for (const ObjectKey& key : owners_.dependents_of(uid)) {
    if (key.ns != meta_text(*owner, "namespace")) continue;
    writes +=
        drop_owners(key, [&](const json& reference) { return text_of(reference, "uid") == uid; });
  }
  json next = *owner;
  drop_finalizer(next, kFinalizerOrphan);
  write(kind, owner, std::move(next));
  return writes + 1;
}

// A foreground deletion waits for the dependents that block it; they are on the work list by
// themselves.
int ApiStore::finish_foreground(const Kind& kind, const Object& owner) {
  const std::string uid = meta_text(*owner, "uid");
  for (const ObjectKey& key : owners_.dependents_of(uid)) {
    if (key.ns == meta_text(*owner, "namespace") && is_blocking(*store_.find(key), uid)) return 0;
  }
  json next = *owner;
  drop_finalizer(next, kFinalizerForeground);
  write(kind, owner, std::move(next));
  return 1;
}

// Who of the owners stands decides: while one stands, the others are forgotten; else the object
// goes, in the foreground where its own dependents have to go before an owner that waits.
int ApiStore::release_from_owners(const Kind& kind, const Object& object) {
  const json& meta = object->at("metadata");
  const auto references = meta.find("ownerReferences");
  if (references == meta.end() || references->empty()) return 0;
  const std::string ns = meta_text(*object, "namespace");
  std::size_t solid = 0, waiting = 0;
  for (const json& reference : *references) {
    switch (standing_of(reference, ns)) {
      case Standing::kSolid:
        ++solid;
        break;
      case Standing::kWaiting:
        ++waiting;
        break;
      case Standing::kAbsent:
        break;
    }
  }
  if (solid > 0) {
    if (solid == references->size()) return 0;
    return drop_owners(key_of(kind, *object), [&](const json& reference) {
      return standing_of(reference, ns) != Standing::kSolid;
    });
  }
  const bool has_dependents = !owners_.dependents_of(meta_text(*object, "uid")).empty();
  std::string propagation = "Background";
  if (waiting > 0 && has_dependents) {
    propagation = "Foreground";
  } else if (has_finalizer(*object, kFinalizerOrphan)) {
    propagation = "Orphan";
  } else if (has_finalizer(*object, kFinalizerForeground)) {
    propagation = "Foreground";
  }
  DeletePlan plan;
  plan.uid = meta_text(*object, "uid");
  plan.propagation = propagation;
  static_cast<void>(remove(kind, object, plan));  // the precondition holds: nobody wrote in between
  return 1;
}

ApiStore::Standing ApiStore::standing_of(const json& reference, const std::string& ns) const {
  const auto key = owner_key(reference, ns);
  // An owner of a kind that is not served here may well exist: nothing is deleted on its account.
  if (!key) return Standing::kSolid;
  const Object owner = store_.find(*key);
  if (owner == nullptr || meta_text(*owner, "uid") != text_of(reference, "uid"))
    return Standing::kAbsent;
  return is_deleting_dependents(*owner) ? Standing::kWaiting : Standing::kSolid;
}

int ApiStore::drop_owners(const ObjectKey& key,
                          const std::function<bool(const json&)>& is_dropped) {
  const Object object = store_.find(key);
  json next = *object;
  json& references = next["metadata"]["ownerReferences"];
  references.erase(std::remove_if(references.begin(), references.end(), is_dropped),
                   references.end());
  if (references.empty()) next["metadata"].erase("ownerReferences");
  write(kind_of(key), object, std::move(next));
  return 1;
}

}  // namespace pawl::local
