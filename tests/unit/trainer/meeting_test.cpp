// How ranks without a launcher find each other, as far as one process can show it.
#include <pthread.h>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>

#include "common/os/process.h"
#include "common/os/real_clock.h"
#include "trainer-runtime/trainer/standalone.h"

using namespace pawl;
using namespace std::chrono_literals;

TEST_CASE("meeting: a signal ends the wait for the other ranks", "[trainer]") {
  sigset_t before;
  REQUIRE(::pthread_sigmask(SIG_BLOCK, nullptr, &before) == 0);
  const auto port = *os::local_port(os::listen_tcp("127.0.0.1", 0)->get());
  for (const int rank : {0, 1}) {
    INFO("rank " << rank);
    auto signals = *trainer::Signals::open();
    // To this thread alone: the others have not blocked it.
    REQUIRE(::pthread_kill(::pthread_self(), SIGTERM) == 0);
    const RealClock clock;
    const SteadyPoint start = clock.steady_now();
    const auto gang = trainer::meet({rank, 2, "127.0.0.1", port}, {.rank = rank}, signals);
    REQUIRE_FALSE(gang.has_value());
    CHECK(gang.error().code == Code::kCancelled);
    CHECK(clock.steady_now() - start < 30s);
  }
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
}
