// The first parameters of a run from model.weights: GPT-2's tensors, named and laid out as
// `transformers` (Hugging Face) has them, of F32, F16, BF16 or F64. One thread.
#pragma once

#include <span>
#include <vector>

#include "trainer-runtime/models/model.h"

namespace pawl::weights {

// Fills all `parameters`, which `tensors` describe. Positions beyond model.context are left out;
// without an output layer in the files an untied model's begins as a copy of the token embedding.
//
// Invalid: a file or tensor is absent, unknown, or of another shape or type; names file, tensor,
// shapes and the key to change. Unavailable: storage failed, another try may help. After an error
// the parameters may be filled in part.
Status load_gpt2(const ModelConfig& config, const std::vector<models::Tensor>& tensors,
                 std::span<float> parameters);

}  // namespace pawl::weights
