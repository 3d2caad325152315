// A job that gives its nodes to another one.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/seats.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

constexpr char kWhy[] = "job team/urgent of priority 9 needs its room, and this one has priority 0";

// Told to leave once, as whoever decides on nodes would.
struct Evicted {
  Evicted() : world(2) {
    world.seats = [this](const core::Observed& seen) {
      return is_full ? core::Seating{.obstacle = "4 GPUs short"} : offer_of(seen);
    };
    world.settle(seconds{60});
    REQUIRE(world.condition("Running") == "True");
  }
  void tell() {
    is_full = true;
    world.leave_why = kWhy;
    world.settle();
  }
  void leave() {
    world.report(50, 50);
    world.fail(0, 86);
    world.fail(1, 86);
    world.settle();
  }
  World world;
  bool is_full = false;
};

}  // namespace

TEST_CASE("preempt: the gang is asked to save, leaves, and waits in line", "[core][I45]") {
  Evicted gone;
  World& world = gone.world;
  gone.tell();
  CHECK(world.condition("Preempted") == "True");
  CHECK(world.condition("Running") == "False");
  CHECK(world.job.status.message == std::string(kWhy) + "; 2 workers have not ended yet");
  CHECK(world.group->spec.is_stopping);
  CHECK(world.live_pods() == 2);
  gone.leave();
  CHECK(world.job.status.attempt == 2);
  CHECK(world.condition("Preempted") == "False");
  CHECK(world.job.status.reason == "WaitingForRoom");
  CHECK(world.job.status.restarts.by_cause.at("Preempted") == 1);
  CHECK(world.job.status.restarts.free == 1);
  CHECK(world.job.status.restarts.counted == 0);
  CHECK(world.live_pods() == 0);
  CHECK(std::ranges::count(world.events, "Preempted") == 1);
  gone.is_full = false;
  world.settle(seconds{120});
  CHECK(world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 2 Preempted=1");
  CHECK(world.job.status.checkpoint->step == 50);
  CHECK(world.broken.empty());
}

TEST_CASE("preempt: who does not leave in time is deleted", "[core][I45]") {
  Evicted gone;
  gone.tell();
  gone.world.settle(seconds{29});
  CHECK(gone.world.live_pods() == 2);
  gone.world.settle(seconds{3});
  CHECK(gone.world.live_pods() == 0);
  CHECK(gone.world.job.status.attempt == 2);
}

TEST_CASE("preempt: once begun it is carried through, whatever becomes of the other one",
          "[core][I45]") {
  Evicted gone;
  gone.tell();
  gone.is_full = false;
  gone.leave();
  gone.world.settle(seconds{120});
  CHECK(gone.world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 2 Preempted=1");
}

TEST_CASE("preempt: an operator that dies anywhere goes on with it", "[core][I45]") {
  for (int actions = 0; actions < 12; ++actions) {
    INFO("dies after " << actions << " actions");
    Evicted gone;
    gone.world.actions_until_crash = gone.world.actions_done + actions;
    gone.tell();
    gone.world.settle(seconds{60});
    gone.is_full = false;
    gone.world.settle(seconds{120});
    CHECK_FALSE(gone.world.actions_until_crash);
    CHECK(gone.world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 2 Preempted=1");
    CHECK(gone.world.job.status.restarts.by_cause.at("Preempted") == 1);
    CHECK(gone.world.broken.empty());
  }
}

TEST_CASE("preempt: a gang that suspends, ends or fails meanwhile does just that", "[core][I45]") {
  Evicted gone;
  World& world = gone.world;
  gone.tell();
  SECTION("it is suspended, and is not sent away when it is resumed") {
    world.set_suspended(true);
    world.settle();
    CHECK(world.live_pods() == 2);  // it saves still
    world.settle(seconds{60});
    CHECK(world.condition("Suspended") == "True");
    CHECK(world.condition("Preempted") == "False");
    gone.is_full = false;
    world.set_suspended(false);
    world.settle(seconds{120});
    CHECK(world.condition("Running") == "True");
    CHECK(world.job.status.restarts.free == 0);
  }
  SECTION("it succeeds") {
    world.succeed_all();
    world.settle(seconds{60});
    CHECK(world.condition("Complete") == "True");
    CHECK(world.condition("Preempted") == "False");
  }
  SECTION("a worker fails: that is no failure of the job's any more") {
    world.fail(0, 1, "Error");
    world.settle(seconds{60});
    CHECK(world.job.status.restarts.counted == 0);
    CHECK(world.job.status.attempt == 2);
  }
}

TEST_CASE("preempt: limits of time are not looked at in line, and begin again with its nodes",
          "[core][I45][I27]") {
  Evicted gone;
  World& world = gone.world;
  world.set_spec([](api::TrainingJobSpec& spec) {
    spec.deadlines.active_seconds = 1'000;
    spec.deadlines.start_seconds = 100;
  });
  gone.tell();
  gone.leave();
  world.settle(seconds{5'000});
  CHECK(world.condition("Failed").empty());
  CHECK(world.job.status.reason == "WaitingForRoom");
  gone.is_full = false;
  world.is_kubelet_on = false;
  world.settle(seconds{90});
  CHECK(world.live_pods() == 2);
  CHECK(world.condition("Failed").empty());
  world.settle(seconds{20});
  CHECK(world.job.status.reason == "StartDeadlineExceeded");
}

TEST_CASE("preempt: it keeps no quota, and its time is accounted for", "[core][I45][I39][I44]") {
  Evicted gone;
  World& world = gone.world;
  CHECK(core::staff_of(world.observed(), world.now).slots.size() == 2);
  gone.tell();
  CHECK(core::staff_of(world.observed(), world.now).slots.size() == 2);
  gone.leave();
  const core::Staff staff = core::staff_of(world.observed(), world.now);
  CHECK(staff.slots.empty());
  CHECK_FALSE(staff.is_between);
  const auto before = world.job.status.goodput;
  world.settle(seconds{1'000});
  gone.is_full = false;
  world.settle(seconds{60});
  REQUIRE(world.condition("Running") == "True");
  const auto& goodput = world.job.status.goodput;
  CHECK(goodput.lost_seconds <= before.lost_seconds + 61);
}
