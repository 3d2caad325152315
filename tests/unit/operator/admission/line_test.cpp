// Who waits for room, and who gets it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "common/base/random.h"
#include "operator/admission/line.h"

using namespace pawl;
using admission::Gang;
using admission::Line;
using std::chrono::seconds;

namespace {

struct Yard {
  Yard() { set_host("node-a", 8); }

  void set_host(const std::string& name, int gpus, const std::string& rack = "rack-1") {
    ledger.set_host({.name = name,
                     .labels = {{"rack", rack}},
                     .allocatable = {{"gpu", gpus}},
                     .is_ready = true});
  }
  void join(const std::string& id, int units, std::int64_t priority = 0, int age = 0,
            std::optional<seconds> run_max = std::nullopt) {
    line.join({.id = id,
               .priority = priority,
               .since = TimePoint{seconds{1'000 - age}},
               .waits_since = now,
               .run_max = run_max,
               .shape = {{{"gpu", gpus_each}}, {}},
               .ask = {.units = units, .required_depth = required_depth}});
  }
  void book(const Gang& gang, const placement::Placement& placed) {
    int member = 0;
    for (const auto& share : placed.shares) {
      for (int i = 0; i < share.units; ++i) {
        ledger.promise(gang.id + std::to_string(member++),
                       {.host = ledger.topology().host(share.host),
                        .requests = gang.shape.requests,
                        .owner = gang.id});
      }
    }
    if (gang.run_max) ledger.expect_end(gang.id, now + *gang.run_max);
  }
  // "a+ b 1": a has room, b has none, with one before it. "b 1 kept 3": three hosts are kept for
  // it.
  std::string round(bool is_freed = false) {
    std::string text;
    const auto verdicts =
        line.round({ledger, quotas}, is_freed, now,
                   [this](const auto& gang, const auto& placed) { book(gang, placed); });
    for (const auto& verdict : verdicts) {
      text += (text.empty() ? "" : " ") + verdict.id +
              (verdict.placement ? "+" : " " + std::to_string(verdict.ahead));
      if (verdict.kept) text += " kept " + std::to_string(verdict.kept->hosts.size());
      if (verdict.is_passed_over) text += " passed over";
    }
    return text;
  }
  void end(const std::string& id, int members) {
    for (int member = 0; member < members; ++member) ledger.withdraw(id + std::to_string(member));
  }

  TimePoint now{seconds{10'000}};
  placement::Ledger ledger{{"rack"}};
  admission::Quotas quotas;
  Line line{{.wait_max = seconds{30}, .part_of_hosts = 2}};
  int gpus_each = 2, required_depth = 0;
};

}  // namespace

TEST_CASE("line: the higher priority goes first, then the older, then the name", "[admission]") {
  Yard yard;
  yard.join("d", 1);
  yard.join("c", 1);
  yard.join("b", 1, 0, 10);
  yard.join("a", 1, -5, 20);
  yard.join("e", 1, 7);
  CHECK(yard.round() == "e+ b+ c+ d+ a 0");
  yard.end("b", 1);
  CHECK(yard.round(true) == "a+");
  CHECK(yard.line.size() == 0);
}

TEST_CASE("line: who fits does not wait for who does not", "[admission]") {
  Yard yard;
  yard.join("large", 5, 1);
  yard.join("small", 4);
  yard.join("late", 1);
  CHECK(yard.round() == "large 0 late+ small 1");
}

TEST_CASE("line: nobody is told twice, and nothing changes while nothing is freed", "[admission]") {
  Yard yard;
  yard.join("a", 5);
  CHECK(yard.round() == "a 0");
  CHECK(yard.round().empty());
  CHECK(yard.round(true).empty());
  yard.join("a", 5);
  CHECK(yard.round() == "a 0");
  yard.set_host("node-b", 2);
  CHECK(yard.round(true) == "a+");
}

TEST_CASE("line: a gang that asks anew asks for what it wants now", "[admission]") {
  Yard yard;
  yard.join("a", 5);
  CHECK(yard.round() == "a 0");
  yard.join("a", 4, 3);
  CHECK(yard.line.size() == 1);
  CHECK(yard.round() == "a+");
  yard.join("b", 1);
  yard.line.leave("b");
  CHECK(yard.round().empty());
}

TEST_CASE("line: of machines that all are avoided the one that was well for longest is used",
          "[admission][I40]") {
  for (const bool is_other_way : {false, true}) {
    Yard yard;
    yard.set_host("node-b", 8);
    const std::vector<std::string> order = is_other_way
                                               ? std::vector<std::string>{"node-b", "node-a"}
                                               : std::vector<std::string>{"node-a", "node-b"};
    yard.line.join(
        {.id = "again", .shape = {{{"gpu", 2}}, {}}, .ask = {.units = 4}, .avoided = order});
    std::string host;
    yard.line.round({yard.ledger, yard.quotas}, true, yard.now,
                    [&](const Gang&, const placement::Placement& placed) {
                      host = yard.ledger.topology().host(placed.shares.front().host);
                    });
    CHECK(host == order.front());
  }
}

TEST_CASE("line: a required level is kept", "[admission]") {
  Yard yard;
  yard.set_host("node-b", 4, "rack-2");
  yard.set_host("node-c", 4, "rack-2");
  yard.required_depth = 1;
  yard.join("a", 5);
  CHECK(yard.round() == "a 0");
  yard.required_depth = 2;
  yard.join("a", 4);
  CHECK(yard.round() == "a+");
  yard.join("b", 3);
  CHECK(yard.round() == "b 0");
  yard.required_depth = 1;
  yard.join("b", 3);
  CHECK(yard.round() == "b+");
}

TEST_CASE("line: a gang that lacks a member goes before all others, and near its own",
          "[admission]") {
  Yard yard;
  yard.set_host("node-b", 4, "rack-2");
  yard.set_host("node-c", 4, "rack-3");
  yard.join("first", 1, 100);
  Gang gang{.id = "under",
            .is_underway = true,
            .since = TimePoint{seconds{1'000}},
            .waits_since = yard.now,
            .shape = {{{"gpu", 2}}, {}},
            .ask = {.units = 1, .required_depth = 1},
            .beside = {"node-c", "node-of-before"}};
  yard.line.join(gang);
  CHECK(yard.round() == "under+ first+");
  CHECK(yard.ledger.room(gang.shape).units() == std::vector<int>{4, 2, 0});  // where something runs
  gang.ask.units = 2;
  yard.line.join(gang);
  CHECK(yard.round() == "under 0");
  gang.beside = {"node-b", "node-c"};  // they are in no one rack any more
  yard.line.join(gang);
  CHECK(yard.round() == "under+");
}

// One look at each after the other, with nothing remembered.
std::string plain_round(Yard& yard, std::vector<Gang> gangs) {
  std::ranges::sort(gangs, {}, [](const Gang& gang) { return -gang.priority; });
  std::string placed;
  std::vector<admission::Reservation> kept;
  std::size_t kept_hosts = 0;
  bool is_all_kept = false;
  for (const Gang& gang : gangs) {
    const placement::Topology& topology = yard.ledger.topology();
    placement::Room room = yard.ledger.room(gang.shape);
    std::vector<bool> is_kept(static_cast<std::size_t>(topology.hosts()));
    for (const auto& one : kept) {
      const bool may_use = gang.run_max && one.begin != placement::Outlook::kUnknown &&
                           yard.now + *gang.run_max <= one.begin;
      for (const int host : one.hosts) {
        is_kept[static_cast<std::size_t>(host)] = true;
        if (!may_use) room.close(topology, host);
      }
    }
    if (const auto found = placement::place(topology, room, gang.ask)) {
      yard.book(gang, *found);
      placed += gang.id;
      continue;
    }
    if (is_all_kept || yard.now - *gang.waits_since < seconds{30}) continue;
    auto more = admission::reserve(
        {topology, yard.ledger.room(gang.shape), yard.ledger.outlook(gang.shape)}, gang.ask,
        is_kept, yard.now);
    if (!more) continue;
    const bool is_too_much = 2 * (kept_hosts + more->hosts.size()) > is_kept.size();
    is_all_kept = is_too_much || kept.size() == 3;
    if (is_too_much && !kept.empty()) continue;
    kept_hosts += more->hosts.size();
    kept.push_back(std::move(*more));
  }
  return placed;
}

TEST_CASE("line: what is remembered changes no answer", "[admission]") {
  Random random{11};
  int reservations = 0;
  for (int round = 0; round < 1'000; ++round) {
    INFO("round " << round);
    Yard yard, plain;
    for (int host = 0; host < 8; ++host) {
      const int gpus = static_cast<int>(random.below(9));
      const std::string rack = "rack-" + std::to_string(random.below(3));
      const std::string name = "node-" + std::to_string(host);
      const std::string owner = "owner-" + std::to_string(random.below(4));
      for (Yard* each : {&yard, &plain}) {
        each->set_host(name, gpus + 2, rack);
        each->ledger.promise("pod-" + name,
                             {.host = name, .requests = {{"gpu", gpus}}, .owner = owner});
      }
    }
    for (int owner = 0; owner < 3; ++owner) {
      const TimePoint end = yard.now + seconds{random.below(100)};
      for (Yard* each : {&yard, &plain})
        each->ledger.expect_end("owner-" + std::to_string(owner), end);
    }
    std::vector<Gang> gangs;
    for (int i = 0; i < 14; ++i) {
      Gang gang{.id = {static_cast<char>('a' + i)},
                .priority = -i,
                .waits_since = yard.now - seconds{random.below(60)},
                .shape = {{{"gpu", 1 + static_cast<int>(random.below(3))}}, {}},
                .ask = {.units = 1 + static_cast<int>(random.below(7)),
                        .required_depth = static_cast<int>(random.below(3))}};
      if (random.one_in(2)) gang.run_max = seconds{random.below(100)};
      yard.line.join(gang);
      gangs.push_back(std::move(gang));
    }
    const std::string expected = plain_round(plain, gangs);
    const std::string text = yard.round();
    std::string got;
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == '+') got += text[i - 1];
    }
    reservations += text.find("kept") == std::string::npos ? 0 : 1;
    CHECK(got == expected);
  }
  CHECK(reservations > 300);
}
