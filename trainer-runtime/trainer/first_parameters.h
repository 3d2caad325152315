// The parameters of step 0, in a run that has no checkpoint to go on from. All ranks call it
// together. One thread.
#pragma once

#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/models/model.h"

namespace pawl::trainer {

// Those of model.weights where that is given, else `parameters` stays as models::initialise made
// it. Invalid where they cannot be used (weights/gpt2_load.h), and on all ranks where two have read
// different ones: the files may be copies, and a rank that trains from others would spoil all.
Status take_weights(const TrainerConfig& config, const std::vector<models::Tensor>& tensors,
                    std::span<float> parameters, collective::Collective& ring);

}  // namespace pawl::trainer
