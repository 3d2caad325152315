// Parameters, gradients and AdamW's moments in flat arrays, and the update of one step. Every rank
// computes the same bits (kernels.h, exact). One thread.
#pragma once

#include <span>
#include <vector>

#include "trainer-runtime/device/arena.h"
#include "trainer-runtime/include/pawl/config.h"
#include "trainer-runtime/models/model.h"

namespace pawl::optim {

// What a checkpoint holds, but for a few scalars.
struct TrainingArrays {
  explicit TrainingArrays(models::Index count)
      : parameters(static_cast<std::size_t>(count)),
        moment1(static_cast<std::size_t>(count)),
        moment2(static_cast<std::size_t>(count)) {}
  device::Buffer<float> parameters, moment1, moment2;
};

// The factor that brings a gradient of `norm` down to config.clip_norm.
double clip_factor(const OptimizerConfig& config, double norm);

class AdamW {
 public:
  AdamW(const TrainerConfig& config, const std::vector<models::Tensor>& tensors);
  // `step` counts from 0.
  void apply(std::int64_t step, double gradient_scale, std::span<const float> gradients,
             TrainingArrays& arrays) const;

 private:
  // A run of neighbouring tensors with the same decay.
  struct Range {
    models::Index offset, elements;
    bool is_decayed;
  };
  TrainerConfig config_;
  std::vector<Range> ranges_;
};

}  // namespace pawl::optim
