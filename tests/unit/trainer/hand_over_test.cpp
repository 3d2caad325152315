#include "trainer-runtime/parallel/hand_over.h"

#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "tests/unit/trainer/gang.h"

using namespace pawl;

namespace {

constexpr models::Index kCount = 1'100'001;  // more than a piece

std::unique_ptr<optim::TrainingArrays> arrays_of(float value) {
  auto arrays = std::make_unique<optim::TrainingArrays>(kCount, 2);
  float next = value;
  for (const std::span<float> span : arrays->spans()) {
    for (float& element : span) element = next += 0.5F;
  }
  return arrays;
}

struct Taker {
  bool has_state = false;
  std::unique_ptr<optim::TrainingArrays> arrays;
  Result<std::string> outcome = "";
};

// Every rank hands over, each on its own thread.
void hand_over_all(std::vector<Taker>& takers, int source) {
  std::vector<os::Fd> listeners;
  collective::RingOptions ring{
      .world_size = static_cast<int>(takers.size()), .generation = 2, .key = "key"};
  for (std::size_t i = 0; i < takers.size(); ++i) {
    listeners.push_back(*os::listen_tcp("127.0.0.1", 0));
    ring.peers.push_back(os::join_host_port("127.0.0.1", *os::local_port(listeners.back().get())));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < takers.size(); ++i) {
    threads.emplace_back([&, i] {
      collective::RingOptions mine = ring;
      mine.rank = static_cast<int>(i);
      const auto link = *collective::make_ring(mine, listeners[i]);
      const parallel::HandOver how{source, takers[i].has_state, "scalars of " + std::to_string(i)};
      takers[i].outcome = parallel::hand_over(*link, how, takers[i].arrays);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("hand_over: who lacks the state gets it whole, who has it keeps its own", "[trainer]") {
  std::vector<Taker> takers(4);
  for (std::size_t i = 0; i < takers.size(); ++i) {
    takers[i].has_state = i == 1 || i == 2;
    takers[i].arrays = arrays_of(takers[i].has_state ? 7.0F : 0.0F);
  }
  const optim::TrainingArrays* kept = takers[2].arrays.get();
  hand_over_all(takers, 1);
  for (const Taker& taker : takers) {
    REQUIRE(taker.outcome);
    CHECK(*taker.outcome == "scalars of 1");
    CHECK(test::is_equal(*taker.arrays, *arrays_of(7.0F)));
  }
  CHECK(takers[2].arrays.get() == kept);
}

TEST_CASE("hand_over: two that should hold the same and do not are found, and nobody changes",
          "[trainer]") {
  std::vector<Taker> takers(3);
  for (std::size_t i = 0; i < takers.size(); ++i) {
    takers[i].has_state = i < 2;
    takers[i].arrays = arrays_of(static_cast<float>(i));
  }
  hand_over_all(takers, 0);
  for (std::size_t i = 0; i < takers.size(); ++i) {
    REQUIRE(!takers[i].outcome);
    CHECK(takers[i].outcome.error().code == Code::kCorrupt);
    CHECK(takers[i].outcome.error().message.find("rank 1 does not hold the same") == 0);
    CHECK(test::is_equal(*takers[i].arrays, *arrays_of(static_cast<float>(i))));
  }
}

TEST_CASE("hand_over: a source without the state feeds nobody", "[trainer]") {
  std::vector<Taker> takers(3);
  for (std::size_t i = 0; i < takers.size(); ++i) {
    takers[i].has_state = i == 2;
    takers[i].arrays = arrays_of(static_cast<float>(i));
  }
  hand_over_all(takers, 1);
  for (std::size_t i = 0; i < takers.size(); ++i) {
    REQUIRE(!takers[i].outcome);
    CHECK(takers[i].outcome.error().code == Code::kUnavailable);
    CHECK(test::is_equal(*takers[i].arrays, *arrays_of(static_cast<float>(i))));
  }
}
