// A model: its tensors in one flat array of parameters, and loss and gradients of one micro-batch.
// Knows nothing of optimizers, ranks or files. One thread; a training step allocates nothing.
//
// Tensors lie in the order in which the forward pass uses them, so that backward finishes gradients
// from the array's end to its start, and a bucket of gradients to reduce is a contiguous range.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer-runtime/include/pawl/config.h"
#include "trainer-runtime/kernels/kernels.h"

namespace pawl::models {

using kernels::Index;

struct Tensor {
  std::string name;  // as in the Hugging Face layout, e.g. "transformer.h.0.attn.c_attn.weight"
  std::vector<Index> shape;
  Index offset = 0, elements = 0;  // in the flat array
  bool is_decayed = false;         // weight decay is for matrices
  double initial = 0;  // standard deviation at the start; 0: all elements are `constant`
  double constant = 0;
};

// How many numbers one sample has.
struct SampleShape {
  Index inputs = 0;    // token ids
  Index targets = 0;   // classes, or tokens, to predict
  Index features = 0;  // of a table's row
};

// Samples one behind the other.
struct MicroBatch {
  std::span<const std::int32_t> inputs, targets;
  std::span<const float> features = {};
};

// Of held-out samples. `correct`: targets that the model thinks the likeliest; -1: not counted.
struct Score {
  double loss = 0;  // sum over all targets, in nats
  Index correct = -1;
};

// Called in backward with a falling index: all gradients at and behind it are final.
using GradientsReady = std::function<void(Index first)>;

template <typename T>
class Model {
 public:
  virtual ~Model() = default;
  virtual const std::vector<Tensor>& tensors() const = 0;
  virtual Index parameter_count() const = 0;
  // Bytes of activations and scratch that the model holds.
  virtual std::size_t activation_bytes() const = 0;
  virtual SampleShape sample_shape() const = 0;
  // Sum of the losses of all targets, in nats.
  virtual double loss(std::span<const T> parameters, const MicroBatch& batch) = 0;
  virtual Score score(std::span<const T> parameters, const MicroBatch& batch) {
    return {loss(parameters, batch)};
  }
  // The same, and adds scale * d(sum)/d(parameter) to the gradients.
  virtual double train(std::span<const T> parameters, std::span<T> gradients,
                       const MicroBatch& batch, T scale, const GradientsReady& ready) = 0;
};

// The parameters before the first step: a function of seed and position alone.
template <typename T>
void initialise(const std::vector<Tensor>& tensors, std::uint64_t seed, std::span<T> parameters);

// A model for micro-batches of up to config.batch.micro samples.
template <typename T>
std::unique_ptr<Model<T>> make_model(const TrainerConfig& config);

}  // namespace pawl::models
