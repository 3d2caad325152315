// Gangs that no node will ever hold, however much ends: larger than the cluster, or than the domain
// that they have to be in, or of pods that are larger than any node. They are told at once, and
// asked again when nodes come, or become others.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "operator/controller/placer.h"
#include "operator/controller/placer_gang.h"

namespace pawl::controller {

void Placer::expect_nodes(bool are_expected) {
  if (std::exchange(are_nodes_expected_, are_expected) != are_expected) reviewed_ = 0;
}

// A cluster of which no node is there yet is one that is being made; and who had nodes for as many
// until just now waits for theirs, and keeps the quota that it has.
bool Placer::is_hopeless(const JobKey& key, const admission::Gang& gang, int least) {
  const bool has_fitted = gang.keeps_quota && gang.kept_units >= least;
  if (are_nodes_expected_ || has_fitted || ledger_.topology().hosts() == 0) return false;
  const int units = ledger_.most_ever(gang.shape, gang.ask);
  if (units >= least) return false;
  hopeless_[key] = {gang.shape, gang.ask, units};
  return true;
}

std::string Placer::hopeless_text(const admission::Gang& gang, int least) {
  const placement::Topology& topology = ledger_.topology();
  const std::string each = requests_text(gang.shape.requests);
  const auto extent = ledger_.extent_of(gang.shape);
  const std::string all = counted(topology.hosts(), "node");
  if (extent.hosts == 0)
    return "its workers may be on none of the " + all +
           " of this cluster: change what the template demands of nodes (nodeSelector, affinity, "
           "tolerations), or add nodes that it allows";
  const auto emptied = placement::Room::emptied(topology, ledger_.units_ever(gang.shape));
  const int depth = gang.ask.required_depth;
  const auto most = placement::largest(topology, emptied, gang.ask);
  if (placement::largest(topology, emptied, depth).domain == nullptr)
    return "no node of this cluster is large enough for a worker, which asks for " + each +
           ": of each of these the most that one of " + counted(extent.hosts, "node") +
           " has for it is " + requests_text(extent.most) + "; ask for less, or add larger nodes";
  const std::string workers = counted(least, "worker") +
                              (each.empty() ? "" : " of " + each + " each") + slices_text(gang.ask);
  const std::string smaller = gang.more_units > 0 ? "spec.elastic.minReplicas" : "spec.replicas";
  const std::string on =
      "with nothing else on the " + counted(extent.hosts, "node") + " that it may use";
  if (depth == 0)
    return "this cluster will never hold " + workers + ": " + on + ", " +
           std::to_string(most.units) + " would fit; lower " + smaller +
           " or what a worker asks for, or add nodes";
  const std::string level = levels_.name_at(depth);
  const std::string best = most.domain == nullptr
                               ? "none would hold a slice"
                               : level + " " + most.domain->path + " would hold " +
                                     std::to_string(most.units) + ", and no other more";
  return "no " + level + " will ever hold " + workers + ": " + on + ", " + best + "; lower " +
         smaller +
         " or what a worker asks for, require a wider "
         "level, or add nodes";
}

// Each is told anew when the answer has changed.
void Placer::review_hopeless(std::vector<JobKey>& keys) {
  if (std::exchange(reviewed_, ledger_.changes_ever()) == ledger_.changes_ever()) return;
  for (const auto& [key, hopeless] : hopeless_) {
    const bool is_news =
        are_nodes_expected_ || hopeless.units != ledger_.most_ever(hopeless.shape, hopeless.ask);
    if (!is_news) continue;
    asked_.at(key).answer.reset();  // which it has not taken yet: it asks anew
    keys.push_back(key);
  }
}

}  // namespace pawl::controller
