// failurePolicy: rules, budget, and what an out-of-memory kill leads to.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/world.h"

using namespace pawl;
using namespace pawl::test;
using std::chrono::seconds;

namespace {

api::FailureRule rule(const std::string& name, api::RuleAction action, std::vector<int> codes,
                      std::vector<std::string> causes = {}) {
  api::FailureRule out;
  out.name = name;
  out.action = action;
  out.exit_codes = std::move(codes);
  out.causes = std::move(causes);
  return out;
}

World running(const std::vector<api::FailureRule>& rules, int max_restarts = 6) {
  World world(2);
  world.set_spec([&](auto& spec) {
    spec.failure_rules = rules;
    spec.max_restarts = max_restarts;
  });
  world.settle();
  return world;
}

constexpr auto kFail = api::RuleAction::kFail;
constexpr auto kRestart = api::RuleAction::kRestart;
constexpr auto kFree = api::RuleAction::kRestartFree;
constexpr auto kReplace = api::RuleAction::kReplaceNode;

}  // namespace

TEST_CASE("failure_policy: the first rule that matches wins, in every order",
          "[core][I23][A7][A11][A13][C4][H2][F1]") {
  const auto seven = rule("seven", kFail, {7});
  const auto any = rule("any-error", kFree, {}, {"Error"});
  const auto small = rule("small", kRestart, {1, 7, 9});
  struct Case {
    std::vector<api::FailureRule> rules;
    std::string end;
  };
  const std::vector<Case> cases{
      {{seven, any, small}, "Failed attempt 1 counted 0 free 0 ready 0/2 live 0"},
      {{any, seven, small}, "Running attempt 2 counted 0 free 1 ready 2/2 live 2 Error=1"},
      {{small, any, seven}, "Running attempt 2 counted 1 free 0 ready 2/2 live 2 Error=1"},
      {{}, "Running attempt 2 counted 1 free 0 ready 2/2 live 2 Error=1"},
  };
  for (const Case& each : cases) {
    INFO(each.end << " with " << each.rules.size() << " rules");
    World world = running(each.rules);
    world.fail(1, 7, "Error");
    world.settle(seconds{60});
    CHECK(world.text() == each.end);
    CHECK(world.broken.empty());
  }
}

TEST_CASE(
    "failure_policy: exit codes match in and not in, signals as 128 + n, both matchers together",
    "[core][I23][A8][A9]") {
  struct Case {
    api::FailureRule rule;
    int code;
    bool is_match;
  };
  auto none_of = rule("r", kFail, {1, 2});
  none_of.is_not_in = true;
  const std::vector<Case> cases{
      {rule("r", kFail, {3, 4}), 4, true},
      {rule("r", kFail, {3, 4}), 5, false},
      {none_of, 3, true},
      {none_of, 2, false},
      {rule("r", kFail, {3}, {"Error"}), 3, true},
      {rule("r", kFail, {3}, {"OOM"}), 3, false},
      {rule("r", kFail, {139}), 139, true},
      {rule("r", kFail, {}, {"Signal"}), 139, true},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO("case " << i);
    World world = running({cases[i].rule});
    world.fail(0, cases[i].code);
    world.settle(seconds{60});
    CHECK((world.job.status.phase == "Failed") == cases[i].is_match);
    if (!cases[i].is_match) continue;
    CHECK(world.job.status.reason == "FailureRule");
    CHECK(world.job.status.message.ends_with("; rule r says Fail"));
  }
}

TEST_CASE("failure_policy: the exit code of a disruption is not the program's",
          "[core][I23][B26][H2]") {
  World world = running({rule("code", kFail, {137, 143}), rule("lost", kRestart, {}, {"Evicted"})});
  api::PodView& pod = world.pod(1);
  pod.phase = api::PodPhase::kFailed;
  pod.reason = "Evicted";
  pod.exit_code = 137;
  world.settle(seconds{60});
  // The rule for the cause does match: this user wants evictions to count.
  CHECK(world.text() == "Running attempt 2 counted 1 free 0 ready 2/2 live 2 Evicted=1");
  // Deleted by hand; its process ended by the kubelet's SIGTERM.
  world.delete_pod(0);
  world.pod(0).exit_code = 143;
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 3 counted 1 free 1 ready 2/2 live 2 Deleted=1 Evicted=1");
}

TEST_CASE("failure_policy: a rule may also excuse what is fatal by default", "[core][I23]") {
  World world = running({rule("again", kFree, {93})});
  world.fail(0, 93);
  world.settle(seconds{60});
  CHECK(world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 2 Fatal=1");
}

TEST_CASE("failure_policy: ReplaceNode avoids the node, free once a node, and is bounded",
          "[core][I24][G2]") {
  World world = running({rule("node", kReplace, {41})}, 0);
  world.fail(0, 41, "Error");
  world.settle(seconds{60});
  REQUIRE(world.text() == "Running attempt 2 counted 0 free 1 ready 2/2 live 2 Error=1");
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  CHECK(world.job.status.excluded_nodes[0].name == "node-a");
  CHECK(world.job.status.excluded_nodes[0].cause == "Error");
  // The kubelet of this world runs everything on node-a: the second time it counts, and ends.
  world.fail(0, 41, "Error");
  world.settle(seconds{60});
  CHECK(world.job.status.reason == "MaxRestartsReached");
  CHECK(world.job.status.excluded_nodes.size() == 1);

  World full = running({rule("node", kReplace, {41})}, 0);
  for (int i = 0; i < 32; ++i) {
    full.job.status.excluded_nodes.push_back({"n" + std::to_string(i), "Error", full.now});
  }
  full.fail(0, 41, "Error");
  full.settle(seconds{60});
  CHECK(full.job.status.reason == "MaxRestartsReached");
}

TEST_CASE("failure_policy: whoever resumes a job starts without excluded nodes", "[core][I24]") {
  World world = running({rule("node", kReplace, {41})});
  world.fail(0, 41, "Error");
  world.settle(seconds{60});
  REQUIRE(world.job.status.excluded_nodes.size() == 1);
  world.set_spec([](auto& spec) { spec.is_suspended = true; });
  world.settle(seconds{60});
  world.set_spec([](auto& spec) { spec.is_suspended = false; });
  world.settle(seconds{60});
  CHECK(world.job.status.excluded_nodes.empty());
}

TEST_CASE("failure_policy: the budget is whole again after a long run with progress, not without",
          "[core][I25][B39]") {
  struct Case {
    int run_seconds;
    bool has_progress;
    std::string phase;
  };
  for (const Case& each :
       std::vector<Case>{{100, true, "Running"}, {99, true, "Failed"}, {100, false, "Failed"}}) {
    INFO(each.run_seconds << " s, progress " << each.has_progress);
    World world = running({}, 1);
    world.set_spec([](auto& spec) { spec.reset_after_seconds = 100; });
    world.report(10);
    world.fail(0, 1, "Error");
    world.settle(seconds{20});
    REQUIRE(world.job.status.restarts.spent == 1);
    const auto& conditions = world.job.status.conditions;
    const auto since = std::ranges::find(conditions, "Running", &api::Condition::type)
                           ->last_transition_time.value();
    world.now = since + seconds{each.run_seconds};
    if (each.has_progress) world.report(20);
    world.fail(0, 1, "Error");
    world.settle(seconds{60});
    CHECK(world.job.status.phase == each.phase);
    CHECK(world.job.status.restarts.counted == (each.phase == "Running" ? 2 : 1));
    CHECK(world.job.status.restarts.spent == 1);
  }
}

TEST_CASE("failure_policy: a cause that nobody knows is Unknown, so that byCause stays bounded",
          "[core][B41]") {
  World world(1);
  world.set_spec([](auto& spec) { spec.max_restarts = 100; });
  for (int i = 0; i < 20; ++i) {
    world.settle(seconds{120});
    world.fail(0, 1, "Invented" + std::to_string(i));
  }
  world.settle(seconds{120});
  CHECK(world.job.status.restarts.by_cause == std::map<std::string, int>{{"Unknown", 20}});
}

TEST_CASE("memory: after an out-of-memory kill a Native job goes on with half the micro-batch",
          "[core][I26]") {
  World world(2, api::RuntimeKind::kNative);
  world.set_spec([](auto& spec) {
    spec.runtime_config_json = R"({"batch":{"global":24,"micro":6}})";
    spec.max_restarts = 0;
  });
  const std::vector<int> expected{3, 1};
  for (const int micro : expected) {
    world.settle(seconds{120});
    REQUIRE(world.job.status.phase == "Running");
    world.fail(0, 137);
    world.pod(0).terminated_reason = "OOMKilled";
    world.settle(seconds{60});
    INFO(world.job.status.message);
    CHECK(world.job.status.micro_batch == micro);
  }
  CHECK(world.job.status.restarts.free == 2);
  CHECK(world.job.status.restarts.without_progress == 0);
  // Nothing is left to lower: the budget decides, and the message says which number to change.
  world.fail(0, 137);
  world.pod(0).terminated_reason = "OOMKilled";
  world.settle(seconds{60});
  CHECK(world.job.status.phase == "Failed");
  CHECK(world.job.status.message.find("the micro-batch is 1 already: raise "
                                      "resources.limits.memory of the worker container") !=
        std::string::npos);
}

TEST_CASE("memory: for any other program the message says which number to change", "[core][I26]") {
  World world(1);
  world.set_spec([](auto& spec) {
    spec.template_json = R"({"spec":{"containers":[{"name":"worker","image":"i","command":["/t"],
      "resources":{"limits":{"memory":"2Gi"}}}]}})";
  });
  world.settle();
  world.fail(0, 137);
  world.pod(0).terminated_reason = "OOMKilled";
  world.settle();
  CHECK(world.job.status.message.find("raise resources.limits.memory of the worker container (now "
                                      "2Gi)") != std::string::npos);
  CHECK(world.job.status.restarts.counted == 1);
  CHECK_FALSE(world.job.status.micro_batch);
}
