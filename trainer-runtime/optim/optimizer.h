// Parameters and an optimizer's states in flat arrays, and the update of one step. Every rank
// computes the same bits (kernels.h, exact). One thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer-runtime/device/arena.h"
#include "trainer-runtime/include/pawl/config.h"
#include "trainer-runtime/models/model.h"
#include "trainer-runtime/optim/ownership.h"

namespace pawl::optim {

// Of error feedback (compress/compressor.h): what the gradients so far had and no frame has said.
struct Residual {
  device::Buffer<float> values;  // of all parameters; none where gradients are not compressed
  // False: of this rank's gradients, and each rank has another. True: of all ranks' together, and
  // all have the same: each adds a part of it, its chunk, to its next gradient.
  bool is_summed = false;
};

// What a checkpoint holds, but for a few scalars.
struct TrainingArrays {
  TrainingArrays(models::Index count, std::size_t state_count);
  TrainingArrays(const TrainerConfig& config, models::Index count);
  TrainingArrays(const TrainerConfig& config, models::Index count, Ownership owned);
  device::Buffer<float> parameters;  // all of them
  Ownership owned;
  // Of the optimizer, as state_names, of what is owned; zero at first.
  std::vector<device::Buffer<float>> states;
  Residual residual;
  // Parameters, then states: what is equal on all ranks, but for what only others own.
  std::vector<std::span<float>> spans();
  std::vector<std::span<const float>> spans() const;
};

// What the optimizer keeps of each parameter: "adamw.moment1", …; none: it keeps nothing.
std::vector<std::string> state_names(const OptimizerConfig& config);

// The factor that brings a gradient of `norm` down to config.clip_norm.
double clip_factor(const OptimizerConfig& config, double norm);

struct Update {
  double learning_rate = 0;
  std::int64_t step = 0;  // since the states were zero
  double gradient_scale = 1;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Changes what `arrays` owns, and needs the gradients of that alone.
  virtual void apply(const Update& update, std::span<const float> gradients,
                     TrainingArrays& arrays) const = 0;
};

// adamw: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019. sgd: as PyTorch's,
// with weight decay in the gradient. lars: You, Gitman and Ginsburg, "Large Batch Training of
// Convolutional Networks", 2017. lamb: You et al., "Large Batch Optimization for Deep Learning",
// 2020. The last two scale the learning rate of each matrix by its norm; tensors that are not
// decayed (biases, gains) have it as it is.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config,
                                          const std::vector<models::Tensor>& tensors,
                                          const Ownership& owned);

}  // namespace pawl::optim
