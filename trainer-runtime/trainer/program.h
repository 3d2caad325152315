// pawl-train as a function: reads arguments and environment, joins the gang, loads, trains. Returns
// the exit code of common/api/contract.h and says on standard error why it is not 0.
#pragma once

#include "common/base/clock.h"
#include "trainer-runtime/trainer/signals.h"

namespace pawl::trainer {

int run_program(int argc, char** argv, Signals& signals, const Clock& clock);

}  // namespace pawl::trainer
