// The embedded API of `pawl run` and of the simulator against a real API server with its garbage
// collector: the same random sequences of requests, answers and watches compared. sequence_mask.h
// says what is not compared. PAWL_TEST_KUBECONFIG names the server (e2e/cluster/cluster.py
// apiserver-only up --with-garbage-collector); without it the tests are skipped.
//
// PAWL_TEST_LONG=1 runs ten times as many; PAWL_TEST_SEED=<seed> that one alone.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "common/os/process.h"
#include "crd_server.h"
#include "sequence_run.h"

namespace pawl::conformance {
namespace {

constexpr int kSequences = 10;  // some 5 s each, most of it waiting for the real collector
constexpr int kLongFactor = 40;
constexpr int kSteps = 40;
constexpr std::uint64_t kFirstSeed = 1;
constexpr int kShrinkRunsMax = 60;
constexpr int kShrunkMax = 3;  // failures that are made short; more would only take time

std::string report(std::uint64_t seed, const std::vector<Step>& steps,
                   const Difference& difference) {
  std::string text = "PAWL_TEST_SEED=" + std::to_string(seed) + " differs:\n" + difference.what +
                     "\nafter these requests:\n";
  for (const Step& step : steps) text += "  " + describe(step) + "\n";
  return text;
}

TEST_CASE("sequences: ApiStore answers and shows what a real API server does", "[conformance]") {
  const std::optional<std::string> kubeconfig = os::env("PAWL_TEST_KUBECONFIG");
  if (!kubeconfig) SKIP("PAWL_TEST_KUBECONFIG is not set");
  {
    const CrdServer crds(*kubeconfig);
  }
  SequenceServer server(*kubeconfig);
  server.wait_for_collector();
  SequenceRunner runner(server, "sequence-" + os::random_hex(4));
  std::uint64_t first = kFirstSeed;
  int count = os::env("PAWL_TEST_LONG") ? kSequences * kLongFactor : kSequences;
  if (const auto seed = os::env("PAWL_TEST_SEED")) {
    first = std::strtoull(seed->c_str(), nullptr, 10);
    count = 1;
  }
  int raced = 0, failed = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    std::vector<Step> steps = generate_steps(seed, kSteps);
    if (!runner.run(steps, seed)) continue;
    // The collector has views of its own, and nothing tells when they have caught up: what does not
    // happen twice is its race, not a difference.
    const auto again = runner.run(steps, seed);
    if (!again) {
      ++raced;
      continue;
    }
    steps.resize(std::min(steps.size(), again->step + 1));
    if (++failed <= kShrunkMax) steps = runner.shrink(std::move(steps), seed, kShrinkRunsMax);
    const auto difference = runner.run(steps, seed);
    FAIL_CHECK(report(seed, steps, difference ? *difference : *again));
  }
  WARN(count << " sequences, " << runner.requests << " requests, " << runner.events << " events, "
             << raced << " raced");
  CHECK(raced <= 1 + count / 20);
}

}  // namespace
}  // namespace pawl::conformance
