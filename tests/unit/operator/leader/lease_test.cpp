#include "operator/leader/lease.h"

#include <catch2/catch_test_macros.hpp>

#include "common/kube/requests.h"
#include "tests/unit/operator/leader/lease_world.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;

namespace {

using Candidate = LeaseWorld::Candidate;

Candidate& elect(LeaseWorld& world) {
  world.run_until([&] { return world.leader() != nullptr; });
  return *world.leader();
}

bool is_patch(const kube::HttpRequest& request) { return request.method == kube::Method::kPatch; }

}  // namespace

TEST_CASE("lease: of three candidates one leads, and the others ask for nothing", "[leader][B21]") {
  LeaseWorld world(3);
  Candidate& first = elect(world);
  world.run(seconds{5});
  std::vector<int> before;
  for (const auto& item : world.candidates) before.push_back(item->reads + item->writes);
  world.run(seconds{400});
  CHECK(world.leader() == &first);
  for (std::size_t i = 0; i < world.candidates.size(); ++i) {
    const Candidate& item = *world.candidates[i];
    INFO(item.identity);
    const int asked = item.reads + item.writes - before[i];
    if (&item == &first) {
      CHECK(asked <= 100);  // one renewal each 4 s
      CHECK(asked >= 98);
    } else {
      CHECK(asked == 0);
    }
  }
  CHECK(world.lease()["spec"]["leaseTransitions"] == 0);
}

TEST_CASE("lease: given back, the next one leads at once and learns what was left for it",
          "[leader]") {
  LeaseWorld world(2);
  Candidate& first = elect(world);
  const std::string identity = first.identity;
  world.run(seconds{7});
  first.machine->release("11/12/13");
  CHECK_FALSE(first.machine->is_leading());
  const auto taken = world.run_until([&] { return world.leader() != nullptr; });
  CHECK(taken <= milliseconds{100});
  REQUIRE(world.leader() != &first);
  CHECK(first.machine->is_released());
  CHECK(world.leader()->machine->inherited() == "11/12/13");
  const json lease = world.lease();
  CHECK(lease["spec"]["leaseTransitions"] == 1);
  CHECK_FALSE(lease["metadata"].value("annotations", json::object()).contains("pawl.dev/handover"));
  // The word was for this term alone: one that began by expiry inherits nothing.
  world.kill(world.index_of(*world.leader()));
  world.add();
  CHECK(elect(world).machine->inherited().empty());
}

TEST_CASE("lease: after kill -9 another leads when the lease has run out, not before",
          "[leader][B21]") {
  for (const int after : {0, 900, 2'300, 3'990}) {
    const milliseconds moment{after};
    LeaseWorld world(2);
    Candidate& first = elect(world);
    world.run(seconds{8} + moment);
    world.kill(world.index_of(first));
    const auto taken = world.run_until([&] { return world.leader() != nullptr; });
    INFO("killed after " << moment.count() << " ms");
    CHECK(taken > milliseconds{10'500});
    CHECK(taken < milliseconds{15'300});
  }
}

TEST_CASE("lease: a lost reply to any of its requests leads to the same end", "[leader][B14]") {
  for (int nth = 1; nth <= 8; ++nth) {
    for (const bool is_applied : {true, false}) {
      INFO("request " << nth << (is_applied ? ", reply lost" : ", lost on the way"));
      LeaseWorld world(2);
      int seen = 0;
      world.passage = [&](const Candidate&, const kube::HttpRequest&) {
        Passage way;
        if (++seen == nth) (is_applied ? way.is_lost_back : way.is_lost_there) = true;
        return way;
      };
      Candidate& first = elect(world);
      world.run(seconds{30});
      REQUIRE(world.leader() == &first);
      first.machine->release("1/2/3");
      world.run_until([&] { return world.leader() != nullptr; }, seconds{20});
      CHECK(world.leader() != &first);
      world.run_until([&] { return first.machine->is_released(); }, seconds{10});
    }
  }
}

TEST_CASE("lease: the reply to the release is lost: it is read, and nobody is cleared away",
          "[leader][B14]") {
  LeaseWorld world(2);
  Candidate& first = elect(world);
  world.run(seconds{5});
  world.passage = [&](const Candidate& from, const kube::HttpRequest& request) {
    Passage way;
    way.is_lost_back = &from == &first && is_patch(request);
    return way;
  };
  first.machine->release("");
  world.run(seconds{6});
  REQUIRE(world.leader() != nullptr);
  CHECK(world.leader() != &first);
  CHECK(first.machine->is_released());
  CHECK(world.lease()["spec"]["holderIdentity"] == world.leader()->identity);
}

TEST_CASE("lease: an outage of the API ends the lead at the deadline, from before the last renewal",
          "[leader][B21]") {
  LeaseWorld world(2);
  Candidate& first = elect(world);
  world.run(seconds{9});
  bool is_out = true;
  SteadyPoint renewed{};
  world.passage = [&](const Candidate& from, const kube::HttpRequest& request) {
    Passage way;
    way.is_refused = is_out;
    if (!is_out && &from == &first && is_patch(request)) renewed = world.clock.steady_now();
    return way;
  };
  SECTION("short: the lead is kept") {
    world.run(seconds{5});
    is_out = false;
    world.run(seconds{30});
    CHECK(world.leader() == &first);
    CHECK(first.machine->terms() == 1);
  }
  SECTION("long: it stops by itself, and comes back when the API does") {
    is_out = false;
    world.run(seconds{6});  // notes the time of a renewal
    is_out = true;
    const SteadyPoint last = renewed;
    world.run_until([&] { return world.leader() == nullptr; });
    CHECK(world.clock.steady_now() - last <= milliseconds{10'020});
    CHECK(world.clock.steady_now() - last >= milliseconds{9'980});
    world.run(seconds{60});
    CHECK(world.leader() == nullptr);
    is_out = false;
    CHECK(world.run_until([&] { return world.leader() != nullptr; }) < seconds{6});
    CHECK(world.candidates[0]->machine->terms() + world.candidates[1]->machine->terms() == 2);
  }
}

TEST_CASE(
    "lease: a leader that was stopped for longer than the lease does not lead when it goes on",
    "[leader][B21]") {
  LeaseWorld world(2);
  Candidate& first = elect(world);
  world.run(seconds{5});
  first.stopped_until = world.clock.steady_now() + seconds{30};
  world.run(seconds{29});
  REQUIRE(world.leader() != nullptr);
  REQUIRE(world.leader() != &first);
  const auto refused = [&] {
    return std::count(world.statuses.begin(), world.statuses.end(), 409);
  };
  const auto before = refused();
  CHECK(first.machine->is_leading());  // it has not looked at the clock yet …
  CHECK(first.machine->leads_until() < world.clock.steady_now());  // … which is all that it needs
  world.run(seconds{30});
  CHECK(world.leader() != &first);
  CHECK_FALSE(first.machine->is_leading());
  CHECK(refused() == before);  // it did not even try
}

TEST_CASE("lease: a renewal that was sent before a stop and arrives after it changes nothing",
          "[leader][B21]") {
  LeaseWorld world(2);
  Candidate& first = elect(world);
  world.run(seconds{1});
  world.statuses.clear();
  bool is_slow = true;
  world.passage = [&](const Candidate& from, const kube::HttpRequest& request) {
    Passage way;
    if (&from == &first && is_patch(request) && std::exchange(is_slow, false)) {
      way.there = seconds{25};
    }
    return way;
  };
  world.run_until([&] { return !is_slow; });
  first.stopped_until = world.clock.steady_now() + seconds{60};
  world.run(seconds{20});
  REQUIRE(world.leader() != &first);
  const std::string holder = world.leader()->identity;
  world.run(seconds{10});
  CHECK(std::count(world.statuses.begin(), world.statuses.end(), 409) == 1);
  CHECK(world.lease()["spec"]["holderIdentity"] == holder);
}

TEST_CASE("lease: wall clocks are not compared", "[leader][B21]") {
  LeaseWorld world(2);
  world.candidates[0]->wall_offset = seconds{-7'200};
  world.candidates[1]->wall_offset = seconds{7'200};
  Candidate& first = elect(world);
  for (const int step : {-86'400, 86'400, 0}) {
    first.wall_offset = seconds{step};
    world.run(seconds{40});
    CHECK(world.leader() == &first);
  }
  CHECK(first.machine->terms() == 1);
}

TEST_CASE("lease: renewals bear rising times, whatever the holder's clock does", "[leader][B21]") {
  LeaseWorld world(2);
  Candidate& first = elect(world);
  std::string before;
  for (const int step : {0, -4, -8, -3'600, 3'600, 0}) {
    first.wall_offset = seconds{step};
    world.run(seconds{5});
    const std::string renewed = world.lease()["spec"]["renewTime"];
    CHECK(renewed > before);
    before = renewed;
  }
  CHECK(world.leader() == &first);
}

TEST_CASE("lease: a lease that somebody takes, clears or deletes ends the lead at once",
          "[leader][B21]") {
  LeaseWorld world(2);
  Candidate& first = elect(world);
  world.run(seconds{2});
  SECTION("taken") {
    world.patch_lease({{"spec", {{"holderIdentity", "a-person"}}}});
    world.run(milliseconds{50});
    CHECK(world.leader() == nullptr);
    CHECK(first.machine->why() == "the lease is held by a-person");
    world.run(seconds{14});
    CHECK(world.leader() == nullptr);
    world.run(seconds{2});
    CHECK(world.leader() != nullptr);
  }
  SECTION("deleted") {
    world.handle(kube::delete_request(kube::resources::kLeases, "pawl-system", "pawl-operator",
                                      {.uid = world.lease()["metadata"]["uid"]}));
    world.run(milliseconds{100});
    CHECK(world.leader() != nullptr);
    CHECK(first.machine->losses() == 1);
  }
  SECTION("annotated: the lead is kept, and a dead holder's life is not prolonged") {
    world.patch_lease({{"metadata", {{"annotations", {{"note", "1"}}}}}});
    world.run(seconds{10});
    CHECK(world.leader() == &first);
    CHECK(first.machine->terms() == 1);
    world.kill(world.index_of(first));
    for (int i = 0; i < 8; ++i) {
      world.patch_lease({{"metadata", {{"annotations", {{"note", std::to_string(i)}}}}}});
      world.run(seconds{2});
    }
    CHECK(world.leader() != nullptr);
  }
}

TEST_CASE("lease: the holder's own promise counts, whatever this version would promise",
          "[leader]") {
  LeaseWorld world(1);
  elect(world);
  world.patch_lease({{"spec", {{"holderIdentity", "newer"}, {"leaseDurationSeconds", 45}}}});
  world.run(seconds{44});
  CHECK(world.leader() == nullptr);
  world.run(seconds{2});
  CHECK(world.leader() != nullptr);
  CHECK(world.lease()["spec"]["leaseDurationSeconds"] == 15);
}

TEST_CASE("lease: a standby that is told to go leaves another's lease alone", "[leader]") {
  LeaseWorld world(2);
  Candidate& first = elect(world);
  Candidate& other = *world.candidates[world.index_of(first) == 0 ? 1 : 0];
  const int writes = other.writes;
  other.machine->release("1/1/1");
  world.run(seconds{20});
  CHECK(other.machine->is_released());
  CHECK(other.writes == writes);
  CHECK(world.leader() == &first);
}

TEST_CASE("lease: without a watch the lease changes hands as well", "[leader]") {
  LeaseWorld world(2);
  for (const auto& candidate : world.candidates) candidate->is_watching = false;
  Candidate& first = elect(world);
  world.run(seconds{60});
  CHECK(world.leader() == &first);
  world.kill(world.index_of(first));
  CHECK(world.run_until([&] { return world.leader() != nullptr; }) < seconds{31});
}
