// Real training processes that outlive a generation: they park, and go on in the next one from what
// they hold in memory.
#include <catch2/catch_test_macros.hpp>

#include "common/api/contract.h"
#include "tests/integration/trainer/gang_fixture.h"

using namespace pawl;
using namespace pawl::test;

namespace {

// What the launchers of one gang know together.
struct Places {
  Gang gang;
  std::vector<std::string> addresses;
  channel::Welcome welcome;

  Places(const Setup& setup, int count) : gang(launch(setup, count)) {
    welcome.attempt = 1;
    welcome.key = "00112233";
    welcome.checkpoint_seconds = 100'000;
    welcome.can_park = true;
    for (auto& one : gang) addresses.push_back(greet(*one));
  }
  static std::string greet(Launched& one) {
    const auto hello = one.next<channel::Hello>();
    return hello ? os::join_host_port("127.0.0.1", hello->data_port) : "";
  }
  // The next generation of all that are in `gang` now, ranks in that order.
  void place() {
    ++welcome.generation;
    welcome.world_size = static_cast<int>(gang.size());
    welcome.peers.clear();
    for (std::size_t rank = 0; rank < gang.size(); ++rank)
      welcome.peers.push_back({static_cast<int>(rank), addresses[rank]});
    for (std::size_t rank = 0; rank < gang.size(); ++rank) {
      welcome.rank = static_cast<int>(rank);
      gang[rank]->send(welcome);
    }
  }
  // Takes the reports of the parked ranks, and goes on from the newest state among them.
  bool collect(const std::vector<std::size_t>& ranks, bool is_everybody) {
    welcome.base_generation = welcome.generation;
    welcome.start_step = -1;
    bool are_equal = true;
    for (const std::size_t rank : ranks) {
      const auto parked = gang[rank]->next<channel::Parked>();
      if (!parked || parked->generation != welcome.generation) return false;
      are_equal = are_equal && (welcome.start_step < 0 || parked->step == welcome.start_step);
      if (parked->step <= welcome.start_step) continue;
      welcome.start_step = parked->step;
      welcome.source_rank = static_cast<int>(rank);
    }
    if (are_equal && is_everybody) welcome.source_rank = -1;
    return true;
  }
  void replace(std::size_t rank, const Setup& setup) {
    gang[rank] = std::move(launch(setup, 1).front());
    addresses[rank] = greet(*gang[rank]);
  }
};

std::vector<std::byte> result_of(Gang& gang) {
  std::vector<std::byte> bytes;
  for (auto& one : gang) {
    const auto shard = one->content(one->sealed().back());
    bytes.insert(bytes.end(), shard.begin(), shard.end());
  }
  return bytes;
}

void check_done(Gang& gang, std::int64_t steps) {
  for (auto& one : gang) {
    const auto done = one->next<channel::Done>();
    REQUIRE(done);
    CHECK(done->step == steps);
    CHECK(one->process().wait() == api::kExitDone);
  }
}

Places training_pair(const Setup& setup) {
  Places places(setup, 2);
  places.place();
  REQUIRE(train_until(*places.gang[0], 5));
  return places;
}

}  // namespace

TEST_CASE("pawl-train: a killed rank is fed by the others, and the result has the same bits",
          "[trainer]") {
  Setup setup(40);
  Places undisturbed(setup, 3);
  undisturbed.place();
  check_done(undisturbed.gang, 40);

  Places places(setup, 3);
  places.place();
  REQUIRE(train_until(*places.gang[0], 8));
  places.gang[1]->process().signal(SIGKILL);
  REQUIRE(places.collect({0, 2}, false));
  const std::int64_t start = places.welcome.start_step;
  CHECK(start >= 8);
  places.replace(1, setup);
  places.place();
  const auto report = places.gang[0]->next<channel::Report>();
  REQUIRE(report);
  CHECK(report->step >= start);  // nothing that was confirmed is done again
  check_done(places.gang, 40);
  CHECK(result_of(places.gang) == result_of(undisturbed.gang));
}

// The curve of the losses after a loss of a rank has other bits: what that one kept is gone.
TEST_CASE("pawl-train: compressed gangs outlive a rank, and go on with equal parameters",
          "[trainer]") {
  for (const char* compression : {"int8", "top_k"}) {
    Setup setup(40);
    setup.config.parallel.compression = compression;
    setup.config.guard.digest_every = 1;
    setup.folder.write("config.json", format_config(setup.config));
    Places places(setup, 3);
    places.place();
    REQUIRE(train_until(*places.gang[0], 8));
    places.gang[1]->process().signal(SIGKILL);
    REQUIRE(places.collect({0, 2}, false));
    CHECK(places.welcome.start_step >= 8);
    places.replace(1, setup);
    places.place();
    check_done(places.gang, 40);
  }
}

TEST_CASE("pawl-train: ranks that wait for a stopped one park as soon as they are told",
          "[trainer]") {
  const Setup setup(kForever);
  Places places = training_pair(setup);
  places.gang[1]->process().signal(SIGSTOP);
  places.gang[0]->send(channel::Park{});
  REQUIRE(places.collect({0}, false));
  // The stopped one is let go; a new one takes its place.
  places.replace(1, setup);
  places.place();
  CHECK(train_until(*places.gang[0], places.welcome.start_step + 5));
}

TEST_CASE("pawl-train: a gang at rest that is put to work only to stop saves first", "[trainer]") {
  const Setup setup(kForever);
  Places places = training_pair(setup);
  for (auto& one : places.gang) one->send(channel::Park{});
  REQUIRE(places.collect({0, 1}, false));
  places.place();
  for (auto& one : places.gang) one->send(channel::Stop{.is_saving = true});
  for (auto& one : places.gang) {
    const auto sealed = one->next<channel::Sealed>();
    REQUIRE(sealed);
    CHECK(sealed->step >= places.welcome.start_step);
    CHECK(one->process().wait() == api::kExitRetry);
  }
}

TEST_CASE("pawl-train: a gang shrinks and grows, with other ranks, and keeps its steps",
          "[trainer]") {
  Setup setup(kForever);
  Places places(setup, 3);
  places.place();
  REQUIRE(train_until(*places.gang[0], 5));
  for (auto& one : places.gang) one->send(channel::Park{});
  REQUIRE(places.collect({1, 2}, true));
  places.gang.erase(places.gang.begin());
  places.addresses.erase(places.addresses.begin());
  if (places.welcome.source_rank > 0) --places.welcome.source_rank;
  const std::int64_t shrunk_at = places.welcome.start_step;
  places.place();
  REQUIRE(train_until(*places.gang[0], shrunk_at + 5));
  for (auto& one : places.gang) one->send(channel::Park{});
  REQUIRE(places.collect({0, 1}, false));
  CHECK(places.welcome.start_step >= shrunk_at + 5);
  places.gang.push_back(std::move(launch(setup, 1).front()));
  places.addresses.push_back(Places::greet(*places.gang.back()));
  places.place();
  CHECK(train_until(*places.gang[0], places.welcome.start_step + 5));
}

TEST_CASE("pawl-train: while a peer never comes to the new generation the others can be parked",
          "[trainer]") {
  const Setup setup(kForever);
  Places places = training_pair(setup);
  places.gang[1]->process().signal(SIGKILL);
  REQUIRE(places.collect({0}, false));
  const std::int64_t start = places.welcome.start_step;
  places.replace(1, setup);
  places.gang[1]->process().signal(SIGSTOP);
  places.place();
  places.gang[0]->send(channel::Park{});
  const auto parked = places.gang[0]->next<channel::Parked>();
  REQUIRE(parked);
  CHECK(parked->generation == 1);  // the ring of the new one never came about
  CHECK(parked->step == start);
}
