#include <catch2/catch_test_macros.hpp>

#include "operator/controller/role.h"

using namespace pawl;
using controller::Role;
using controller::Views;
using Step = Role::Step;
using std::chrono::seconds;

namespace {

const SteadyPoint kNow{seconds{1'000}};

}  // namespace

TEST_CASE("role: what a leader leaves is read back, and nothing else is", "[controller]") {
  const Views views{"12", "", "340"};
  CHECK(controller::encode_views(views) == "12/-/340");
  CHECK(controller::decode_views("12/-/340") == views);
  for (const char* text : {"", "12", "12/-", "12/-/340/1", "12//340", "12/x/340"}) {
    INFO(text);
    CHECK(!controller::decode_views(text));
  }
}

TEST_CASE("role: a lease that was given back is led from the views as they are", "[controller]") {
  Role role;
  CHECK(role.next(0, false, "", true, kNow) == Step::kStay);
  CHECK(role.next(1, true, "5/6/7", false, kNow) == Step::kLead);
  CHECK(role.inherited() == Views{"5", "6", "7"});
  CHECK(role.next(1, true, "5/6/7", false, kNow + seconds{4}) == Step::kStay);
  CHECK(role.due() == kNow + seconds{5});
  SECTION("caught up in time") {
    CHECK(role.next(1, true, "5/6/7", true, kNow + seconds{4}) == Step::kStay);
    CHECK(role.next(1, true, "5/6/7", false, kNow + seconds{60}) == Step::kStay);
  }
  SECTION("views that lag too long are listed anew, once") {
    CHECK(role.next(1, true, "5/6/7", false, kNow + seconds{5}) == Step::kLeadAnew);
    CHECK(role.next(1, true, "5/6/7", false, kNow + seconds{60}) == Step::kStay);
  }
}

TEST_CASE("role: a lease that ran out, or was ours, is led from new views", "[controller]") {
  Role role;
  CHECK(role.next(1, true, "", true, kNow) == Step::kLeadAnew);
  CHECK(role.next(3, true, "5/6/7", true, kNow) == Step::kLeadAnew);  // lost and gained between
  CHECK(role.next(4, false, "5/6/7", true, kNow) == Step::kFollow);
  CHECK(role.next(4, false, "5/6/7", true, kNow + seconds{60}) == Step::kStay);
  CHECK(role.next(5, true, "5/6/7", true, kNow) == Step::kLead);
}
