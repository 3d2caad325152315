// Who has to leave, beside brute force.
#include "operator/admission/victims.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>

#include "common/base/random.h"

using namespace pawl;
using admission::choose_victims;
using admission::Need;
using admission::Runner;
using admission::Victim;
using placement::Resources;

namespace {

struct Member {
  std::string runner;
  int host = 0;
  Resources requests;
  bool is_spare = false;
};

// Racks of hosts with 8 GPUs and 8 of memory.
struct Cluster {
  explicit Cluster(std::vector<int> racks) {
    for (std::size_t rack = 0; rack < racks.size(); ++rack) {
      for (int i = 0; i < racks[rack]; ++i) add_host("rack-" + std::to_string(rack));
    }
  }
  void add_host(const std::string& rack) {
    ledger.set_host({.name = "host-" + std::to_string(100 + rack_of.size()),
                     .labels = {{"rack", rack}},
                     .allocatable = {{"gpu", 8}, {"memory", 8}},
                     .is_ready = true});
    rack_of.push_back(rack);
  }
  void run(const std::string& id, std::int64_t priority, std::int64_t lost) {
    runners[id] = {.id = id, .priority = priority, .lost = lost};
  }
  void add(const std::string& id, int host, int gpus = 8, bool is_spare = false, int memory = 0) {
    const std::string pod = "team/" + id + "-" + std::to_string(members.size());
    const Resources requests{{"gpu", gpus}, {"memory", memory}};
    ledger.promise(
        pod, {.host = "host-" + std::to_string(100 + host), .requests = requests, .owner = id});
    members.push_back({id, host, requests, is_spare});
    if (is_spare) runners.at(id).spare.push_back(pod);
  }
  std::vector<Runner> all() const {
    std::vector<Runner> list;
    for (const auto& [id, runner] : runners) list.push_back(runner);
    return list;
  }
  std::optional<admission::Sacrifice> choose(const placement::Ask& ask, const Resources& each) {
    return choose_victims(ledger, {.shape = {each, {}}, .ask = ask}, all());
  }
  // "a b:shrunk"; "-" if nothing helps.
  std::string victims(int units, int depth, int gpus = 8) {
    const auto found = choose({.units = units, .required_depth = depth}, {{"gpu", gpus}});
    if (!found) return "-";
    std::string text;
    for (const Victim& victim : found->victims)
      text += (text.empty() ? "" : " ") + victim.id + (victim.is_shrunk ? ":shrunk" : "");
    return text;
  }

  // Apart, so that a cluster can be moved.
  std::unique_ptr<placement::Ledger> own_ledger =
      std::make_unique<placement::Ledger>(std::vector<std::string>{"rack"});
  placement::Ledger& ledger = *own_ledger;
  std::vector<std::string> rack_of;  // by host
  std::map<std::string, Runner> runners;
  std::vector<Member> members;
};

// What each may do: stay, shrink, or go; the price of the cheapest that makes room.
class BruteForce {
 public:
  using Price = std::vector<std::pair<std::int64_t, std::int64_t>>;
  BruteForce(const Cluster& cluster, Resources each, placement::Ask ask)
      : cluster_(cluster), each_(std::move(each)), ask_(std::move(ask)) {
    try_next(cluster_.runners.begin());
  }
  const std::optional<Price>& best() const { return best_; }
  bool is_enough(const std::map<std::string, int>& fates) const {
    std::map<std::string, std::map<std::string, int>> sums;  // of each domain, in those of slices
    for (std::size_t host = 0; host < cluster_.rack_of.size(); ++host) {
      Resources free{{"gpu", 8}, {"memory", 8}};
      for (const Member& member : cluster_.members) {
        if (!std::cmp_equal(member.host, host)) continue;
        const int fate = fates.at(member.runner);
        if (fate == 2 || (fate == 1 && member.is_spare)) continue;
        for (const auto& [resource, amount] : member.requests) free[resource] -= amount;
      }
      std::int64_t fit = 1'000;
      for (const auto& [resource, amount] : each_) fit = std::min(fit, free[resource] / amount);
      const auto domain = [&](int depth) {
        return depth == 0 ? "" : cluster_.rack_of[host] + (depth > 1 ? std::to_string(host) : "");
      };
      sums[domain(ask_.required_depth)][domain(std::max(ask_.required_depth, ask_.slices.depth))] +=
          static_cast<int>(std::max<std::int64_t>(fit, 0));
    }
    const int size = ask_.has_slices() ? ask_.slices.size : 1;
    return std::ranges::any_of(sums, [&](const auto& entry) {
      int units = 0;
      for (const auto& [domain, sum] : entry.second) units += sum / size * size;
      return units >= ask_.units;
    });
  }

 private:
  void try_next(std::map<std::string, Runner>::const_iterator runner) {
    if (runner == cluster_.runners.end()) {
      if (is_enough(fates_)) note();
      return;
    }
    for (int fate = 0; fate < 3; ++fate) {
      if (fate == 1 && runner->second.spare.empty()) continue;
      fates_[runner->first] = fate;
      try_next(std::next(runner));
    }
  }
  void note() {
    std::map<std::int64_t, std::int64_t, std::greater<>> sums;
    for (const auto& [id, fate] : fates_) {
      const Runner& runner = cluster_.runners.at(id);
      if (fate == 2) sums[runner.priority] += runner.lost * 4096 + 1;
      if (fate == 1)
        sums[admission::kShrunk] += static_cast<std::int64_t>(runner.spare.size()) * 4096 + 1;
    }
    const Price price(sums.begin(), sums.end());
    if (!best_ || price < *best_) best_ = price;
  }

  const Cluster& cluster_;
  const Resources each_;
  const placement::Ask ask_;
  std::map<std::string, int> fates_;
  std::optional<Price> best_;
};

// Up to `runners` gangs on up to 12 hosts, some of them elastic, some on parts of hosts.
Cluster random_cluster(Random& random, int runners, std::int64_t lost_max) {
  std::vector<int> racks;
  for (int left = 4 + static_cast<int>(random.below(9)); left > 0; left -= racks.back())
    racks.push_back(std::min(left, 1 + static_cast<int>(random.below(5))));
  Cluster cluster(racks);
  std::vector<int> gpus(cluster.rack_of.size(), 8), memory(cluster.rack_of.size(), 8);
  for (int i = 0; i < runners; ++i) {
    const std::string id(1, static_cast<char>('a' + i));
    cluster.run(id, static_cast<std::int64_t>(random.below(3)),
                static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(lost_max))));
    const int each = random.below(2) == 0 ? 8 : 1 << random.below(4);
    const int needs = static_cast<int>(random.below(4));
    const bool is_elastic = random.below(3) == 0;
    const auto size = 1 + random.below(4);
    for (std::size_t member = 0, host = random.below(gpus.size()), tries = 0;
         member < size && tries < gpus.size(); ++tries, host = (host + 1) % gpus.size()) {
      if (gpus[host] < each || memory[host] < needs) continue;
      cluster.add(id, static_cast<int>(host), each, is_elastic && member > 0, needs);
      gpus[host] -= each;
      memory[host] -= needs;
      ++member;
    }
  }
  return cluster;
}

struct Case {
  Cluster cluster;
  placement::Ask ask;
  Resources each;
};

Case random_case(std::uint64_t seed, std::int64_t lost_max) {
  Random random{seed};
  Cluster cluster = random_cluster(random, 1 + static_cast<int>(random.below(9)), lost_max);
  Resources each{{"gpu", random.below(2) == 0 ? 8 : 1 << random.below(4)}};
  placement::Ask ask{.units = 1 + static_cast<int>(random.below(7))};
  ask.required_depth = static_cast<int>(random.below(3));
  if (const auto memory = random.below(3)) each["memory"] = static_cast<std::int64_t>(memory);
  return {std::move(cluster), std::move(ask), std::move(each)};
}

// … whose members are to lie in slices.
Case sliced_case(std::uint64_t seed, std::int64_t lost_max) {
  Case one = random_case(seed, lost_max);
  Random random{~seed};
  one.ask.slices = {2 + static_cast<int>(random.below(2)), 1 + static_cast<int>(random.below(2))};
  const int size = one.ask.slices.size;
  one.ask.units = std::max(one.ask.units / size, 1) * size;
  one.ask.required_depth =
      static_cast<int>(random.below(static_cast<std::uint64_t>(one.ask.slices.depth)));
  return one;
}

// Sums of so large random numbers are equal only if the same are added: no two choices cost the
// same, but for those of what is spare, on which nothing else depends.
// So many at least can be held, and some of these when others leave: of random ones a half and a
// quarter, of those in slices fewer.
void check_exact(std::uint64_t seeds, const decltype(random_case)& draw) {
  const bool is_sliced = draw == sliced_case;
  int possible = 0, with_victims = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    Case one = draw(seed, 1'000'000'000);
    const auto found = one.cluster.choose(one.ask, one.each);
    const BruteForce brute(one.cluster, one.each, one.ask);
    REQUIRE(found.has_value() == brute.best().has_value());
    if (!found) continue;
    ++possible;
    with_victims += found->victims.empty() ? 0 : 1;
    REQUIRE(found->price == *brute.best());
  }
  CHECK(possible > static_cast<int>(seeds) / (is_sliced ? 3 : 2));
  CHECK(with_victims > static_cast<int>(seeds) / (is_sliced ? 5 : 4));
}

}  // namespace

TEST_CASE("victims: nobody has to leave where there is room, or where it would not help",
          "[admission]") {
  Cluster cluster({2, 2});
  cluster.run("a", 0, 0);
  cluster.add("a", 0);
  CHECK(cluster.victims(2, 1).empty());
  CHECK(cluster.victims(4, 0) == "a");
  CHECK(cluster.victims(3, 1) == "-");
  CHECK(cluster.victims(5, 0) == "-");
}

// KAI#1591, kueue#10497: the victims lie in one domain, not anywhere.
TEST_CASE("victims: a gang that has to be in one rack sends away those of one rack",
          "[admission]") {
  Cluster cluster({3, 3});
  for (int host = 0; host < 6; ++host) {
    const std::string id(1, static_cast<char>('a' + host));
    cluster.run(id, 0, host == 4 ? 1'000 : 10 * (host % 3 + 1));  // rack 0: 60, rack 1: 1,040
    cluster.add(id, host);
  }
  CHECK(cluster.victims(3, 1) == "a b c");
  CHECK(cluster.victims(2, 1) == "a b");
  CHECK(cluster.victims(2, 0) == "a d");  // anywhere: those that lose the least
}

TEST_CASE("victims: priority first, then the work that would be lost, then how many",
          "[admission]") {
  Cluster cluster({4});
  cluster.run("dear", 5, 0);
  cluster.run("one", 1, 900);
  cluster.run("two", 1, 400);
  cluster.run("three", 1, 400);
  cluster.add("dear", 0);
  cluster.add("dear", 1);
  cluster.add("one", 2, 4);
  cluster.add("two", 3, 4);
  cluster.add("three", 3, 4);
  CHECK(cluster.victims(1, 0) == "three two");  // 800 beside 900
  CHECK(cluster.victims(2, 0) == "one three two");
  CHECK(cluster.victims(3, 0) == "dear three two");
}

TEST_CASE("victims: elastic gangs go down to their minimum before anybody leaves", "[admission]") {
  Cluster cluster({4});
  cluster.run("elastic", 9, 1'000'000);
  cluster.run("small", 0, 1);
  cluster.add("elastic", 0);
  cluster.add("elastic", 1, 8, true);
  cluster.add("elastic", 2, 8, true);
  cluster.add("small", 3);
  CHECK(cluster.victims(2, 0) == "elastic:shrunk");
  CHECK(cluster.victims(3, 0) == "elastic:shrunk small");
  CHECK(cluster.victims(4, 0) == "elastic small");
}

TEST_CASE("victims: two halves of a host have to leave together", "[admission]") {
  Cluster cluster({3});
  const std::map<std::string, int> hosts{{"a", 0}, {"b", 0}, {"c", 1}, {"d", 1}, {"e", 2}};
  for (const auto& [id, host] : hosts) {
    cluster.run(id, 0, id == "a" || id == "e" ? 100 : 30);
    cluster.add(id, host, id == "e" ? 8 : 4);
  }
  CHECK(cluster.victims(1, 0) == "c d");
  CHECK(cluster.victims(2, 0) == "c d e");
  CHECK(cluster.victims(1, 0, 4) == "b");
}

TEST_CASE("victims: hosts that are kept for others do not count; members that stay have to be near",
          "[admission]") {
  Cluster cluster({2, 2});
  for (int host = 0; host < 4; ++host) {
    const std::string id(1, static_cast<char>('a' + host));
    cluster.run(id, 0, 10 * host);
    cluster.add(id, host);
  }
  Need need{.shape = {{{"gpu", 8}}, {}}, .ask = {.units = 1, .required_depth = 1}};
  auto runners = cluster.all();
  need.is_closed = {true, false, false, false};
  CHECK(choose_victims(cluster.ledger, need, runners)->victims == std::vector<Victim>{{"b"}});
  need.ask.beside = {2};
  CHECK(choose_victims(cluster.ledger, need, runners)->victims == std::vector<Victim>{{"c"}});
  need.ask.units = 2;
  runners[3].gone = Runner::Part::kAll;
  CHECK(choose_victims(cluster.ledger, need, runners)->victims == std::vector<Victim>{{"c"}});
}

TEST_CASE("victims: of domains that cost the same the one where the gang lies closest",
          "[admission]") {
  Cluster cluster({2, 2});
  cluster.run("spread", 0, 0);
  cluster.run("close", 0, 0);
  for (const int host : {0, 1}) {
    cluster.add("spread", host, 4);
    cluster.add("stays", host, 4);
  }
  cluster.add("close", 2);
  cluster.add("stays", 3, 8);
  REQUIRE(cluster.victims(2, 1, 4) == "close");  // on one host, though the other rack comes first
  CHECK(cluster.victims(4, 0, 4) == "close spread");
}

TEST_CASE("victims: equal to brute force", "[admission]") { check_exact(400, random_case); }

TEST_CASE("victims: equal to brute force, 20,000 clusters", "[.][oracle]") {
  check_exact(20'000, random_case);
}

TEST_CASE("victims: for members in slices equal to brute force", "[admission]") {
  check_exact(400, sliced_case);
}

TEST_CASE("victims: for members in slices equal to brute force, 20,000 clusters", "[.][oracle]") {
  check_exact(20'000, sliced_case);
}

// Where several choices cost the same the highest priority's part is the least all the same, and
// everybody who leaves has to.
TEST_CASE("victims: nobody leaves in vain", "[admission]") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    Case one = random_case(seed, 3);
    const auto found = one.cluster.choose(one.ask, one.each);
    const BruteForce brute(one.cluster, one.each, one.ask);
    REQUIRE(found.has_value() == brute.best().has_value());
    if (!found) continue;
    REQUIRE(found->price.empty() == brute.best()->empty());
    if (!found->price.empty()) REQUIRE(found->price.front() == brute.best()->front());
    std::map<std::string, int> fates;
    for (const auto& [id, runner] : one.cluster.runners) fates[id] = 0;
    for (const Victim& victim : found->victims) fates[victim.id] = victim.is_shrunk ? 1 : 2;
    REQUIRE(brute.is_enough(fates));
    for (const Victim& victim : found->victims) {
      const int fate = std::exchange(fates[victim.id], 0);
      REQUIRE_FALSE(brute.is_enough(fates));
      fates[victim.id] = fate;
    }
  }
}
