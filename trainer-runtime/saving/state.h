// What a checkpoint of a training run holds, and how it becomes this rank's shard and back: the
// parameters by their own names, the optimizer's states with what they are before that, as
// "adamw.moment1.<name>" (so too the residual of compressed gradients), and a few scalars in the
// manifest. Any number of ranks loads what any other number saved. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/checkpoint/reader.h"
#include "common/checkpoint/safetensors.h"
#include "trainer-runtime/optim/guard.h"
#include "trainer-runtime/optim/optimizer.h"

namespace pawl::saving {

// What held-out data said of the model after `step`.
struct Validated {
  std::int64_t step = 0;
  double loss = 0;                                // a target, in nats; finite
  std::optional<double> accuracy = std::nullopt;  // of a classification
  bool operator==(const Validated&) const = default;
};

// The trainer's part of the manifest.
struct TrainerState {
  std::int64_t step = 0;     // optimizer steps that are applied
  std::uint64_t cursor = 0;  // samples that are consumed; the next step starts here
  std::uint64_t seed = 0;
  std::string config_hash, model_hash;
  // Of the data: other ones would change the order of samples. 0: an older trainer did not say.
  std::uint64_t corpus_bytes = 0, samples = 0;
  std::string optimizer = "adamw";  // its kind
  std::int64_t optimizer_step = 0;  // since its states were zero
  // data_form: others would give features and tokens another meaning. "": an older one did not say.
  std::string data_form = {};
  // The newest, and the one with the lowest loss of the run.
  std::optional<Validated> validated = std::nullopt, best = std::nullopt;
  optim::GuardState guard = {};
  bool operator==(const TrainerState&) const = default;
};
std::string encode_state(const TrainerState& state);
Result<TrainerState> decode_state(const std::string& json);

// What a run's checkpoints hold of each parameter beside itself: optim::state_names, and, where
// gradients are compressed, "compression.residual", the residuals' sum over all ranks.
std::vector<std::string> stored_arrays(const TrainerConfig& config);

// This rank's part of all tensors, as one safetensors file.
class Shard {
 public:
  // Of ranks that all hold everything: the slice rank / world_size of all tensors laid end to end.
  // `states`: stored_arrays.
  Shard(const std::vector<models::Tensor>& tensors, const std::vector<std::string>& states,
        int rank, int world_size);
  // What this rank alone owns, parameters and states.
  Shard(const std::vector<models::Tensor>& tensors, const std::vector<std::string>& states,
        const optim::Ownership& owned);
  std::size_t bytes() const { return header_.size() + data_bytes_; }
  // `out` has bytes() bytes. A residual that is stored has to be summed.
  void fill(const optim::TrainingArrays& arrays, std::span<std::byte> out) const;

 private:
  struct Part {
    std::size_t array;            // 0: parameters, then states, then the residual
    std::size_t first, elements;  // in the array
  };
  void begin(const std::vector<checkpoint::Piece>& pieces);
  std::string header_;
  std::vector<Part> parts_;
  std::size_t data_bytes_ = 0;
};

// Fills the arrays, of the states what is owned. Invalid when the checkpoint is of another model:
// says which tensor. False: it is of another optimizer, and this one's states are zero. A residual
// that the arrays have no place for is left out, and one that the checkpoint lacks is zero.
// `states`: optim::state_names.
Result<bool> load_arrays(const checkpoint::Reader& reader,
                         const std::vector<models::Tensor>& tensors,
                         const std::vector<std::string>& states, optim::TrainingArrays& arrays);

}  // namespace pawl::saving
