// For whom room is kept, and that nobody waits for ever.
#include "operator/admission/reservation.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "common/base/random.h"
#include "operator/admission/line.h"

using namespace pawl;
using admission::Gang;
using admission::Line;
using std::chrono::seconds;

namespace {

const placement::Shape kWhole{{{"gpu", 8}}, {}};

// Racks of four hosts of eight GPUs; gangs of whole hosts.
struct Site {
  explicit Site(int racks, admission::Patience patience = {.wait_max = seconds{60}})
      : line(patience) {
    for (int host = 0; host < 4 * racks; ++host) {
      ledger.set_host({.name = "host-" + std::to_string(10 + host),
                       .labels = {{"rack", "rack-" + std::to_string(host / 4)}},
                       .allocatable = {{"gpu", 8}},
                       .is_ready = true});
    }
  }
  void join(const std::string& id, int hosts, std::optional<seconds> run_max = std::nullopt,
            int depth = 0) {
    const TimePoint since = asked.try_emplace(id, now).first->second;
    line.join({.id = id,
               .since = since,
               .waits_since = since,
               .run_max = run_max,
               .shape = kWhole,
               .ask = {.units = hosts, .required_depth = depth}});
  }
  // What is placed now.
  std::string round(bool is_freed = true) {
    std::string text;
    last =
        line.round({ledger, quotas}, is_freed, now, [this](const Gang& gang, const auto& placed) {
          for (const auto& share : placed.shares) {
            const std::string& host = ledger.topology().host(share.host);
            ledger.promise(gang.id + "/" + host,
                           {.host = host, .requests = gang.shape.requests, .owner = gang.id});
            running[gang.id].push_back(gang.id + "/" + host);
          }
          if (gang.run_max) ledger.expect_end(gang.id, now + *gang.run_max);
        });
    for (const auto& verdict : last) {
      if (verdict.placement) text += (text.empty() ? "" : " ") + verdict.id;
    }
    return text;
  }
  void end(const std::string& id) {
    for (const std::string& pod : running[id]) ledger.withdraw(pod);
    running.erase(id);
    ledger.expect_end(id, std::nullopt);
  }
  void pass(int time) { now += seconds{time}; }

  TimePoint now{seconds{100'000}};
  placement::Ledger ledger{{"rack"}};
  admission::Quotas quotas;
  Line line;
  std::map<std::string, TimePoint> asked;  // when it did first
  std::map<std::string, std::vector<std::string>> running;
  std::vector<admission::Verdict> last;
};

// Jobs of one host come for ever, and run for 5 to 20 s: there are always two that wait. After how
// many seconds one of four hosts in one rack begins; -1: not in two hours.
int wait_beside_stream(seconds wait_max, bool has_deadlines, std::uint64_t seed) {
  Site site(2, {.wait_max = wait_max});
  Random random{seed};
  std::map<std::string, TimePoint> ends;
  std::map<std::string, seconds> runs;
  int next = 0;
  for (int second = 0; second < 7'200; ++second, site.pass(1)) {
    for (auto at = ends.begin(); at != ends.end();) {
      if (at->second > site.now) {
        ++at;
        continue;
      }
      site.end(at->first);
      at = ends.erase(at);
    }
    if (second == 100) site.join("large", 4, std::nullopt, 1);
    while (site.line.size() < 3) {
      const std::string id = "small-" + std::to_string(next++);
      runs[id] = seconds{5 + static_cast<int>(random.below(16))};
      site.join(id, 1, has_deadlines ? std::optional{runs[id]} : std::nullopt);
    }
    site.round();
    for (const auto& verdict : site.last) {
      if (!verdict.placement) continue;
      if (verdict.id == "large") return second - 100;
      ends[verdict.id] = site.now + runs[verdict.id];
    }
  }
  return -1;
}

}  // namespace

// kueue#534: a large gang waits for as long as smaller ones come.
TEST_CASE("reservation: a stream of small jobs does not keep a large one waiting", "[admission]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    for (const bool has_deadlines : {false, true}) {
      const int wait = wait_beside_stream(seconds{60}, has_deadlines, seed);
      CHECK(wait >= 0);
      CHECK(wait <= 60 + 20 + 1);
    }
    CHECK(wait_beside_stream(seconds{1'000'000}, false, seed) == -1);  // with nothing kept
  }
}

TEST_CASE("reservation: who will have ended before may use what is kept", "[admission]") {
  Site site(1);
  site.join("a", 1, seconds{600});
  site.join("b", 1, seconds{300});
  REQUIRE(site.round() == "a b");
  site.join("large", 4);
  CHECK(site.round().empty());
  CHECK_FALSE(site.last[0].kept);
  site.pass(60);
  site.join("silent", 1);
  site.join("long", 1, seconds{541});
  site.join("short", 1, seconds{540});
  CHECK(site.round() == "short");
  CHECK(std::ranges::count_if(site.last, &admission::Verdict::is_passed_over) == 2);
  site.join("large", 4);  // asks what it waits for
  site.round(false);
  REQUIRE(site.last.size() == 1);
  REQUIRE(site.last[0].kept);
  CHECK(site.last[0].kept->hosts == std::vector<int>{0, 1, 2, 3});
  CHECK(site.last[0].kept->lacking == 3);
  CHECK(site.last[0].kept->begin == TimePoint{seconds{100'600}});
}

TEST_CASE("reservation: room is kept in the domain that holds the gang first", "[admission]") {
  Site site(3);
  for (int rack = 0; rack < 3; ++rack) site.join("r" + std::to_string(rack), 4, std::nullopt, 1);
  REQUIRE(site.round() == "r0 r1 r2");
  site.ledger.expect_end("r1", site.now + seconds{900});
  site.join("large", 3, std::nullopt, 1);
  site.round();
  site.pass(60);
  site.join("late", 1);
  site.join("large", 3, std::nullopt, 1);
  site.pass(60);
  site.round();
  const auto kept = std::ranges::find(site.last, "large", &admission::Verdict::id)->kept;
  REQUIRE(kept);
  CHECK(kept->domain->path == "rack-1");
  CHECK(kept->hosts == std::vector<int>{4, 5, 6});
  // Nobody knows when the others end: what they leave is for anybody.
  site.end("r2");
  CHECK(site.round() == "large late");
}

TEST_CASE("reservation: for members in slices whole ones are kept", "[admission][I53]") {
  Site site(2);
  for (int i = 0; i < 8; ++i) site.join("one-" + std::to_string(i), 1);
  REQUIRE(site.round().starts_with("one-0"));
  // Two hosts of each rack: those that end first, and, of the second slice, later.
  const std::map<int, int> ends{{0, 100}, {1, 900}, {2, 300}, {4, 200}, {5, 400}, {6, 800}};
  const auto& topology = site.ledger.topology();
  for (const auto& [host, end] : ends) {
    for (const auto& [id, pods] : site.running) {
      if (pods.front().ends_with("/" + topology.host(host)))
        site.ledger.expect_end(id, site.now + seconds{end});
    }
  }
  const placement::Room room = site.ledger.room(kWhole);
  const admission::Prospect prospect{topology, room, site.ledger.outlook(kWhole)};
  const std::vector<bool> kept(8, false);
  const auto found = reserve(prospect, {.units = 4, .slices = {2, 1}}, kept, site.now);
  REQUIRE(found);
  CHECK(found->hosts == std::vector<int>{0, 2, 4, 5});
  CHECK(found->begin == site.now + seconds{400});
  CHECK(found->lacking == 4);
  const auto large = reserve(prospect, {.units = 6, .slices = {3, 1}}, kept, site.now);
  REQUIRE(large);
  CHECK(large->hosts == std::vector<int>{0, 1, 2, 4, 5, 6});
  CHECK(large->begin == site.now + seconds{900});
  CHECK_FALSE(reserve(prospect, {.units = 6, .slices = {5, 1}}, kept, site.now));
}

TEST_CASE("reservation: who never fits is kept nothing for", "[admission]") {
  Site site(1);
  site.join("a", 3);
  REQUIRE(site.round() == "a");
  site.join("never", 5);
  site.pass(61);
  site.join("large", 4);
  site.pass(61);
  site.join("small", 1);
  CHECK(site.round().empty());
  CHECK(std::ranges::find(site.last, "large", &admission::Verdict::id)->kept);
  CHECK_FALSE(std::ranges::find(site.last, "never", &admission::Verdict::id)->kept);
  site.line.leave("large");
  CHECK(site.round() == "small");
}

TEST_CASE("reservation: for all but the first no more is kept than a part of all", "[admission]") {
  Site site(5);  // 20 hosts: two of them are a tenth
  site.join("a", 18);
  REQUIRE(site.round() == "a");
  for (const char* id : {"b", "c"}) site.join(id, 3);
  site.pass(61);
  site.join("d", 1);
  CHECK(site.round() == "");
  site.line.leave("d");
  site.join("e", 1);
  site.join("b", 3);
  site.round(false);
  CHECK(std::ranges::find(site.last, "b", &admission::Verdict::id)->kept);
  site.join("c", 3);
  site.round(false);
  CHECK_FALSE(std::ranges::find(site.last, "c", &admission::Verdict::id)->kept);
}

TEST_CASE("reservation: what is kept no longer is for those behind", "[admission]") {
  Site site(1);
  site.join("a", 2);
  REQUIRE(site.round() == "a");
  site.join("large", 4);
  site.round();
  site.pass(61);
  site.join("b", 1);
  site.join("c", 1);
  CHECK(site.round(false).empty());
  SECTION("who waited for it gives up") {
    site.line.leave("large");
    CHECK(site.round(false) == "b c");
  }
  SECTION("who waited for it wants less") {
    site.join("large", 1);
    CHECK(site.round(false) == "large b");
  }
  SECTION("it asks again") {
    site.join("large", 4);
    CHECK(site.round(false).empty());
  }
}

TEST_CASE("reservation: what never ends is not waited for", "[admission]") {
  Site site(2);
  site.ledger.see_pod("kube-system/dns",
                      {.host = "host-10", .requests = {{"gpu", 1}}, .is_lasting = true});
  for (const char* id : {"a", "b", "c"}) site.join(id, 1);
  site.join("d", 4, std::nullopt, 1);
  REQUIRE(site.round() == "a b c d");
  site.join("large", 4, std::nullopt, 1);
  site.round();
  site.pass(61);
  site.join("large", 4, std::nullopt, 1);
  site.round();
  REQUIRE(site.last[0].kept);
  CHECK(site.last[0].kept->domain->path == "rack-1");  // though the other one lacks but one
}

TEST_CASE("reservation: a gang that lacks a member does not wait for itself", "[admission]") {
  Site site(1);
  site.join("own", 2, seconds{1'000});
  site.join("a", 1, seconds{5'000});
  site.join("b", 1, seconds{5'000});
  REQUIRE(site.round() == "a b own");
  Gang gang{.id = "own",
            .is_underway = true,
            .waits_since = site.now,
            .shape = kWhole,
            .ask = {.units = 2, .required_depth = 1}};
  for (const std::string& pod : site.running["own"]) gang.beside.push_back(pod.substr(4));
  site.pass(61);
  site.line.join(gang);
  site.round();
  REQUIRE(site.last[0].kept);
  CHECK(site.last[0].kept->begin == TimePoint{seconds{105'000}});
  CHECK(site.last[0].kept->hosts.size() == 2);
  site.end("a");
  site.join("short", 1, seconds{3'000});
  CHECK(site.round() == "short");
}

TEST_CASE("reservation: where nobody knows when it begins nobody comes between", "[admission]") {
  Site site(2, {.wait_max = seconds{60}, .part_of_hosts = 1});
  site.join("a", 4, std::nullopt, 1);
  site.join("b", 4, seconds{5'000}, 1);
  REQUIRE(site.round() == "a b");
  const std::string freed = site.running["a"].back();
  site.ledger.withdraw(freed);
  for (const char* id : {"first", "second"}) site.join(id, 4, std::nullopt, 1);
  site.pass(61);
  site.join("short", 1, seconds{600});
  CHECK(site.round().empty());
}

TEST_CASE("reservation: what should have ended long ago is not waited for", "[admission]") {
  Site site(2);
  site.join("a", 4, seconds{100}, 1);
  site.join("b", 4, seconds{5'000}, 1);
  REQUIRE(site.round() == "a b");
  site.join("large", 4, std::nullopt, 1);
  const auto domain = [&] {
    site.join("large", 4, std::nullopt, 1);
    site.round();
    return site.last[0].kept ? site.last[0].kept->domain->path : "";
  };
  site.pass(101);
  CHECK(domain() == "rack-0");
  site.pass(301);
  CHECK(domain() == "rack-1");
}

// All sets of hosts of each rack, at each moment at which something ends.
TEST_CASE("reservation: none could begin earlier", "[admission][A45]") {
  Random random{5};
  for (int run = 0; run < 500; ++run) {
    INFO("run " << run);
    Site site(2);
    const auto& topology = site.ledger.topology();
    std::vector<int> free, later;
    std::vector<TimePoint> ends;
    std::vector<bool> is_kept;
    for (int host = 0; host < 8; ++host) {
      free.push_back(static_cast<int>(random.below(3)));
      later.push_back(free.back() + static_cast<int>(random.below(3)));
      const bool is_unknown = random.one_in(4);
      ends.push_back(is_unknown ? placement::Outlook::kUnknown
                                : site.now + seconds{random.below(5)});
      is_kept.push_back(random.one_in(6));
    }
    const int units = 1 + static_cast<int>(random.below(8));
    const placement::Room room(topology, free, std::vector<bool>(8));
    const auto found = admission::reserve({topology, room, {later, ends}},
                                          {.units = units, .required_depth = 1}, is_kept, site.now);
    const auto units_at = [&](int host, TimePoint time) {
      const auto at = static_cast<std::size_t>(host);
      if (is_kept[at]) return 0;
      return std::max(free[at], ends[at] <= time ? later[at] : 0);
    };
    std::optional<TimePoint> earliest;
    for (const int first : {0, 4}) {
      for (const TimePoint time : ends) {
        for (const TimePoint at : {site.now, time}) {
          int sum = 0;
          for (int host = first; host < first + 4; ++host) sum += units_at(host, at);
          if (sum >= units) earliest = std::min(earliest.value_or(at), at);
        }
      }
    }
    REQUIRE(found.has_value() == earliest.has_value());
    if (!found) continue;
    CHECK(found->begin == *earliest);
    int sum = 0;
    for (const int host : found->hosts) sum += units_at(host, found->begin);
    CHECK(sum >= units);
    CHECK(topology.domains(1)[found->hosts.front() < 4 ? 0U : 1U].path == found->domain->path);
    for (const int left_out : found->hosts) {
      const int own = units_at(left_out, found->begin);
      CHECK(own > 0);
    }
  }
}
