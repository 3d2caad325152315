// The files behind model.weights, and which tensor of GPT-2 lies where in them. Reads headers, and
// config.json of a folder, and no tensors. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/checkpoint/safetensors.h"
#include "trainer-runtime/include/pawl/config.h"
#include "trainer-runtime/weights/input_file.h"

namespace pawl::weights {

inline constexpr char kPrefix[] = "transformer.";
inline constexpr char kHead[] = "lm_head.weight";
inline constexpr char kTokenEmbedding[] = "transformer.wte.weight";
inline constexpr char kPositionEmbedding[] = "transformer.wpe.weight";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kConfigFile[] = "config.json";

struct StoredTensor {
  std::size_t file = 0;  // in StoredModel::files
  checkpoint::StoredPiece place;
};

struct StoredModel {
  std::vector<InputFile> files;
  // By their names with kPrefix, whether the files have it or not; without the masks that older
  // versions of transformers saved as buffers.
  std::map<std::string, StoredTensor> tensors;
};

// config.weights is not empty. Invalid with the file and what to change, also where a config.json
// says that the model is not the one of `config`; Unavailable when another try may help.
Result<StoredModel> open_gpt2(const ModelConfig& config);

// N of "transformer.h.N.…"; -1 of other names.
std::int64_t block_of(const std::string& name);

}  // namespace pawl::weights
