#include "launcher/membership/generations.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace pawl;
using namespace pawl::membership;

namespace {

// Of a member of the newest generation; what it holds lies on the line unless said otherwise.
ParkedReport member(Holding held, bool has_never_held = false) {
  return {.is_member = true,
          .is_base_member = true,
          .has_never_held = has_never_held,
          .is_on_line = held.generation > 0,
          .held = held};
}

// Generation 4 goes on from generation 3 at step 50.
constexpr GenerationStart kNewest{4, 3, 50};

}  // namespace

TEST_CASE("generations: from whose state the next one starts", "[launcher]") {
  struct Row {
    const char* what;
    GenerationStart newest;
    std::vector<ParkedReport> reports;
    bool is_all_accounted;
    NextStart next;
  };
  const ParkedReport off_line{.is_member = false, .held = {2, 90}};
  const Row rows[] = {
      {"the highest step of the newest",
       kNewest,
       {member({4, 57}), member({4, 58})},
       false,
       {Source::kMemory, 4, 58}},
      {"not that of another generation, however high",
       kNewest,
       {member({4, 51}), member({3, 60})},
       true,
       {Source::kMemory, 4, 51}},
      {"nobody stepped in it for certain: what it started from",
       kNewest,
       {member({3, 50}, true), member({0, 0})},
       false,
       {Source::kMemory, 3, 50}},
      {"nobody stepped in it for certain, and it came from storage",
       {4, 0, 50},
       {member({0, 0}, true)},
       false,
       {Source::kStorage, 0, 50}},
      {"it is not certain, and somebody is not heard",
       kNewest,
       {member({3, 50})},
       false,
       {Source::kWait, 0, 0}},
      {"all are accounted for, and it is void: the line below it",
       kNewest,
       {member({3, 50})},
       true,
       {Source::kStorage, 3, 50}},
      {"one step more than the void one began with is history too",
       kNewest,
       {member({3, 50}), member({3, 51})},
       true,
       {Source::kStorage, 3, 51}},
      {"what is off the line counts for nothing",
       kNewest,
       {off_line},
       true,
       {Source::kStorage, 0, 0}},
      {"nobody holds anything", kNewest, {member({0, 0})}, true, {Source::kStorage, 0, 0}},
      {"nobody is heard", kNewest, {}, false, {Source::kWait, 0, 0}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    const NextStart next = next_start(row.newest, row.reports, row.is_all_accounted);
    CHECK(next.source == row.next.source);
    CHECK(next.base == row.next.base);
    CHECK(next.step == row.next.step);
  }
}

TEST_CASE("generations: who may hold the state of the next one's start", "[launcher]") {
  CHECK(base_members_after(kNewest, {Source::kStorage, 0, 40}) == BaseMembers::kNobody);
  CHECK(base_members_after(kNewest, {Source::kMemory, 4, 58}) == BaseMembers::kMembers);
  CHECK(base_members_after(kNewest, {Source::kMemory, 3, 50}) == BaseMembers::kUnchanged);
  CHECK(base_members_after(kNewest, {Source::kStorage, 3, 50}) == BaseMembers::kHolders);
  CHECK(base_members_after(kNewest, {Source::kStorage, 2, 45}) == BaseMembers::kHolders);
}

TEST_CASE("generations: a member enters a generation once, and none that it has promised to leave",
          "[launcher]") {
  Standing standing;
  CHECK(standing.may_enter(1));
  standing.enter(1);
  CHECK(standing.is_bound());
  CHECK_FALSE(standing.may_enter(1));
  standing.promise(2);
  CHECK_FALSE(standing.is_bound());
  CHECK_FALSE(standing.may_enter(2));
  standing.promise(1);
  CHECK(standing.promised() == 2);
  CHECK(standing.may_enter(3));
  standing.enter(3);
  CHECK(standing.is_bound());
}

TEST_CASE("generations: what is held, and what never was", "[launcher]") {
  CHECK(has_surely_never_held(4, {3, 50}, false));
  CHECK(has_surely_never_held(4, {0, 0}, false));
  CHECK_FALSE(has_surely_never_held(4, {0, 0}, true));
  CHECK_FALSE(has_surely_never_held(4, {4, 50}, false));

  const std::vector<api::LineageEntry> line{{1, 1, 0}, {1, 3, 50}};
  CHECK(is_on_line({1, 50}, line));
  CHECK_FALSE(is_on_line({1, 51}, line));
  CHECK(is_on_line({3, 90}, line));
}
