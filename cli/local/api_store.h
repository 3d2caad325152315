// The Kubernetes API as a value: requests in, answers and watch events out. `pawl run` serves it to
// the operator and the launchers, the simulator to everybody; a conformance test compares it with a
// real API server. No thread, clock or randomness of its own: the caller brings them, and decides
// when the garbage collector and watches get on.
//
// It has: create, get, list (labels, fields, limit/continue and resourceVersionMatch at one
// revision), watch (bookmarks, history, 410), merge patch, the subresources status, scale and
// binding, optimistic locks, delete with preconditions, graceful deletion of pods, finalizers, the
// three propagation policies, owner garbage collection; pruning, defaults and validation of our own
// kinds. It leaves out: PUT, server-side apply, JSON and strategic patches, deletecollection,
// sendInitialEvents, managedFields (and the versions that differ in nothing else), dry runs, CEL
// beyond api/validate, schemas and most defaults of built-in kinds, admission apart from the
// service account's existence, quotas, API discovery, namespaces as objects (every namespace
// exists), one store for the Events of both groups, authentication and RBAC (api_server.h has the
// little `pawl run` needs).
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/local/api_owners.h"
#include "cli/local/api_request.h"
#include "cli/local/api_status.h"
#include "cli/local/object_store.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/kube/transport.h"

namespace pawl::local {

struct ApiStoreOptions {
  std::uint64_t first_revision = 1;
  std::size_t history_max = 4096;  // changes that watches can go back
};

// Where one watch stands. A value: a reader pulls from it whatever it wants to be shown, as late as
// it likes.
struct Watch {
  const Kind* kind = nullptr;
  std::string ns;
  Selector selector;
  std::uint64_t revision = 0;        // shown up to here
  bool is_starting = false;          // show the objects of now first (resourceVersion absent or 0)
  bool is_over = false;              // ended with an ERROR event: 410
  bool has_bookmarks = false;        // allowWatchBookmarks
  std::int64_t timeout_seconds = 0;  // 0: not given
};

struct DeletePlan;

// The changed object as JSON.
const std::string& text_of(const Change& change);

class ApiStore {
 public:
  ApiStore(const Clock& clock, Random random, ApiStoreOptions options = {});

  // Everything but a watch.
  kube::HttpResponse handle(const kube::HttpRequest& request);

  static bool is_watch(const kube::HttpRequest& request);
  Answer<Watch> begin_watch(const kube::HttpRequest& request) const;
  // The events since the last call, one JSON line each, up to a revision (a lagging server shows
  // less than the newest).
  std::string read_watch(Watch& watch, std::uint64_t until) const;
  std::string read_watch(Watch& watch) const { return read_watch(watch, revision()); }
  std::string bookmark(const Watch& watch) const;

  // One pass of the garbage collector over what changed since the last; returns how many writes it
  // made. 0: nothing is left to do.
  int collect_garbage();
  void compact(std::uint64_t revision) { store_.compact(revision); }
  std::uint64_t revision() const { return store_.revision(); }
  // For tests and oracles: what is stored.
  const std::map<ObjectKey, Object>& objects() const { return store_.objects(); }
  // What was written since the last compaction, oldest first.
  const std::deque<Change>& history() const { return store_.history(); }

 private:
  // How an owner reference counts: its owner is there, is there and deleted in the foreground, or
  // is not there.
  enum class Standing { kSolid, kWaiting, kAbsent };

  // api_store.cpp
  Answer<kube::HttpResponse> route(const kube::HttpRequest& request);
  kube::HttpResponse response_of_object(int status, const Object& object) const;
  Answer<Object> get(const ApiTarget& target) const;
  Answer<Object> find(const ApiTarget& target) const;
  // Every write goes through these two, so that the garbage collector hears of it.
  Object put(const ObjectKey& key, nlohmann::json object);
  Object take(const ObjectKey& key, nlohmann::json last);
  // api_list.cpp
  Answer<std::string> list(const ApiTarget& target) const;
  // api_create.cpp
  Answer<Object> create(const ApiTarget& target, const std::string& body);
  Answer<nlohmann::json> bind(const ApiTarget& target, const std::string& body);
  void generate_name(nlohmann::json& meta);
  Verdict check_account(const nlohmann::json& pod) const;
  std::string next_uid();
  // api_patch.cpp
  Answer<Object> patch(const ApiTarget& target, const kube::HttpRequest& request);
  Answer<Object> patch_object(const ApiTarget& target, const Object& before,
                              const nlohmann::json& patch, nlohmann::json meta);
  Answer<Object> patch_status(const ApiTarget& target, const Object& before,
                              const nlohmann::json& patch, nlohmann::json meta);
  Answer<Object> change(const Kind& kind, const Object& before, nlohmann::json after,
                        bool is_status);
  Object write(const Kind& kind, const Object& before, nlohmann::json after);
  // api_scale.cpp
  static Object scale(const Object& job);
  Answer<Object> patch_scale(const ApiTarget& target, const Object& before,
                             const nlohmann::json& patch);
  // api_delete.cpp
  Answer<Object> remove(const ApiTarget& target, const std::string& body);
  Answer<Object> remove(const Kind& kind, const Object& object, const DeletePlan& plan);
  Answer<Object> remove_pod(const Kind& kind, const Object& pod, const DeletePlan& plan);
  // api_collect.cpp
  int collect(const ObjectKey& key);
  int orphan_dependents(const Kind& kind, const Object& owner);
  int finish_foreground(const Kind& kind, const Object& owner);
  int release_from_owners(const Kind& kind, const Object& object);
  Standing standing_of(const nlohmann::json& reference, const std::string& ns) const;
  int drop_owners(const ObjectKey& key,
                  const std::function<bool(const nlohmann::json&)>& is_dropped);

  const Clock& clock_;
  Random random_;
  ObjectStore store_;
  OwnerGraph owners_;
};

}  // namespace pawl::local
