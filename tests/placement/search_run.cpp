#include "tests/placement/search_run.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "operator/admission/victims.h"
#include "tests/placement/states.h"

namespace pawl::placement {
namespace {

const Shape kWhole{{{"gpu", 8}, {"pods", 1}}, {}}, kHalf{{{"gpu", 4}, {"pods", 1}}, {}};

// Gangs of 1 to 64 hosts, three priorities, one in four elastic, one in five on halves of hosts;
// as many as asked for, and the rest of the cluster is taken by those that nobody may send away.
class CrowdedCluster {
 public:
  CrowdedCluster(int hosts, int runners) {
    add_hosts(ledger_, hosts);
    while (static_cast<int>(runners_.size()) < runners && add()) continue;
    std::ranges::sort(runners_, {}, &admission::Runner::id);
    const Room rest = ledger_.room(kHalf);
    for (int host = 0; host < ledger_.topology().hosts(); ++host) {
      for (int i = 0; i < rest.units_on(host); ++i)
        promise("system/" + std::to_string(host), i, host, kHalf);
    }
  }

  admission::Need next_need() {
    const int depth = below(3);
    const int units = depth == 2 ? 1 + below(16) : 1 << below(depth == 1 ? 8 : 9);
    return {.shape = kWhole, .ask = {.units = units, .required_depth = depth}};
  }
  Ledger& ledger() { return ledger_; }
  const std::vector<admission::Runner>& runners() const { return runners_; }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  void promise(const std::string& owner, int number, int host, const Shape& shape) {
    ledger_.promise(
        pod_of(owner, number),
        {.host = ledger_.topology().host(host), .requests = shape.requests, .owner = owner});
  }

  static std::string pod_of(const std::string& owner, int number) {
    return owner + "-" + std::to_string(number);
  }

  bool add() {
    const Shape& shape = below(5) == 0 ? kHalf : kWhole;
    const int size = 1 << std::min(below(7), 6);
    const auto placed = place(ledger_.topology(), ledger_.room(shape), {.units = size});
    if (!placed) return false;
    const std::string id = "team/job-" + std::to_string(10'000 + runners_.size());
    admission::Runner runner{.id = id, .priority = below(3), .lost = size * below(3'600)};
    const bool is_elastic = below(4) == 0;
    int member = 0;
    for (const Share& share : placed->shares) {
      for (int i = 0; i < share.units; ++i, ++member) {
        promise(id, member, share.host, shape);
        if (is_elastic && member > size / 2) runner.spare.push_back(pod_of(id, member));
      }
    }
    runners_.push_back(std::move(runner));
    return true;
  }

  Ledger ledger_{{"block", "rack"}};
  std::vector<admission::Runner> runners_;
  std::mt19937 random_{1};
};

}  // namespace

SearchTimes time_search(int hosts, int runners, int searches) {
  CrowdedCluster cluster(hosts, runners);
  SearchTimes times{.runners = static_cast<int>(cluster.runners().size())};
  std::vector<Spent> all;
  for (int i = 0; i < searches; ++i) {
    const admission::Need need = cluster.next_need();
    const Stopwatch watch;
    const auto found = choose_victims(cluster.ledger(), need, cluster.runners());
    all.push_back(watch.spent());
    times.searches += found && !found->victims.empty() ? 1 : 0;
  }
  times.ms_max = std::ranges::max(all, {}, &Spent::wall_ms).wall_ms;
  times.p99 = p99_of(std::move(all));
  return times;
}

}  // namespace pawl::placement
