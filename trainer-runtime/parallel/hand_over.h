// Gives the training state of one rank to those that lack it, over the ring of a new generation
// (design §5, rule 7). A receiver takes it beside what it has, and gives up nothing of its own
// before all of it has come and is the same on every rank; ranks that hold the state already
// compare theirs. Every rank of the gang calls this, one thread each.
#pragma once

#include <memory>
#include <string>

#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/optim/optimizer.h"

namespace pawl::parallel {

struct HandOver {
  int source = 0;         // rank
  bool has_state = true;  // this rank
  std::string scalars;    // of the source; what the arrays do not hold
};
// The source's scalars; `arrays` are then equal on all ranks. Corrupt: two ranks that should hold
// the same state do not, and nothing has changed. Unavailable: a rank is gone,
// or the source does not hold the state.
Result<std::string> hand_over(collective::Collective& ring, const HandOver& how,
                              std::unique_ptr<optim::TrainingArrays>& arrays);

// Then, where gradients are compressed, on all ranks: a rank keeps the residual of its own
// gradients, and who got the state begins with none. Where one has that of all ranks together (a
// checkpoint was being made), all get it, as some would else add theirs a second time. Errors as
// above.
Status hand_over_residual(collective::Collective& ring, optim::Residual& residual);

}  // namespace pawl::parallel
