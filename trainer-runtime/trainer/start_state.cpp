#include "trainer-runtime/trainer/start_state.h"

#include <utility>

#include "trainer-runtime/parallel/hand_over.h"
#include "trainer-runtime/parallel/sharding.h"
#include "trainer-runtime/trainer/first_parameters.h"
#include "trainer-runtime/trainer/same_run.h"

namespace pawl::trainer {
namespace {

using api::channel::Welcome;

Status take_from_storage(Run& run, const Welcome& gang, Memory& memory) {
  const bool is_untouched = std::exchange(memory.is_untouched, false);
  memory.generation = 0;  // until all of it is there
  memory.state = fresh_state(run.config, *run.dataset);
  if (!gang.load_uri.empty()) {
    PAWL_TRY(opened, checkpoint::open_checkpoint(gang.load_uri));
    PAWL_TRY(loaded, load_checkpoint(opened.found, opened.reader, run));
    memory.state = loaded;
    return {};
  }
  if (!is_untouched) {
    run.arrays = std::make_unique<optim::TrainingArrays>(run.config, run.model->parameter_count());
    models::initialise(run.model->tensors(), run.config.seed, run.arrays->parameters.span());
  }
  return take_weights(run.config, run.model->tensors(), run.arrays->parameters.span(), *run.ring);
}

}  // namespace

void prepare_arrays(Run& run, const Welcome& gang, Memory& memory) {
  if (!run.config.is_sharded()) return;
  const models::Index count = run.model->parameter_count();
  run.arrays.reset();  // before there are others: both may not fit
  run.arrays = std::make_unique<optim::TrainingArrays>(
      run.config, count, parallel::ownership_of(count, gang.rank, gang.world_size));
  models::initialise(run.model->tensors(), run.config.seed, run.arrays->parameters.span());
  memory.generation = 0;
  memory.is_untouched = true;
}

Result<saving::TrainerState> load_checkpoint(const checkpoint::Found& found,
                                             const checkpoint::Reader& reader, const Run& run) {
  PAWL_TRY(state, saving::decode_state(found.manifest.trainer_json));
  if (const Status same = check_same_run(state, run.config, *run.dataset); !same)
    return fail(same.error().code, found.folder + " " + same.error().message);
  const saving::TrainerState fresh = fresh_state(run.config, *run.dataset);
  state.corpus_bytes = fresh.corpus_bytes;
  state.samples = fresh.samples;
  state.data_form = fresh.data_form;
  state.config_hash = fresh.config_hash;
  PAWL_TRY(has_states, saving::load_arrays(reader, run.model->tensors(),
                                           optim::state_names(run.config.optimizer), *run.arrays));
  const std::string& kind = run.config.optimizer.kind;
  if (!has_states || state.optimizer != kind) state.optimizer_step = 0;
  state.optimizer = kind;
  return state;
}

Status take_start(Run& run, const Welcome& gang, Memory& memory) {
  const bool holds = gang.base_generation > 0 && memory.generation == gang.base_generation &&
                     memory.state.step == gang.start_step;
  if (gang.base_generation == 0) {
    PAWL_TRY_VOID(take_from_storage(run, gang, memory));
  } else if (gang.source_rank >= 0) {
    const parallel::HandOver how{gang.source_rank, holds, saving::encode_state(memory.state)};
    memory.is_untouched = false;
    PAWL_TRY(scalars, parallel::hand_over(*run.ring, how, run.arrays));
    PAWL_TRY(state, saving::decode_state(scalars));
    memory.state = state;
  } else if (!holds) {
    return fail(Code::kUnavailable, "this rank was taken for one that holds step " +
                                        std::to_string(gang.start_step) + " of generation " +
                                        std::to_string(gang.base_generation));
  }
  if (gang.base_generation > 0 && run.config.is_compressed())
    PAWL_TRY_VOID(parallel::hand_over_residual(*run.ring, run.arrays->residual));
  if (memory.state.step != gang.start_step) {
    return fail(Code::kInvalid, "the generation starts at step " + std::to_string(gang.start_step) +
                                    ", its state is of step " + std::to_string(memory.state.step));
  }
  // A rank that holds a part of the optimizer's states alone can give nobody a start.
  memory.generation = run.config.is_sharded() ? 0 : gang.generation;
  return {};
}

saving::Shard shard_of(const Run& run, const Welcome& gang) {
  const auto stored = saving::stored_arrays(run.config);
  if (run.config.is_sharded()) return {run.model->tensors(), stored, run.arrays->owned};
  return {run.model->tensors(), stored, gang.rank, gang.world_size};
}

}  // namespace pawl::trainer
