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
  void join(const std::string& id, int units, std::int64_t priority = 0, int age = 0) {
    line.join({.id = id,
               .priority = priority,
               .since = TimePoint{seconds{1'000 - age}},
               .shape = {{{"gpu", gpus_each}}, {}},
               .ask = {.units = units, .required_depth = required_depth}});
  }
  // "a+ b 1": a has room, b has none, with one before it.
  std::string round(bool is_freed = false) {
    std::string text;
    const auto verdicts =
        line.round(ledger, is_freed, [this](const Gang& gang, const auto& placed) {
          int member = 0;
          for (const auto& share : placed.shares) {
            for (int i = 0; i < share.units; ++i) {
              ledger.promise(gang.id + std::to_string(member++),
                             {ledger.topology().host(share.host), gang.shape.requests});
            }
          }
        });
    for (const auto& verdict : verdicts) {
      text += (text.empty() ? "" : " ") + verdict.id +
              (verdict.placement ? "+" : " " + std::to_string(verdict.ahead));
    }
    return text;
  }
  void end(const std::string& id, int members) {
    for (int member = 0; member < members; ++member) ledger.withdraw(id + std::to_string(member));
  }

  placement::Ledger ledger{{"rack"}};
  Line line;
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
            .shape = {{{"gpu", 2}}, {}},
            .ask = {.units = 1, .required_depth = 1},
            .beside = {"node-c", "node-of-before"}};
  yard.line.join(gang);
  CHECK(yard.round() == "under+ first+");
  CHECK(yard.ledger.room(gang.shape).units == std::vector<int>{4, 2, 0});  // where something runs
  gang.ask.units = 2;
  yard.line.join(gang);
  CHECK(yard.round() == "under 0");
  gang.beside = {"node-b", "node-c"};  // they are in no one rack any more
  yard.line.join(gang);
  CHECK(yard.round() == "under+");
}

// Against one look at each after the other, with nothing remembered.
TEST_CASE("line: what is remembered changes no answer", "[admission]") {
  Random random{11};
  for (int round = 0; round < 200; ++round) {
    Yard yard, plain;
    for (int host = 0; host < 6; ++host) {
      const int gpus = static_cast<int>(random.below(9));
      const std::string rack = "rack-" + std::to_string(random.below(3));
      for (Yard* each : {&yard, &plain}) each->set_host("node-" + std::to_string(host), gpus, rack);
    }
    std::string expected;
    for (int i = 0; i < 12; ++i) {
      const int units = 1 + static_cast<int>(random.below(7));
      yard.gpus_each = plain.gpus_each = 1 + static_cast<int>(random.below(3));
      yard.required_depth = plain.required_depth = static_cast<int>(random.below(3));
      const std::string id = {static_cast<char>('a' + i)};
      yard.join(id, units, -i);
      plain.join(id, units, -i);
      const std::string answer = plain.round();
      if (answer.ends_with('+')) expected += id;
    }
    std::string got;
    std::string text = yard.round();
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == '+') got += text[i - 1];
    }
    CHECK(got == expected);
  }
}
