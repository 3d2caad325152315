// The model of a complete run as a folder that `transformers` (Hugging Face) reads:
// GPT2LMHeadModel.from_pretrained(folder). Rank 0 alone calls it. One thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer-runtime/models/model.h"

namespace pawl::weights {

// Makes the folder, and a file in it that is removed again, so that one that cannot be written
// shows before the first step; of "" nothing. Invalid: says what to change; Unavailable: another
// try may help.
Status check_export(const std::string& folder);

// Writes model.safetensors (32-bit floats) and then config.json, replacing those that are there;
// each is whole and on storage, or not there. `parameters` are all that `tensors` describe. Needs
// no second copy of them. Unavailable when it cannot.
Status export_gpt2(const ModelConfig& config, const std::vector<models::Tensor>& tensors,
                   std::span<const float> parameters, const std::string& folder);

}  // namespace pawl::weights
