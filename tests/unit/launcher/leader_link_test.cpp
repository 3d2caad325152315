#include "launcher/membership/leader_link.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::membership;

namespace {

// A member of attempt 1 whose record names one leader after the other.
class Link {
 public:
  Link() : ctx_({.self = {"uid-me", "start-me"}, .attempt = 1}, {}), link_(ctx_) {}
  LeaderLink& operator*() { return link_; }
  LeaderLink* operator->() { return &link_; }

  void lead(const std::string& uid) {
    api::WorkerGroup record;
    record.status.attempt = 1;
    record.status.leader = api::Leader{.ref = {uid, "start"}, .address = uid + ":1"};
    ctx_.record = record;
    link_.retarget();
  }
  // How often it has dialled this one.
  int dials(const std::string& uid) const {
    int count = 0;
    for (const Action& action : ctx_.actions) {
      const auto* dial = std::get_if<Dial>(&action);
      count += dial != nullptr && dial->address == uid + ":1";
    }
    return count;
  }
  void pass(std::chrono::milliseconds time) {
    ctx_.now.steady += time;
    link_.on_tick();
  }

 private:
  Context ctx_;
  LeaderLink link_;
};

}  // namespace

TEST_CASE("leader_link: a connection that was joined on is missed, once", "[launcher]") {
  Link link;
  link.lead("uid-a");
  link->on_up();
  CHECK(link->is_joined());
  link->on_down("reset");
  CHECK_FALSE(link->is_joined());
  CHECK(link->take_loss() == "reset");
  CHECK_FALSE(link->take_loss());
  link->on_down("refused by the network");  // nothing was joined since
  CHECK_FALSE(link->take_loss());
}

TEST_CASE("leader_link: to be refused is no loss, but to lose the next leader is", "[launcher]") {
  Link link;
  link.lead("uid-a");
  link->on_up();
  link->on_refused("not eligible");
  CHECK(link->is_refused());
  CHECK_FALSE(link->take_loss());
  link.lead("uid-b");
  CHECK_FALSE(link->is_refused());
  REQUIRE(link.dials("uid-b") == 1);
  link->on_up();
  link->on_down("reset");
  CHECK(link->take_loss() == "reset");
}

TEST_CASE("leader_link: a leader that refuses is asked again, less and less often", "[launcher]") {
  Link link;
  link.lead("uid-a");
  for (const int wait : {100, 200, 400, 800}) {
    link->on_up();
    link->on_refused("not yet");
    const int before = link.dials("uid-a");
    link.pass(std::chrono::milliseconds(wait - 50));
    CHECK(link.dials("uid-a") == before);
    CHECK(link->is_refused());
    link.pass(std::chrono::milliseconds(50));
    CHECK(link.dials("uid-a") == before + 1);
    CHECK_FALSE(link->is_refused());
  }
}
