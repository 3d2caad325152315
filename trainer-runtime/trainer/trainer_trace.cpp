// A run, and what is to be seen of it when it has ended, however it did.
#include "trainer-runtime/trainer/trainer.h"

namespace pawl::trainer {

Result<Outcome> Trainer::run() {
  PAWL_TRY_VOID(trace_.open());
  parts_.pulse.tell(&trace_);
  auto outcome = train();
  parts_.pulse.tell(nullptr);
  trace_.finish(outcome.has_value());
  if (!outcome) trace_.write_flight(outcome.error().message);
  return outcome;
}

}  // namespace pawl::trainer
