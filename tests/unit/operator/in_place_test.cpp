// A gang that replaces a killed process by itself: what the operator allows, tells, and leaves be.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "operator/core/failures.h"
#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

api::Failure killed(World& world, int rank, std::int64_t generation) {
  api::Failure failure;
  failure.rank = rank;
  failure.pod = world.pod(rank).meta.name;
  failure.pod_uid = world.pod(rank).meta.uid;
  failure.exit_code = 137;
  failure.signal = 9;
  failure.cause = core::cause::kSignal;
  failure.message = "killed";
  failure.attempt = world.job.status.attempt;
  failure.generation = generation;
  failure.time = world.now;
  return failure;
}

// The leader's commit after it.
void outlive(World& world, int rank) {
  api::WorkerGroupStatus& status = world.group->status;
  status.failures.push_back(killed(world, rank, status.generation));
  world.commit_next(12);
}

}  // namespace

TEST_CASE("in_place: the gang may outlive a signal unless the failure policy speaks of it",
          "[core][I5]") {
  const auto is_in_place = [](api::RuntimeKind kind, const auto& change) {
    World world(2, kind);
    world.set_spec(change);
    world.settle();
    REQUIRE(world.group.has_value());
    return world.group->spec.is_in_place;
  };
  using Kind = api::RuntimeKind;
  CHECK(is_in_place(Kind::kNative, [](auto&) {}));
  CHECK(is_in_place(Kind::kCustom, [](auto& spec) { spec.strategy = api::Strategy::kInPlace; }));
  CHECK_FALSE(is_in_place(Kind::kNative, [](auto& spec) { spec.max_restarts = 0; }));
  CHECK_FALSE(
      is_in_place(Kind::kNative, [](auto& spec) { spec.strategy = api::Strategy::kRecreateAll; }));
  const auto with_rule = [&](api::FailureRule rule) {
    return is_in_place(Kind::kNative, [&](auto& spec) { spec.failure_rules = {rule}; });
  };
  CHECK_FALSE(with_rule({.name = "r", .action = api::RuleAction::kFail, .causes = {"Signal"}}));
  CHECK_FALSE(with_rule({.name = "r", .action = api::RuleAction::kFail, .exit_codes = {139}}));
  CHECK_FALSE(with_rule({.name = "r", .action = api::RuleAction::kFail, .causes = {"Hang"}}));
  CHECK_FALSE(with_rule({.name = "r",
                         .action = api::RuleAction::kReplaceNode,
                         .exit_codes = {1},
                         .is_not_in = true}));
  CHECK(with_rule({.name = "r", .action = api::RuleAction::kFail, .exit_codes = {3}}));
  CHECK(with_rule({.name = "r", .action = api::RuleAction::kRestartFree, .causes = {"Signal"}}));
}

TEST_CASE("in_place: what the gang has outlived is told once, and restarts nothing",
          "[core][I5][A46]") {
  World world(2, api::RuntimeKind::kNative);
  world.settle();
  world.report(10);
  world.settle();
  outlive(world, 1);
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.job.status.restarts.counted == 0);
  REQUIRE(world.job.status.last_failure.has_value());
  CHECK(world.job.status.last_failure->rank == 1);
  CHECK(world.job.status.last_failure->generation == 1);
  const auto times = [&] {
    return std::ranges::count(world.events, std::string{"RecoveredInPlace"});
  };
  CHECK(times() == 1);
  const int writes = world.status_writes;
  world.settle(seconds{600});
  CHECK(world.status_writes == writes);
  outlive(world, 0);
  world.settle(seconds{60});
  CHECK(times() == 2);
  CHECK(world.job.status.last_failure->rank == 0);
  CHECK(world.broken.empty());
}

TEST_CASE("in_place: a worker that is lost after its process was told of is told of once",
          "[core][I8][O8]") {
  World world(2, api::RuntimeKind::kNative);
  world.settle();
  world.report(10);
  outlive(world, 1);
  world.settle(seconds{60});
  api::Failure silence = killed(world, 1, world.group->status.generation);
  silence.exit_code = silence.signal = std::nullopt;
  silence.cause = core::cause::kUnknown;
  silence.message = "nothing heard";
  world.group->status.failures.push_back(silence);
  const int writes = world.status_writes;
  world.settle();
  CHECK(world.job.status.reason == "MemberLost");
  CHECK(world.job.status.last_failure->message == "nothing heard");
  CHECK(world.status_writes == writes + 1);
  world.commit_next(14);  // it is back
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.job.status.phase == "Running");
  CHECK(std::ranges::count(world.events, std::string{"RecoveredInPlace"}) == 2);
  CHECK(world.job.status.last_failure->message == "nothing heard");
  CHECK(world.broken.empty());
}

TEST_CASE("in_place: a process that hung is outlived as one that was killed", "[core][I5]") {
  World world = World::training(3);
  api::Failure hung = killed(world, 1, world.group->status.generation);
  hung.cause = core::cause::kHang;
  world.group->status.failures.push_back(hung);  // its gang has not formed anew yet
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 1);
  CHECK(world.job.status.restarts.counted == 0);
  world.commit_next(14);
  world.settle(seconds{60});
  CHECK(world.job.status.last_failure->cause == "Hang");
  CHECK(std::ranges::count(world.events, std::string{"RecoveredInPlace"}) == 1);
  CHECK(world.job.status.attempt == 1);
}

TEST_CASE("in_place: an outlived failure is not the culprit of a later end", "[core][I8]") {
  World world(3, api::RuntimeKind::kNative);
  world.settle();
  world.report(10);
  outlive(world, 1);
  world.settle(seconds{60});
  world.fail(0, 75, "Victim");
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(world.job.status.reason == "MemberLost");
  world.fail(2, 1, "Error");
  world.settle(seconds{60});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.last_failure->rank == 2);
  CHECK(world.job.status.restarts.counted == 1);
}

TEST_CASE("in_place: the other pods of a program that holds nothing for its gang stay, too",
          "[core][I33][I37][A14]") {
  World world(3);
  world.set_spec([](auto& spec) { spec.strategy = api::Strategy::kInPlace; });
  world.settle();
  world.report(10);
  world.settle();
  REQUIRE(world.condition("Running") == "True");
  const std::string stays = world.pod(0).meta.uid;
  world.remove_pod(2);
  world.settle();
  CHECK(world.job.status.attempt == 1);
  CHECK(world.pod(0).meta.uid == stays);
  CHECK(world.pod(2).meta.name == "gpt-1-2-1");
  CHECK(world.job.status.message.find("all programs are started again with it") !=
        std::string::npos);
  world.commit_next(0);
  world.settle(seconds{60});
  CHECK(world.condition("Running") == "True");
  CHECK(world.job.status.restarts.counted + world.job.status.restarts.free == 0);
  CHECK(std::ranges::count(world.events, "RecoveredInPlace") == 1);
  CHECK(world.broken.empty());
}

TEST_CASE("in_place: a program that fails by itself is counted, and its whole gang begins again",
          "[core][I5][I37]") {
  World world(3);
  world.set_spec([](auto& spec) { spec.strategy = api::Strategy::kInPlace; });
  world.settle();
  world.fail(1, 1, "Error");
  world.settle(seconds{10});
  CHECK(world.job.status.attempt == 2);
  CHECK(world.job.status.restarts.counted == 1);
}
