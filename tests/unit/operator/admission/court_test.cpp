// Who may send whom away, and that it is enough.
#include "operator/admission/court.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "common/base/random.h"
#include "operator/admission/line.h"

using namespace pawl;
using admission::Court;
using admission::Eviction;
using admission::Gang;
using admission::Quota;
using admission::Reclaim;
using admission::Tenant;
using std::chrono::seconds;

namespace {

const placement::Shape kSlot{{{"gpu", 1}}, {}};

// Hosts of eight GPUs each, two in a rack.
struct Grounds {
  explicit Grounds(int hosts) {
    for (int host = 0; host < hosts; ++host) {
      ledger.set_host({.name = "host-" + std::to_string(10 + host),
                       .labels = {{"rack", "rack-" + std::to_string(host / 2)}},
                       .allocatable = {{"gpu", 8}},
                       .is_ready = true});
    }
  }
  void set_queue(const std::string& name, int nominal, Reclaim reclaim = Reclaim::kAny) {
    quotas.set(name, {.quotas = {{"gpu", Quota{.nominal = nominal}}}, .reclaim = reclaim});
  }
  Tenant& run(const std::string& id, int host, int gpus, const std::string& queue = "",
              std::int64_t priority = 0, std::int64_t lost = 1) {
    ledger.promise(
        id + "-" + std::to_string(host),
        {.host = "host-" + std::to_string(10 + host), .requests = {{"gpu", gpus}}, .owner = id});
    auto charged = quotas.charged(id);
    charged["gpu"] += gpus;
    quotas.charge(id, queue, charged);
    Tenant& tenant = tenants[id];
    tenant = {.id = id, .priority = priority, .lost = lost, .queue = queue};
    return tenant;
  }
  // One more of its pods, without which it goes on.
  Tenant& add_spare(const std::string& id, int host, int gpus) {
    const std::string name = "host-" + std::to_string(10 + host);
    Tenant& tenant = tenants.at(id);
    const std::string pod = id + "-" + name + "-" + std::to_string(tenant.spare.size());
    ledger.promise(pod, {.host = name, .requests = {{"gpu", gpus}}, .owner = id});
    auto charged = quotas.charged(id);
    charged["gpu"] += gpus;
    quotas.charge(id, tenant.queue, charged);
    tenant.spare.push_back({pod, name});
    tenant.each = {{"gpu", gpus}};
    return tenant;
  }
  Gang gang(int units, const std::string& queue = "", std::int64_t priority = 0, int depth = 0) {
    return {.id = "asks",
            .priority = priority,
            .shape = kSlot,
            .ask = {.units = units, .required_depth = depth},
            .queue = queue};
  }
  Court court() {
    std::vector<Tenant> list;
    for (const auto& [id, tenant] : tenants) list.push_back(tenant);
    return {ledger, quotas, std::move(list), now};
  }
  // "a b:reclaimed c-2:reclaimed", where c gives up two; "nobody", who leaves already is enough;
  // "-" if nothing helps or is needed.
  std::string judge(const Gang& gang, const std::set<std::string>& closed = {}) {
    Court here = court();
    const auto found = here.judge(gang, closed);
    if (!found) return "-";
    last_hosts = found->hosts;
    std::string text;
    for (const Eviction::Victim& victim : found->victims)
      text += (text.empty() ? "" : " ") + victim.id +
              (victim.gives_up.empty() ? "" : "-" + std::to_string(victim.gives_up.size())) +
              (victim.is_reclaimed ? ":reclaimed" : "");
    return text.empty() ? "nobody" : text;
  }

  TimePoint now{seconds{100'000}};
  placement::Ledger ledger{{"rack"}};
  admission::Quotas quotas;
  std::map<std::string, Tenant> tenants;
  std::set<std::string> last_hosts;
};

}  // namespace

TEST_CASE("court: a higher priority sends a lower one away, and no equal one", "[admission][I45]") {
  Grounds yard(2);
  yard.run("a", 0, 8, "", 5);
  yard.run("b", 1, 8, "", 3);
  CHECK(yard.judge(yard.gang(8, "", 3)) == "-");
  CHECK(yard.judge(yard.gang(8, "", 4)) == "b");
  CHECK(yard.last_hosts == std::set<std::string>{"host-11"});
  CHECK(yard.judge(yard.gang(16, "", 6)) == "a b");
  CHECK(yard.judge(yard.gang(17, "", 6)) == "-");
  Gang gang = yard.gang(8, "", 4);
  gang.preempts = false;
  CHECK(yard.judge(gang) == "-");
}

TEST_CASE("court: nobody is sent away for what is free, or becomes free in any case",
          "[admission][I45]") {
  Grounds yard(3);
  yard.run("a", 0, 8);
  Tenant& b = yard.run("b", 1, 8);
  b.is_leaving = true;
  CHECK(yard.judge(yard.gang(8, "", 1)) == "-");               // the third host is free
  CHECK(yard.judge(yard.gang(8, "", 1), {"host-12"}) == "-");  // for nobody it could have sent away
  b.is_sent_away = true;
  CHECK(yard.judge(yard.gang(8, "", 1), {"host-12"}) == "nobody");
  CHECK(yard.last_hosts == std::set<std::string>{"host-11"});
  CHECK(yard.judge(yard.gang(16, "", 1)) == "nobody");
  CHECK(yard.judge(yard.gang(17, "", 1)) == "a");
  CHECK(yard.judge(yard.gang(17, "", 1), {"host-12"}) == "-");
}

TEST_CASE("court: who has run for too short a time is left alone until then", "[admission][I45]") {
  Grounds yard(1);
  yard.run("a", 0, 8).protected_until = yard.now + seconds{10};
  Court court = yard.court();
  CHECK_FALSE(court.judge(yard.gang(8, "", 1), {}));
  CHECK(court.again() == yard.now + seconds{10});
  yard.now += seconds{10};
  CHECK(yard.judge(yard.gang(8, "", 1)) == "a");
}

TEST_CASE("court: a queue takes back what was borrowed of it, and no more", "[admission][I45]") {
  Grounds yard(2);
  yard.set_queue("mine", 8);
  yard.set_queue("theirs", 8);
  yard.run("a", 0, 4, "theirs", 9, 5);
  yard.run("b", 0, 4, "theirs", 9, 2);
  yard.run("c", 1, 4, "theirs", 9, 1);
  CHECK(yard.judge(yard.gang(4, "mine")) == "-");  // there is room
  CHECK(yard.judge(yard.gang(8, "mine")) == "c:reclaimed");
  CHECK(yard.judge(yard.gang(9, "mine")) == "-");  // it would borrow
  yard.set_queue("mine", 8, Reclaim::kLowerPriority);
  CHECK(yard.judge(yard.gang(8, "mine", 9)) == "-");
  CHECK(yard.judge(yard.gang(8, "mine", 10)) == "c:reclaimed");
  yard.set_queue("mine", 8, Reclaim::kNever);
  CHECK(yard.judge(yard.gang(8, "mine", 10)) == "-");
}

// "theirs" has borrowed four: two that have four each may not both be sent away.
TEST_CASE("court: each is looked at when the others are gone", "[admission][I45]") {
  Grounds yard(2);
  yard.set_queue("mine", 16);
  yard.set_queue("theirs", 8);
  yard.run("a", 0, 4, "theirs", 0, 2);
  yard.run("b", 0, 4, "theirs", 0, 2);
  yard.run("c", 1, 4, "theirs", 0, 1);
  CHECK(yard.judge(yard.gang(8, "mine")) == "c:reclaimed");
  CHECK(yard.judge(yard.gang(12, "mine")) == "-");
  yard.run("d", 1, 4, "theirs");
  CHECK(yard.judge(yard.gang(8, "mine")).find(":reclaimed") != std::string::npos);
  CHECK(yard.judge(yard.gang(12, "mine")) == "-");
  yard.run("e", 1, 0, "theirs");  // is charged for nothing that was borrowed
  CHECK(yard.judge(yard.gang(12, "mine")) == "-");
}

TEST_CASE("court: quota is made free where there is room", "[admission][I45]") {
  Grounds yard(4);
  yard.set_queue("mine", 8);
  yard.run("a", 0, 4, "mine", 1, 7);
  yard.run("b", 0, 4, "mine", 1, 3);
  CHECK(yard.judge(yard.gang(2, "mine", 2)) == "b");
  CHECK(yard.judge(yard.gang(8, "mine", 2)) == "a b");
  CHECK(yard.judge(yard.gang(9, "mine", 2)) == "-");  // never
  CHECK(yard.judge(yard.gang(2, "mine", 1)) == "-");
  yard.tenants["b"].is_leaving = yard.tenants["b"].is_sent_away = true;
  CHECK(yard.judge(yard.gang(4, "mine", 2)) == "nobody");
  yard.quotas.set("mine", {.quotas = {{"gpu", Quota{.nominal = 8}}}, .preempts_within = false});
  CHECK(yard.judge(yard.gang(8, "mine", 2)) == "-");
}

TEST_CASE("court: room and quota are of the same gangs where that costs less", "[admission][I45]") {
  Grounds yard(2);
  yard.set_queue("mine", 16);
  yard.run("a", 0, 8, "mine", 1, 1);   // the cheapest, for quota
  yard.run("b", 1, 8, "mine", 1, 20);  // the other one
  CHECK(yard.judge(yard.gang(8, "mine", 2)) == "a");
  // Room is on b's host alone: a does not have to go, too.
  CHECK(yard.judge(yard.gang(8, "mine", 2), {"host-10"}) == "b");
}

TEST_CASE("court: what is awaited is so until it cannot be", "[admission][I45]") {
  Grounds yard(2);
  yard.run("a", 0, 8).is_leaving = true;
  yard.run("b", 1, 8);
  const Gang gang = yard.gang(8, "", 1);
  CHECK(yard.court().holds(gang, {"host-10"}));
  CHECK_FALSE(yard.court().holds(gang, {"host-11"}));
  CHECK_FALSE(yard.court().holds(gang, {"gone"}));
  Court court = yard.court();
  court.send_away({"b"});
  CHECK(court.holds(gang, {"host-11"}));
  yard.run("a", 0, 8);  // goes on
  CHECK_FALSE(yard.court().holds(gang, {"host-10"}));
}

TEST_CASE("court: elastic gangs become smaller before anybody leaves, and no smaller than needed",
          "[admission][I45]") {
  Grounds yard(4);
  yard.run("large", 0, 8, "", 1, 1'000);
  yard.add_spare("large", 1, 8);
  yard.add_spare("large", 2, 8);
  yard.run("small", 3, 8, "", 0, 1);
  CHECK(yard.judge(yard.gang(8, "", 2)) == "large-1");
  CHECK(yard.judge(yard.gang(16, "", 2)) == "large-2");
  CHECK(yard.judge(yard.gang(24, "", 2)) == "large-2 small");
  CHECK(yard.judge(yard.gang(32, "", 2)) == "large small");
  CHECK(yard.judge(yard.gang(8, "", 1)) == "small");  // large has no lower priority
  yard.tenants["large"].protected_until = yard.now + seconds{10};
  CHECK(yard.judge(yard.gang(16, "", 2)) == "-");
}

TEST_CASE("court: what a gang gives up already is enough, or it gives up nothing more",
          "[admission][I45]") {
  Grounds yard(3);
  yard.run("large", 0, 8);
  yard.add_spare("large", 1, 8);
  yard.add_spare("large", 2, 8);
  Court court = yard.court();
  const auto found = court.judge(yard.gang(8, "", 2), {});
  REQUIRE(found);
  REQUIRE(found->victims.size() == 1);
  court.send_away(found->victims.front());
  CHECK(court.holds(yard.gang(8, "", 2), found->hosts));
  CHECK(yard.judge(yard.gang(8, "", 2)) == "large-1");
  Tenant& large = yard.tenants["large"];
  large.is_shrinking = large.is_sent_away = true;
  large.spare.pop_back();
  CHECK(yard.judge(yard.gang(8, "", 2)) == "nobody");
  CHECK(yard.judge(yard.gang(16, "", 2)) == "-");  // not before it has become smaller
}

TEST_CASE("court: quota is given back by becoming smaller, too", "[admission][I45]") {
  Grounds yard(4);
  yard.set_queue("mine", 20);
  yard.run("large", 0, 4, "mine", 1, 1'000);
  for (int i = 0; i < 3; ++i) yard.add_spare("large", i % 2, 4);
  yard.run("small", 2, 4, "mine", 0, 1);
  // One host is free: only quota is short.
  CHECK(yard.judge(yard.gang(8, "mine", 2)) == "large-2");
  CHECK(yard.judge(yard.gang(12, "mine", 2)) == "large-3");
  CHECK(yard.judge(yard.gang(13, "mine", 2)) == "large-3 small");
}

TEST_CASE("court: a queue takes back what was borrowed of it from those that can do without",
          "[admission][I45]") {
  Grounds yard(2);
  yard.set_queue("mine", 8);
  yard.set_queue("theirs", 8);
  yard.run("a", 0, 4, "theirs", 9, 5);
  yard.run("b", 0, 4, "theirs", 9, 1);
  for (int i = 0; i < 2; ++i) yard.add_spare("a", 1, 4);
  CHECK(yard.judge(yard.gang(4, "mine")) == "a-2:reclaimed");  // they are on one host
  CHECK(yard.judge(yard.gang(8, "mine")) == "a-2:reclaimed");
  CHECK(yard.judge(yard.gang(9, "mine")) == "-");
}

// Whatever is chosen: each has a right over it, it is enough, and without any one it is not.
TEST_CASE("court: what is for one is for nobody behind it", "[admission][I45]") {
  Grounds yard(2);
  yard.set_queue("mine", 8);
  yard.run("a", 0, 8, "mine");
  const Gang first = yard.gang(8, "mine", 2);
  Gang second = yard.gang(8, "mine", 1);
  second.id = "second";
  Court court = yard.court();
  const auto found = court.judge(first, {});
  REQUIRE(found);
  court.send_away({"a"});
  court.reserve(first, found->hosts);
  CHECK_FALSE(court.judge(second, {}));
  CHECK_FALSE(court.holds(second, found->hosts));
}

namespace {

// Of its quota, by what it gives up now, or has before.
std::int64_t freed(const Grounds& yard, const std::string& id, const Eviction& eviction) {
  const Tenant& tenant = yard.tenants.at(id);
  const std::int64_t all = yard.quotas.charged(id).at("gpu");
  const std::int64_t each = tenant.spare.empty() ? 0 : tenant.each.at("gpu");
  const auto victim = std::ranges::find(eviction.victims, id, &Eviction::Victim::id);
  const bool is_victim = victim != eviction.victims.end();
  if (tenant.is_leaving || (is_victim && victim->gives_up.empty())) return all;
  if (is_victim) return each * std::ssize(victim->gives_up);
  return tenant.is_shrinking ? each * std::ssize(tenant.spare) : 0;
}

// Without any one of them there would be too little, on those hosts or of the quota.
void check_needed(Grounds& yard, const Gang& gang, const Eviction& eviction) {
  for (const Eviction::Victim& spared : eviction.victims) {
    Court court = yard.court();
    for (const Eviction::Victim& victim : eviction.victims)
      if (victim.id != spared.id) court.send_away(victim);
    CHECK_FALSE(court.holds(gang, eviction.hosts));
  }
}

}  // namespace

TEST_CASE("court: random clusters", "[admission][I45]") {
  Random random(20'261);
  const auto between = [&](int least, int most) {
    return least + static_cast<int>(random.below(static_cast<std::uint64_t>(most - least + 1)));
  };
  int evictions = 0, reclaims = 0, shrunk = 0;
  for (int round = 0; round < 2'000; ++round) {
    INFO("round " << round);
    Grounds yard(between(1, 4));
    const int hosts = yard.ledger.topology().hosts();
    yard.set_queue("x", between(2, 12));
    yard.set_queue("y", between(2, 12));
    std::vector<int> free(static_cast<std::size_t>(hosts), 8);
    const auto queue_of = [&] {
      const auto which = between(0, 4);
      return std::string(which < 2 ? "x" : which < 4 ? "y" : "");
    };
    for (int i = 0; i < 8; ++i) {
      const auto host = static_cast<std::size_t>(between(0, hosts - 1));
      const int gpus = between(1, 4);
      if (free[host] < gpus) continue;
      free[host] -= gpus;
      yard.run("r" + std::to_string(i), static_cast<int>(host), gpus, queue_of(), between(0, 3),
               between(0, 9))
          .is_leaving = random.one_in(6);
      for (int more = between(-3, 2); more > 0; --more) {
        const auto where = static_cast<std::size_t>(between(0, hosts - 1));
        const int each = (gpus + 1) / 2;
        if (free[where] < each) continue;
        free[where] -= each;
        yard.add_spare("r" + std::to_string(i), static_cast<int>(where), each).is_shrinking =
            random.one_in(6);
      }
      for (auto& [id, tenant] : yard.tenants)
        tenant.is_sent_away = tenant.is_leaving || tenant.is_shrinking;
    }
    const Gang gang =
        yard.gang(between(1, 10), queue_of(), between(0, 3), random.one_in(3) ? 1 : 0);
    Court court = yard.court();
    const auto found = court.judge(gang, {});
    if (!found) continue;
    ++evictions;
    Court after = yard.court();
    for (const Eviction::Victim& victim : found->victims) {
      const Tenant& tenant = yard.tenants.at(victim.id);
      reclaims += victim.is_reclaimed ? 1 : 0;
      CHECK_FALSE(tenant.is_leaving);
      shrunk += victim.gives_up.empty() ? 0 : 1;
      CHECK((victim.gives_up.empty() || !tenant.is_shrinking));
      CHECK((victim.is_reclaimed ? tenant.queue != gang.queue && !tenant.queue.empty()
                                 : tenant.queue == gang.queue && tenant.priority < gang.priority));
      after.send_away(victim);
    }
    CHECK(after.holds(gang, found->hosts));
    check_needed(yard, gang, *found);
    // Nobody of another queue was taken from what is its own.
    for (const char* name : {"x", "y"}) {
      if (name == gang.queue) continue;
      std::int64_t used = yard.quotas.used(name, "gpu"), smallest = INT64_MAX;
      for (const auto& [id, tenant] : yard.tenants) {
        if (tenant.queue != name) continue;
        const std::int64_t charged = freed(yard, id, *found);
        used -= charged;
        const bool is_victim =
            std::ranges::find(found->victims, id, &Eviction::Victim::id) != found->victims.end();
        if (is_victim) smallest = std::min(smallest, charged);
      }
      // With the last of them back its queue would have borrowed.
      const std::int64_t nominal = yard.quotas.find(name)->quotas.at("gpu").nominal;
      const bool has_lost = smallest != INT64_MAX;
      std::int64_t largest = 0;
      for (const Eviction::Victim& victim : found->victims) {
        if (yard.tenants.at(victim.id).queue == name)
          largest = std::max(largest, freed(yard, victim.id, *found));
      }
      CHECK((!has_lost || used + largest > nominal));
    }
  }
  CHECK(evictions > 300);
  CHECK(reclaims > 50);
  CHECK(shrunk > 100);
}
