#include "operator/controller/inbox.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "operator/controller/cache.h"
#include "operator/controller/watches.h"

using namespace pawl;
using namespace pawl::controller;

namespace {

Change pod_change(const std::string& name, const std::string& uid, bool is_terminating = false) {
  api::PodView pod;
  pod.meta.name = name;
  pod.meta.uid = uid;
  if (is_terminating) pod.meta.deletion_time = TimePoint{};
  return {Kind::kPod, "team", name, uid, std::make_shared<const api::PodView>(pod)};
}
Change pod_gone(const std::string& name, const std::string& uid) {
  return {Kind::kPod, "team", name, uid, std::monostate{}};
}

}  // namespace

TEST_CASE("inbox: of one object only the newest change is kept", "[controller]") {
  Inbox inbox;
  for (int i = 0; i < 1000; ++i) inbox.post(pod_change("a-1-0-0", std::to_string(i)));
  inbox.post_view(Kind::kPod, "7");
  const Mail mail = inbox.take();
  REQUIRE(mail.changes.size() == 1);
  CHECK(mail.changes[0].uid == "999");
  CHECK(mail.view[static_cast<std::size_t>(Kind::kPod)] == "7");
  CHECK(inbox.take().changes.empty());
}

TEST_CASE("inbox: a deletion that replaces unseen news clears the name", "[controller][B07][B13]") {
  Inbox inbox;
  Cache cache;
  cache.apply(pod_change("a-1-0-0", "first"));
  inbox.post(pod_gone("a-1-0-0", "first"));
  inbox.post(pod_change("a-1-0-0", "second"));
  inbox.post(pod_gone("a-1-0-0", "second"));
  for (const Change& change : inbox.take().changes) cache.apply(change);
  CHECK(cache.find({"team", "a"}) == nullptr);
}

TEST_CASE("inbox: a post from another thread ends the wait; stop ends it for good",
          "[controller]") {
  Inbox inbox;
  std::thread reader([&] { inbox.post_synced(Kind::kJob, "1"); });
  CHECK(inbox.wait(std::chrono::milliseconds{30'000}));
  reader.join();
  CHECK(inbox.take().is_synced[0]);
  inbox.stop();
  CHECK_FALSE(inbox.wait(std::chrono::milliseconds{30'000}));
}

TEST_CASE("inbox: a pod that goes from one watch to the other is booked in one all the time",
          "[controller]") {
  FakeClock clock;
  Log log(clock, [](std::string_view) {});
  const auto inbox = std::make_shared<Inbox>();
  const auto ours = informer_events(Kind::kPod, log, inbox, true);
  const auto others = booking_informer_events(Booked::kOthers, inbox);
  const nlohmann::json pod = {{"metadata", {{"namespace", "team"}, {"name", "a"}, {"uid", "1"}}},
                              {"spec", {{"nodeName", "n"}}}};
  ours.on_upsert(pod);
  Mail mail = inbox->take();
  CHECK(mail.changes.size() == 1);
  REQUIRE(mail.bookings.contains("team/a"));  // as it is promised
  CHECK(mail.bookings.at("team/a")->host == "n");
  SECTION("the other one is first") {
    others.on_upsert(pod);
    ours.on_delete(pod);
  }
  SECTION("the other one is last") {
    ours.on_delete(pod);
    others.on_upsert(pod);
  }
  mail = inbox->take();
  REQUIRE(mail.bookings.size() == 2);
  CHECK_FALSE(mail.bookings.at("team/a"));
  mail.bookings.erase("team/a");
  CHECK(mail.bookings.begin()->second->host == "n");
  others.on_delete(pod);
  CHECK_FALSE(inbox->take().bookings.begin()->second);
}

TEST_CASE("cache: a late deletion of a predecessor leaves the successor", "[controller][B01]") {
  Cache cache;
  cache.apply(pod_change("a-1-0-0", "new"));
  cache.apply(pod_gone("a-1-0-0", "old"));
  REQUIRE(cache.find({"team", "a"}) != nullptr);
  cache.apply(pod_gone("a-1-0-0", "new"));
  CHECK(cache.find({"team", "a"}) == nullptr);
  CHECK_FALSE(cache.apply(pod_change("coredns", "x")));
}

TEST_CASE("gate: opens when the view has come past the write, even if the object is gone again",
          "[controller][B05]") {
  Cache cache;
  WriteGate gate;
  const JobKey key{"team", "a"};
  CHECK(gate.is_open(key, cache, {}));
  gate.wrote(key, Kind::kPod, "99");
  gate.wrote(key, Kind::kPod, "100");
  gate.wrote(key, Kind::kPod, "98");
  CHECK_FALSE(gate.is_open(key, cache, {"500", "500", "99"}));
  CHECK(gate.is_open(key, cache, {"0", "0", "100"}));
  CHECK(gate.is_open(key, cache, {"", "", ""}));  // and is forgotten
}

TEST_CASE("gate: a deleted pod must terminate or be gone", "[controller][B05]") {
  Cache cache;
  WriteGate gate;
  const JobKey key{"team", "a"};
  cache.apply(pod_change("a-1-0-0", "u"));
  gate.deleted(key, "u");
  CHECK_FALSE(gate.is_open(key, cache, {}));
  cache.apply(pod_change("a-1-0-0", "u", true));
  CHECK(gate.is_open(key, cache, {}));
}

TEST_CASE("inbox: a deletion that swallowed another leaves nothing behind", "[controller][B13]") {
  Inbox inbox;
  Cache cache;
  cache.apply(pod_change("a-1-0-0", "old"));
  // One burst: the owner sees only the last of them.
  inbox.post(pod_gone("a-1-0-0", "old"));
  inbox.post(pod_change("a-1-0-0", "new"));
  inbox.post(pod_gone("a-1-0-0", "new"));
  for (const Change& change : inbox.take().changes) cache.apply(change);
  CHECK(cache.size() == 0);
}
