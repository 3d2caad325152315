// An elastic gang that goes on with fewer workers, so that another job gets their room.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "operator/core/conditions.h"
#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

// Four of at least two, all in; from now on there is no room for another pod.
struct Wide {
  Wide() : world(World::elastic(4, 2)) {
    world.seats = [this](const core::Observed& seen) {
      return is_full ? core::Seating{.obstacle = "full"} : offer_of(seen);
    };
    world.policy.children.launcher_image = "pawl/launcher:1";
    world.settle(seconds{30});
    world.report(10);
    world.settle();
    REQUIRE(core::find_condition(world.job.status, "Running")->reason == "AllReady");
    is_full = true;
  }
  std::vector<std::string> spare() {
    std::vector<std::string> names;
    for (const core::HeldSeat& seat : seats().pods) names.push_back(seat.pod);
    return names;
  }
  core::SpareSeats seats() { return core::spare_seats(world.observed(), world.policy, world.now); }
  void tell() { world.gives_up = {"gpt-1-2-0", "gpt-1-3-0"}; }
  // And they have not gone yet.
  void tell_and_wait() {
    world.is_kubelet_on = false;
    tell();
    world.settle();
  }
  // The others go on without them.
  void go_on() {
    world.settle();
    world.commit_next(11);
    world.settle(seconds{60});
  }
  World world;
  bool is_full = false;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("shrink: what a gang can do without", "[core][I45]") {
  Wide wide;
  World& world = wide.world;
  CHECK(wide.spare() == Names{"gpt-1-2-0", "gpt-1-3-0"});
  CHECK_FALSE(wide.seats().are_given_up);
  SECTION("none, where the job waits for all") {
    world.set_spec([](auto& spec) { spec.elastic->on_shortage = api::OnShortage::kWait; });
    CHECK(wide.spare().empty());
  }
  SECTION("none, where another pod would differ from the others") {
    world.set_spec([](auto& spec) { spec.runtime_config_json = R"({"steps":99})"; });
    CHECK(wide.spare().empty());
  }
  SECTION("one less with each that goes") {
    world.delete_pod(1);
    CHECK(wide.spare() == Names{"gpt-1-3-0"});
    world.delete_pod(0);
    CHECK(wide.spare().empty());
    world.delete_pod(3);
    CHECK(wide.spare().empty());
  }
  SECTION("who is not in yet is the first") {
    world.commit_next(11, 1);
    CHECK(wide.spare() == Names{"gpt-1-1-0", "gpt-1-3-0"});
  }
  SECTION("nor the leader, which would have to hand over") {
    world.group->status.leader->ref.uid = world.pod(3).meta.uid;
    CHECK(wide.spare() == Names{"gpt-1-1-0", "gpt-1-2-0"});
    world.commit_next(11, 3);  // it leads no more
    CHECK(wide.spare() == Names{"gpt-1-2-0", "gpt-1-3-0"});
  }
  SECTION("none, while it stops") {
    world.leave_why = "another one";
    world.settle();
    CHECK(wide.spare().empty());
  }
}

TEST_CASE("shrink: it goes on without those, and grows again when there is room",
          "[core][I45][I33]") {
  for (int crash = 0; crash < 12; ++crash) {
    INFO("crash after " << crash << " actions");
    Wide wide;
    World& world = wide.world;
    world.actions_until_crash = world.actions_done + crash;
    wide.tell();
    wide.go_on();
    CHECK(world.pods.size() == 2);
    CHECK(world.job.status.attempt == 1);
    CHECK(world.job.status.restarts.by_cause.empty());
    CHECK(world.condition("Running") == "True");
    CHECK(world.job.status.message.ends_with("; full"));
    CHECK(world.job.status.last_failure->cause == "Preempted");
    CHECK(std::ranges::count(world.events, "Shrunk") <= 1);
    CHECK(core::staff_of(world.observed(), world.now).slots == std::set<int>{0, 1});
    CHECK(core::staff_of(world.observed(), world.now).awaited.empty());
    CHECK(core::held_seats(world.observed()).size() == 2);
    CHECK(wide.spare().empty());
    wide.is_full = false;
    world.settle(seconds{30});
    CHECK(world.pods.size() == 4);
    world.commit_next(12);
    world.settle();
    CHECK(core::find_condition(world.job.status, "Running")->reason == "AllReady");
    CHECK(wide.spare() == Names{"gpt-1-2-1", "gpt-1-3-1"});
    CHECK_FALSE(world.actions_until_crash);
    CHECK(world.broken.empty());
  }
}

// Seed 953449: whichever its pods were.
TEST_CASE("shrink: for what it gave up its next attempt has no quota", "[core][I44][I45]") {
  Wide wide;
  World& world = wide.world;
  wide.tell();
  wide.go_on();
  wide.is_full = false;
  world.settle(seconds{30});
  world.commit_next(12);
  world.settle();
  REQUIRE(wide.spare() == Names{"gpt-1-2-1", "gpt-1-3-1"});
  wide.is_full = true;
  world.gives_up = {"gpt-1-2-1", "gpt-1-3-1"};
  wide.go_on();
  CHECK(core::staff_of(world.observed(), world.now).slots == std::set<int>{0, 1});
  CHECK(kept_after_failure(world, {0, 1}) == 2);
}

TEST_CASE("shrink: until they are off the record their room and quota are on their way",
          "[core][I45]") {
  Wide wide;
  World& world = wide.world;
  wide.tell_and_wait();
  CHECK(wide.spare() == Names{"gpt-1-2-0", "gpt-1-3-0"});
  CHECK(wide.seats().are_given_up);
  CHECK(world.job.status.placement.later ==
        std::vector<api::PlacedPod>{{2, 0, "", "Preempted"}, {3, 0, "", "Preempted"}});
  CHECK(world.condition("Running") == "True");
  CHECK(std::ranges::count(world.events, "Shrunk") == 1);
  SECTION("which is not before they are gone") {
    for (int slot : {2, 3}) world.pod(slot).meta.deletion_time = world.now;
    world.settle();
    REQUIRE(world.group->spec.pods[3].n == 1);
    CHECK(wide.seats().are_given_up);
    world.finish_terminating();
    CHECK_FALSE(wide.seats().are_given_up);
  }
  SECTION("nor before the record says so") {
    world.finish_terminating();
    CHECK(wide.seats().are_given_up);
  }
}

TEST_CASE("shrink: it excuses no failure of the gang's own", "[core][I45][I5]") {
  Wide wide;
  World& world = wide.world;
  wide.tell_and_wait();
  world.fail(0, 1, "Error");
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 1);
  CHECK(world.job.status.last_failure->cause == "Error");
}

// Its grace may be long, or others may follow.
TEST_CASE("shrink: it waits for no pod that is leaving", "[core][I45]") {
  Wide wide;
  World& world = wide.world;
  world.is_kubelet_on = false;
  world.pod(3).meta.deletion_time = world.now + seconds{600};
  world.gives_up = {"gpt-1-2-0"};
  world.settle();
  CHECK(world.pod(2).meta.deletion_time);
}

TEST_CASE("shrink: a gang that has trained to the end does not begin again for them",
          "[core][I45][I9]") {
  Wide wide;
  World& world = wide.world;
  wide.tell_and_wait();
  world.commit_next(11, 3);
  std::erase_if(world.group->status.members, [](const api::Member& one) { return one.slot == 2; });
  world.group->status.is_finished = true;
  world.finish_terminating();
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 1);
  world.succeed(0);
  world.succeed(1);
  world.settle(seconds{60});
  CHECK(world.condition("Complete") == "True");
  CHECK(world.job.status.restarts.free == 0);
}

TEST_CASE("shrink: a gang that has lost one meanwhile gives up what it can still do without",
          "[core][I45]") {
  Wide wide;
  World& world = wide.world;
  world.remove_pod(1);
  wide.tell();  // as was decided before
  world.settle();
  CHECK(world.pods.contains("gpt-1-2-0"));
  CHECK_FALSE(world.pods.contains("gpt-1-3-0"));
}
