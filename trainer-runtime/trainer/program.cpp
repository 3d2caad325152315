#include "trainer-runtime/trainer/program.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "common/api/contract.h"
#include "common/os/process.h"
#include "trainer-runtime/collective/ring.h"
#include "trainer-runtime/kernels/matmul.h"
#include "trainer-runtime/parallel/make_reducer.h"
#include "trainer-runtime/trainer/channel_session.h"
#include "trainer-runtime/trainer/first_parameters.h"
#include "trainer-runtime/trainer/options.h"
#include "trainer-runtime/trainer/same_run.h"
#include "trainer-runtime/trainer/standalone.h"
#include "trainer-runtime/trainer/start_state.h"
#include "trainer-runtime/trainer/trainer.h"
#include "trainer-runtime/weights/gpt2_export.h"

namespace pawl::trainer {
namespace {

using api::channel::Hello;
using api::channel::Welcome;

Result<TrainerConfig> read_config(const Options& options) {
  std::string text;
  std::string where = api::kEnvTrainerConfig;
  if (!options.config_path.empty()) {
    where = options.config_path;
    errno = 0;
    std::ifstream file(where);
    std::ostringstream content;
    content << file.rdbuf();
    if (!file) {
      return fail(data::code_of_file_error(errno),
                  where + " cannot be read: " + os::errno_text(errno));
    }
    text = content.str();
  } else if (auto variable = os::env(api::kEnvTrainerConfig)) {
    text = *std::move(variable);
  } else {
    return fail(Code::kInvalid,
                std::string("no configuration: give --config FILE or ") + api::kEnvTrainerConfig);
  }
  auto config = parse_config(text);
  if (!config) return fail_with(config.error(), where);
  if (options.steps > 0) config->steps = options.steps;
  return config;
}

Result<Door> open_door() {
  auto listener = os::listen_tcp("::", 0);
  if (!listener) listener = os::listen_tcp("0.0.0.0", 0);
  if (!listener) return tl::make_unexpected(listener.error());
  PAWL_TRY(port, os::local_port(listener->get()));
  return Door{std::move(*listener), port};
}

Result<std::unique_ptr<collective::Collective>> form_ring(const Welcome& gang, const Door& door,
                                                          collective::RingOptions options) {
  if (gang.world_size == 1) return collective::make_self();
  options.rank = gang.rank;
  options.world_size = gang.world_size;
  options.generation = gang.generation;
  options.key = gang.key;
  options.peers.resize(static_cast<std::size_t>(gang.world_size));
  for (const auto& peer : gang.peers) {
    if (peer.rank >= 0 && peer.rank < gang.world_size)
      options.peers[static_cast<std::size_t>(peer.rank)] = peer.address;
  }
  return collective::make_ring(options, door.listener);
}

void print_line(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

Status export_model(Run& run) {
  const std::string& folder = run.config.export_folder;
  if (folder.empty()) return {};
  run.is_exporting = true;
  PAWL_TRY_VOID(weights::export_gpt2(run.config.model, run.model->tensors(),
                                     run.arrays->parameters.span(), folder));
  print_line("exported to " + folder);
  return {};
}

Result<Run> prepare(const Options& options) {
  PAWL_TRY(config, read_config(options));
  PAWL_TRY(dataset, data::open_dataset(config));
  PAWL_TRY(door, open_door());
  auto model = models::make_model<float>(config);
  auto arrays = std::make_unique<optim::TrainingArrays>(config, model->parameter_count());
  models::initialise(model->tensors(), config.seed, arrays->parameters.span());
  return Run{std::move(config),
             std::move(dataset),
             std::move(door),
             std::move(model),
             std::move(arrays),
             nullptr,
             {}};
}

void print_plan(const Run& run, const Welcome& gang, const saving::TrainerState& start) {
  if (gang.rank != 0) return;
  const auto count = run.model->parameter_count();
  const auto states = static_cast<std::int64_t>(run.arrays->states.size());
  std::printf("data: %s\n", run.dataset->about().c_str());
  const bool begins_anew = start.step > 0 && start.optimizer_step == 0;
  std::printf(
      "model %.2f M parameters, %d ranks, %lld micro-batches a step, %s kernels%s%s; memory a "
      "rank: parameters and optimizer %.1f MB, "
      "gradients %.1f MB, activations %.1f MB; starting at step %lld%s\n",
      static_cast<double>(count) / 1e6, gang.world_size,
      static_cast<long long>(run.config.batch.global / run.config.batch.micro),
      kernels::table<float>().name, kernels::matmul_library()[0] != '\0' ? " and " : "",
      kernels::matmul_library(),
      4 * static_cast<double>(count + states * run.arrays->owned.count()) / 1e6,
      static_cast<double>(parallel::reducer_bytes(run.config, count, gang.world_size)) / 1e6,
      static_cast<double>(run.model->activation_bytes()) / 1e6, static_cast<long long>(start.step),
      begins_anew
          ? "; the optimizer's states begin at zero, as the checkpoint has none of this kind"
          : "");
  std::fflush(stdout);
}

Parts parts_of(Run& run, const Welcome& gang, Session& session, saving::CheckpointSink& sink,
               Pulse& pulse, const Clock& clock) {
  const int seconds = gang.checkpoint_seconds > 0 ? gang.checkpoint_seconds : 60;
  return {.config = run.config,
          .dataset = *run.dataset,
          .model = *run.model,
          .arrays = *run.arrays,
          .ring = *run.ring,
          .sink = sink,
          .session = session,
          .pulse = pulse,
          .clock = clock,
          .checkpoint_seconds = seconds,
          .generation = gang.generation,
          .process_start = run.process_start,
          .print = print_line,
          .deliver = [&run] { return export_model(run); }};
}

// ---- under a launcher

Result<Outcome> run_generation(Run& run, const Welcome& gang, ChannelSession& session,
                               Memory& memory, Pulse& pulse, const Clock& clock) {
  pulse.begin_generation();
  run.unreached = -1;
  PAWL_TRY(ring, form_ring(gang, run.door,
                           {.on_unreached = [&run](int rank) { run.unreached = rank; },
                            .on_waiting = [&pulse] { pulse.beat(); },
                            .abort_fd = session.park_fd()}));
  run.ring = std::move(ring);
  if (gang.rank == 0) PAWL_TRY_VOID(weights::check_export(run.config.export_folder));
  prepare_arrays(run, gang, memory);
  PAWL_TRY_VOID(take_start(run, gang, memory));
  // Nobody steps before all hold the start state.
  pulse.enter(api::Phase::kReduce, gang.start_step);
  PAWL_TRY_VOID(run.ring->barrier());
  pulse.enter(api::Phase::kOther);
  saving::Shard shard = shard_of(run, gang);
  PAWL_TRY_VOID(session.request_buffers(shard.bytes()));
  const auto sink = make_channel_sink(session, std::move(shard), gang.rank == 0);
  print_plan(run, gang, memory.state);
  Parts parts = parts_of(run, gang, session, *sink, pulse, clock);
  parts.is_stored = gang.base_generation == 0;
  parts.next_checkpoint = memory.next_checkpoint;
  parts.before = memory.applied;
  Trainer trainer(parts, memory.state);
  auto outcome = trainer.run();
  memory.state = trainer.state();
  memory.next_checkpoint = trainer.next_checkpoint();
  memory.applied = trainer.applied();
  return outcome;
}

// One generation after another, until the run has ended, or this process cannot go on.
Result<Outcome> run_launched(const Options& options, int fd, Signals& signals, const Clock& clock,
                             SteadyPoint process_start) {
  PAWL_TRY(run, prepare(options));
  run.process_start = process_start;
  ChannelSession session(os::Fd{fd}, signals);
  Pulse pulse = Pulse::of_launcher(clock);
  Memory memory;
  // The launcher knows by the socket who we are; the rank comes with its answer.
  PAWL_TRY(gang, session.join(Hello{.data_port = run.door.port,
                                    .config_hash = agreed_hash(run.config, *run.dataset),
                                    .holds_part = run.config.is_sharded()}));
  while (true) {
    auto outcome = run_generation(run, gang, session, memory, pulse, clock);
    pulse.enter(api::Phase::kOther);
    run.ring.reset();
    // A neighbour with another key is one of another generation: this one has not come about. When
    // the export fails the others may be gone: there is no generation to wait for.
    const bool is_lost =
        !outcome && !run.is_exporting &&
        (outcome.error().code == Code::kUnavailable || outcome.error().code == Code::kForbidden);
    if (!is_lost || !gang.can_park) return outcome;
    const std::string& why = outcome.error().message;
    std::fprintf(stderr, "pawl-train: parked at step %lld of generation %lld: %s\n",
                 static_cast<long long>(memory.state.step),
                 static_cast<long long>(memory.generation), why.c_str());
    PAWL_TRY(next, session.park({memory.generation, memory.state.step, why, run.unreached}));
    gang = next;
  }
}

Result<Outcome> run_standalone(const Options& options, Signals& signals, const Clock& clock,
                               SteadyPoint process_start) {
  PAWL_TRY(run, prepare(options));
  PAWL_TRY(place, place_from(os::environment()));
  const Hello hello{.rank = place.rank,
                    .data_port = run.door.port,
                    .config_hash = agreed_hash(run.config, *run.dataset)};
  PAWL_TRY(gang, meet(place, hello, signals));
  gang.checkpoint_seconds = options.checkpoint_seconds;
  Pulse pulse{clock};
  PAWL_TRY(ring, form_ring(gang, run.door, {}));
  run.ring = std::move(ring);
  if (gang.rank == 0) PAWL_TRY_VOID(weights::check_export(run.config.export_folder));
  Memory memory;
  prepare_arrays(run, gang, memory);
  StandaloneSession session(signals);
  saving::TrainerState start = fresh_state(run.config, *run.dataset);
  std::unique_ptr<store::Store> store;
  auto sink = saving::make_no_sink();
  if (!options.checkpoint_uri.empty()) {
    PAWL_TRY(opened, store::open_store(options.checkpoint_uri));
    store = std::move(opened);
    saving::DirectOptions direct{options.run_id, 1, options.keep};
    // Rank 0 chooses and says which; a rank that chose for itself could see another newest one.
    std::string folder;
    if (gang.rank == 0) {
      PAWL_TRY(selection, checkpoint::select_newest(*store, options.run_id, {}));
      for (const auto& skipped : selection.skipped)
        std::fprintf(stderr, "pawl-train: skipped %s: %s\n", skipped.folder.c_str(),
                     skipped.why.c_str());
      if (selection.newest) folder = selection.newest->folder;
    }
    PAWL_TRY(folders, run.ring->all_gather(folder));
    if (const auto id = checkpoint::parse_folder(folders[0])) {
      PAWL_TRY(manifest, checkpoint::read_manifest(*store, folders[0]));
      const checkpoint::Found found{*id, folders[0], std::move(manifest)};
      PAWL_TRY(reader, checkpoint::Reader::open(*store, found));
      PAWL_TRY(loaded, load_checkpoint(found, reader, run));
      start = loaded;
      direct.attempt =
          id->attempt + 1;  // what follows is newer than all that was, whatever its step
    }
    sink = saving::make_direct_sink(*store, *run.ring, shard_of(run, gang), direct);
  }
  if (start.step == 0) {
    PAWL_TRY_VOID(
        take_weights(run.config, run.model->tensors(), run.arrays->parameters.span(), *run.ring));
  }
  run.process_start = process_start;
  print_plan(run, gang, start);
  Trainer trainer(parts_of(run, gang, session, *sink, pulse, clock), start);
  return trainer.run();
}

int exit_code_of(const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
      return api::kExitFatal;
    case Code::kUnavailable:
    case Code::kCancelled:
    case Code::kForbidden:
      return api::kExitRetry;
    default:
      return api::kExitUser;
  }
}

}  // namespace

int run_program(int argc, char** argv, Signals& signals, const Clock& clock) {
  const SteadyPoint process_start = clock.steady_now();
  const auto options = parse_options({argv + 1, argv + argc});
  if (!options) {
    std::fprintf(stderr, "pawl-train: %s\n", options.error().message.c_str());
    return api::kExitFatal;
  }
  if (options->is_help) {
    std::fputs(kUsage, stdout);
    return api::kExitDone;
  }
  Result<Outcome> outcome = Outcome::kDone;
  if (const auto channel = os::env(api::kEnvChannelFd)) {
    int fd = -1;
    std::from_chars(channel->data(), channel->data() + channel->size(), fd);
    outcome = run_launched(*options, fd, signals, clock, process_start);
  } else {
    outcome = run_standalone(*options, signals, clock, process_start);
  }
  if (!outcome) {
    std::fprintf(stderr, "pawl-train: %s\n", outcome.error().message.c_str());
    return exit_code_of(outcome.error());
  }
  return *outcome == Outcome::kDone ? api::kExitDone : api::kExitRetry;
}

}  // namespace pawl::trainer
