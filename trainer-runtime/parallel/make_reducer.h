// Which of the reducers a run has. One thread.
#pragma once

#include <memory>
#include <span>

#include "trainer-runtime/include/pawl/config.h"
#include "trainer-runtime/optim/optimizer.h"
#include "trainer-runtime/parallel/gradient_reducer.h"

namespace pawl::parallel {

// `residual`: of the run's arrays; all but the configuration outlives the reducer.
std::unique_ptr<GradientReducer> make_reducer(const TrainerConfig& config,
                                              collective::Collective& ring,
                                              std::span<float> gradients,
                                              optim::Residual& residual);

// What it needs, with the gradients and the residual, on each of so many ranks.
std::size_t reducer_bytes(const TrainerConfig& config, models::Index parameters, int world_size);

}  // namespace pawl::parallel
