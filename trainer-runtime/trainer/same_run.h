// What has to be equal for ranks to train together, and for a run to go on from a checkpoint. Any
// thread.
#pragma once

#include <string>

#include "common/base/result.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/saving/state.h"

namespace pawl::trainer {

// Of step 0.
saving::TrainerState fresh_state(const TrainerConfig& config, const data::Dataset& dataset);

// Of all ranks. The paths need not be equal; how much lies behind them does, or the ranks would
// deal out different samples. Of model.weights it says only whether there are any: what is in them
// is compared when they are read (first_parameters.h).
std::string agreed_hash(const TrainerConfig& config, const data::Dataset& dataset);

// Invalid: the checkpoint, whose state this is, is of another run; says what to set back. What an
// older trainer did not write down is not compared.
Status check_same_run(const saving::TrainerState& state, const TrainerConfig& config,
                      const data::Dataset& dataset);

}  // namespace pawl::trainer
