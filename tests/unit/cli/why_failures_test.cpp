// What `pawl why` says of an attempt that has failed, while the next one is waited for.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/why_cases.h"

using namespace pawl;
using namespace pawl::cli;

namespace {

const std::vector<Case> kFailures = {
    {"crash loop of the gang",
     [](auto& f) {
       f.say("Restarting", "BackOff",
             "attempt 2 follows: rank 3 ended with exit code 1; 4 of 6 restarts used; it starts at "
             "T");
       fail_with(f, failure_of("Error", 1));
     },
     "4 of 6 restarts used; it starts at T",
     "correct the program: `pawl logs gpt --rank 3 --attempt 1 -n team-a`"},
    {"back-off after an OOM of the native trainer",
     [](auto& f) {
       f.say("Restarting", "BackOff",
             "attempt 2 follows: rank 3 ran out of memory; it starts at T");
       f.job.spec.runtime_kind = api::RuntimeKind::kNative;
       f.job.spec.runtime_config_json = R"({"batch":{"global":16,"micro":8}})";
       fail_with(f, failure_of("OOM"));
     },
     "ran out of memory",
     "lower spec.runtime.config.batch.micro, now 8: the global batch stays the same"},
    {"back-off after a kill",
     [](auto& f) {
       f.say("Restarting", "BackOff", "attempt 2 follows");
       api::Failure failure = failure_of("Signal");
       failure.signal = 9;
       fail_with(f, failure);
     },
     "attempt 2 follows", "the node ran out of memory"},
    {"back-off after an eviction",
     [](auto& f) {
       f.say("Restarting", "BackOff", "attempt 2 follows");
       fail_with(f, failure_of("Evicted"));
     },
     "attempt 2 follows", "`kubectl describe node node-3`"},
    {"back-off after an interruption",
     [](auto& f) {
       f.say("Restarting", "BackOff", "attempt 2 follows");
       fail_with(f, failure_of("Interrupted"));
     },
     "attempt 2 follows", "nothing: its machine was taken away"},
    {"back-off after a member that another does not reach",
     [](auto& f) {
       f.say("Restarting", "BackOff", "attempt 2 follows");
       fail_with(f, failure_of("Unreached"));
     },
     "attempt 2 follows", "see what is between the nodes of the two"},
};

}  // namespace

TEST_CASE("why: each failure has its answer and its next step", "[cli]") {
  check_answers(kFailures);
}
