// The API servers of the simulated cluster above one ApiStore (the embedded store of `pawl run`):
// several servers whose watch caches lag behind by their own time for each kind, compaction, the
// garbage collector as a process that comes late, outages. Everybody's requests are applied here,
// and everybody who wants to know of them (oracles, kubelets, streams) is told. Leaves out what
// ApiStore leaves out (its header says what), authentication, and lists from the watch cache except
// on purpose (may_list_stale).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/local/api_store.h"
#include "common/base/json.h"
#include "common/kube/requests.h"
#include "tests/sim/engine.h"
#include "tests/sim/knobs.h"

namespace pawl::sim {

inline constexpr char kNamespace[] = "team";

enum class Actor { kOperator, kElector, kLauncher, kCluster, kCollector, kUser, kMonkey };
const char* actor_name(Actor actor);

class ApiObserver {
 public:
  virtual ~ApiObserver() = default;
  // Before it is applied.
  virtual void on_request(Actor, const kube::HttpRequest&) {}
  // After each write that it made, in order; the store is already at the last of them.
  virtual void on_change(Actor, const local::Change&) {}
};

class ApiServer {
 public:
  ApiServer(Engine& engine, const Knobs& knobs);

  void observe(ApiObserver& observer) { observers_.push_back(&observer); }
  void forget(ApiObserver& observer) { std::erase(observers_, &observer); }

  kube::HttpResponse handle(Actor actor, const kube::HttpRequest& request);
  // For the parts of the cluster itself: no faults, no latency; null if it was refused.
  nlohmann::json call(Actor actor, const kube::HttpRequest& request);
  // The stored object; null if there is none.
  local::Object find(const kube::Resource& resource, const std::string& name) const;
  std::vector<local::Object> all(const kube::Resource& resource) const;
  bool set_status(Actor actor, const kube::Resource& resource, const std::string& name,
                  const nlohmann::json& status);

  const local::ApiStore& store() const { return store_; }
  std::uint64_t revision() const { return store_.revision(); }
  void compact() { store_.compact(store_.revision()); }

  // How far server number `server` shows this kind, and how far it is behind.
  std::uint64_t visible(int server, std::string_view plural) const;
  milliseconds lag(int server, std::string_view plural) const;
  int servers() const { return knobs_.api_servers; }

  bool is_faulty = false;     // the safety phase
  bool is_pruning = false;    // of job statuses it does not keep one field
  milliseconds extra_lag{0};  // of every server, and of this kind; empty: of all
  std::string extra_lag_plural;
  milliseconds outage_until{0};
  milliseconds pods_refused_until{0};  // a quota: creating pods is Forbidden
  std::map<std::string, std::uint64_t> faults;
  void count_fault(const std::string& name) { ++faults[name]; }

 private:
  kube::HttpRequest pruned(const kube::HttpRequest& request);
  void publish(Actor actor);
  void collect_soon();

  Engine& engine_;
  const Knobs& knobs_;
  local::ApiStore store_;
  std::vector<ApiObserver*> observers_;
  std::vector<std::pair<milliseconds, std::uint64_t>> times_;  // when which revision was written
  std::map<std::pair<int, std::string>, milliseconds, std::less<>> lags_;
  std::uint64_t published_;
  bool is_publishing_ = false, is_collecting_ = false;
};

// "pods", "trainingjobs": the collection that a request is about, its object's name ("" for a
// creation or a list) and subresource.
struct Path {
  std::string plural, name, subresource;
};
Path path_of(const kube::HttpRequest& request);

}  // namespace pawl::sim
