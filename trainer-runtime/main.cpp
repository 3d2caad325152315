#include <cstdio>

#include "common/api/contract.h"
#include "common/os/process.h"
#include "common/os/real_clock.h"
#include "trainer-runtime/trainer/program.h"

int main(int argc, char** argv) {
  const pawl::RealClock clock;
  pawl::os::ignore_sigpipe();
  auto signals = pawl::trainer::Signals::open();
  if (!signals) {
    std::fprintf(stderr, "pawl-train: %s\n", signals.error().message.c_str());
    return pawl::api::kExitUser;
  }
  return pawl::trainer::run_program(argc, argv, *signals, clock);
}
