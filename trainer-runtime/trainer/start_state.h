// What a training process has from its start on, and the start state of a generation: from storage,
// from its own memory, or from a peer's. One thread.
#pragma once

#include <memory>
#include <optional>

#include "common/api/channel.h"
#include "common/base/clock.h"
#include "common/checkpoint/reader.h"
#include "common/os/fd.h"
#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/models/model.h"
#include "trainer-runtime/saving/state.h"

namespace pawl::trainer {

// Where this rank's neighbours find it.
struct Door {
  os::Fd listener;
  std::uint16_t port = 0;
};
// All that lives as long as the run.
struct Run {
  TrainerConfig config;
  std::unique_ptr<data::Dataset> dataset;
  Door door;
  std::unique_ptr<models::Model<float>> model;
  std::unique_ptr<optim::TrainingArrays> arrays;
  std::unique_ptr<collective::Collective> ring;
  SteadyPoint process_start{};
  int unreached = -1;         // the rank, in the newest generation
  bool is_exporting = false;  // or has; no other rank waits for this one any more
};

// What this process holds from one generation to the next.
struct Memory {
  std::int64_t generation = 0;  // the newest whose start state it held
  saving::TrainerState state;
  bool is_untouched = true;  // the arrays are as prepare() made them
  std::optional<SteadyPoint> next_checkpoint;
  api::channel::Report applied;  // of the last step that this process applied
};

// The arrays of this rank for the generation: where the optimizer's states are sharded a rank's
// part depends on the number of ranks. What they held is lost then.
void prepare_arrays(Run& run, const api::channel::Welcome& gang, Memory& memory);

// Invalid: the checkpoint is of another run, or another model.
Result<saving::TrainerState> load_checkpoint(const checkpoint::Found& found,
                                             const checkpoint::Reader& reader, const Run& run);

// All ranks call it together, after prepare_arrays.
Status take_start(Run& run, const api::channel::Welcome& gang, Memory& memory);

// What this rank saves of a checkpoint.
saving::Shard shard_of(const Run& run, const api::channel::Welcome& gang);

}  // namespace pawl::trainer
