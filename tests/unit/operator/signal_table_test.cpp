#include "operator/controller/signal_table.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>

#include "common/base/json.h"
#include "common/base/log.h"
#include "operator/controller/cache.h"
#include "operator/controller/watches.h"

using namespace pawl;
using namespace pawl::controller;
using nlohmann::json;
using std::chrono::seconds;

namespace {

const TimePoint kToday{seconds{1'800'000'000}};

std::string shipped_text() {
  std::ifstream file(PAWL_SOURCE_DIR "/charts/pawl/signals.json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

SignalTable table_of(const std::string& rows) {
  auto table = SignalTable::parse(rows);
  REQUIRE(table.has_value());
  return *table;
}

json node_with(const char* part, const char* list, const json& entry) {
  json node = {{"metadata", {{"name", "n"}}}};
  node[part][list] =
      json::array({{{"key", "other"}, {"type", "Ready"}, {"status", "True"}}, entry});
  return node;
}

}  // namespace

TEST_CASE("signals: each row of the chart is found on a node, and on no other", "[signals]") {
  const SignalTable table = table_of(shipped_text());
  const json rows = parse_json(shipped_text());
  REQUIRE(rows.size() >= 14);
  for (const json& row : rows) {
    INFO(row.dump());
    const bool is_taint = row.contains("taint");
    const std::string name = row[is_taint ? "taint" : "condition"];
    const json node = is_taint
                          ? node_with("spec", "taints", {{"key", name}, {"effect", "NoSchedule"}})
                          : node_with("status", "conditions",
                                      {{"type", name},
                                       {"status", "True"},
                                       {"lastTransitionTime", format_time(kToday - seconds{10})}});
    const auto signal = table.read(node, kToday);
    REQUIRE(signal.has_value());
    CHECK(signal->what.find(name) != std::string::npos);
    CHECK(signal->what.find(row["about"].get<std::string>()) != std::string::npos);
    CHECK(signal->deadline.has_value() == row.contains("noticeSeconds"));
    if (signal->deadline) {
      const seconds notice{row["noticeSeconds"].get<int>()};
      CHECK(*signal->deadline == kToday + notice - seconds{is_taint ? 0 : 10});
    }
  }
  const json calm = {
      {"metadata", {{"name", "n"}}},
      {"spec", {{"taints", {{{"key", "nvidia.com/gpu"}, {"effect", "NoSchedule"}}}}}},
      {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
  CHECK_FALSE(table.read(calm, kToday).has_value());
  CHECK_FALSE(table
                  .read(node_with("status", "conditions",
                                  {{"type", "PreemptionScheduled"}, {"status", "False"}}),
                        kToday)
                  .has_value());
  for (const json& broken : {json(), json("x"), json{{"spec", 3}}, json{{"spec", {{"taints", 3}}}},
                             json{{"spec", {{"taints", {1, nullptr}}}}}})
    CHECK_FALSE(table.read(broken, kToday).has_value());
}

TEST_CASE("signals: the deadline is what the machine's cloud says, then the notice", "[signals]") {
  const SignalTable table = table_of(R"([
    {"condition": "Preempt", "deadlineInMessage": true, "noticeSeconds": 30},
    {"taint": "going", "value": "soon", "effect": "NoExecute", "noticeSeconds": 60},
    {"annotation": "example.com/going", "value": "true", "deadlineAnnotation": "example.com/at"}])");
  const json said = {
      {"type", "Preempt"},
      {"status", "True"},
      {"message", "Preempt Scheduled: Fri, 15 Jan 2027 08:00:40 GMT. For more, see x"}};
  CHECK(table.read(node_with("status", "conditions", said), kToday)->deadline ==
        kToday + seconds{40});
  json vague = said;
  vague["message"] = "Preempt Scheduled: soon, on Fri, perhaps";
  CHECK(table.read(node_with("status", "conditions", vague), kToday)->deadline ==
        kToday + seconds{30});

  json taint = {{"key", "going"},
                {"value", "soon"},
                {"effect", "NoExecute"},
                {"timeAdded", format_time(kToday - seconds{20})}};
  json node = node_with("spec", "taints", taint);
  CHECK(table.read(node, kToday)->deadline == kToday + seconds{40});
  node["status"]["conditions"] = json::array({said});
  CHECK(table.read(node, kToday)->what == "condition Preempt");  // the earlier of the two
  taint["value"] = "later";
  CHECK_FALSE(table.read(node_with("spec", "taints", taint), kToday).has_value());

  json annotated = {
      {"metadata", {{"name", "n"}, {"annotations", {{"example.com/going", "true"}}}}}};
  CHECK_FALSE(table.read(annotated, kToday)->deadline.has_value());
  annotated["metadata"]["annotations"]["example.com/at"] = "2027-01-15T08:01:00Z";
  CHECK(table.read(annotated, kToday)->deadline == kToday + seconds{60});
}

TEST_CASE("signals: a row that is wrong is named, with what it should be", "[signals]") {
  const auto error = [](const std::string& text) {
    const auto table = SignalTable::parse(text);
    return table ? std::string() : table.error().message;
  };
  CHECK(error("{}") == "the table of signals must be a JSON array of rows");
  CHECK(error("[").find("JSON array") != std::string::npos);
  CHECK(error(R"([{"taint": "a"}, {"about": "x"}])")
            .find("row 2 of the signals needs one of taint, condition and annotation") == 0);
  CHECK(error(R"([{"taint": "a", "condition": "b"}])").find("needs one of") != std::string::npos);
  CHECK(error(R"([{"taint": "a", "notice": 3}])").find("unknown field notice") !=
        std::string::npos);
  CHECK(error(R"([{"taint": "a", "noticeSeconds": -1}])").find("noticeSeconds must be") !=
        std::string::npos);
  CHECK(error(R"([{"taint": "a", "reason": "x"}])").find("of conditions only") !=
        std::string::npos);
  CHECK(error(R"([{"condition": "a", "effect": "NoExecute"}])").find("of taints only") !=
        std::string::npos);
  CHECK(error(R"([7])").find("is no object") != std::string::npos);
  CHECK(error("[]").empty());
}

TEST_CASE("signals: only nodes that begin or end to say something are posted", "[signals]") {
  FakeClock clock;
  std::string lines;
  Log log(clock, [&](std::string_view line) { lines += line; });
  const auto inbox = std::make_shared<Inbox>();
  const auto table = std::make_shared<const SignalTable>(table_of(R"([{"taint": "going"}])"));
  const kube::InformerEvents events = node_informer_events(table, clock, log, inbox);
  const json calm = {{"metadata", {{"name", "n"}}}};
  const json going = node_with("spec", "taints", {{"key", "going"}});
  events.on_upsert(calm);
  events.on_synced("5");
  Mail mail = inbox->take();
  CHECK(mail.signals.empty());
  CHECK(mail.are_nodes_listed);
  events.on_upsert(going);
  mail = inbox->take();
  REQUIRE(mail.signals.size() == 1);
  CHECK(mail.signals.at("n")->what == "taint going");
  events.on_upsert(going);
  CHECK(inbox->take().signals.empty());
  SECTION("withdrawn") { events.on_upsert(calm); }
  SECTION("gone") { events.on_delete(calm); }
  mail = inbox->take();
  REQUIRE(mail.signals.size() == 1);
  CHECK_FALSE(mail.signals.at("n").has_value());
  events.on_delete(calm);
  CHECK(inbox->take().signals.empty());
}

TEST_CASE("signals: a deadline that becomes known later is posted, one that is counted goes on",
          "[signals]") {
  FakeClock clock;
  Log log(clock, [](std::string_view) {});
  const auto inbox = std::make_shared<Inbox>();
  const auto table = std::make_shared<const SignalTable>(
      table_of(R"([{"taint": "going", "noticeSeconds": 60, "deadlineAnnotation": "at"}])"));
  const kube::InformerEvents events = node_informer_events(table, clock, log, inbox);
  json going = node_with("spec", "taints", {{"key", "going"}});
  const TimePoint begin = clock.now();
  events.on_upsert(going);
  CHECK(inbox->take().signals.at("n")->deadline == begin + seconds{60});
  clock.advance(seconds{10});
  events.on_upsert(going);
  CHECK(inbox->take().signals.empty());
  going["metadata"]["annotations"]["at"] = format_time(begin + seconds{30});
  events.on_upsert(going);
  const Mail mail = inbox->take();
  REQUIRE(mail.signals.size() == 1);
  CHECK(mail.signals.at("n")->deadline == begin + seconds{30});
  CHECK(mail.signals.at("n")->is_exact);
  CHECK(mail.signals.at("n")->seen_at == begin);
}

TEST_CASE("signals: the jobs with pods on the node are looked at again", "[signals][controller]") {
  Cache cache;
  const auto pod_on = [&](const char* name, const char* node) {
    api::PodView pod;
    pod.meta.ns = "team";
    pod.meta.name = name;
    pod.node = node;
    cache.apply({Kind::kPod, "team", name, "", std::make_shared<const api::PodView>(pod)});
  };
  pod_on("a-1-0-0", "n1");
  pod_on("a-1-1-0", "n2");
  pod_on("b-1-0-0", "n2");
  CHECK(cache.signals() == nullptr);
  CHECK(cache.apply_signal("n1", core::NodeSignal{.what = "x"}) ==
        std::vector<JobKey>{{"team", "a"}});
  // Pages come one by one; nobody acts on them before the last.
  CHECK(cache.note_nodes_listed() == std::vector<JobKey>{{"team", "a"}});
  CHECK(cache.note_nodes_listed().empty());
  CHECK(cache.apply_signal("n2", core::NodeSignal{.what = "x"}).size() == 2);
  CHECK(cache.signals()->size() == 2);
  CHECK(cache.apply_signal("n1", std::nullopt).size() == 1);
  CHECK(cache.signals()->size() == 1);
}
