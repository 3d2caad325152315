// Where checkpoints go. All ranks seal the same step, each its own shard. One thread.
#pragma once

#include <memory>

#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/saving/state.h"

namespace pawl::saving {

class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  // False: checkpoints go nowhere, nobody needs to seal one.
  virtual bool is_saving() const = 0;
  // Whether seal would not wait for storage. The same on all ranks where seal is collective.
  virtual bool is_ready() const = 0;
  virtual Status seal(const TrainerState& state, const optim::TrainingArrays& arrays) = 0;
  // Returns when everything that was sealed is on storage, or in hands that will bring it there.
  virtual Status drain() = 0;
};

// For a run without a place for checkpoints.
std::unique_ptr<CheckpointSink> make_no_sink();

// For a run without a launcher: writes its shard itself and waits for the storage; rank 0
// publishes.
struct DirectOptions {
  std::string run_id;  // names the run in manifests; a run loads its own checkpoints only
  std::int64_t attempt = 1;
  int keep = 3;
};
std::unique_ptr<CheckpointSink> make_direct_sink(store::Store& store, collective::Collective& ring,
                                                 Shard shard, DirectOptions options);

}  // namespace pawl::saving
