#include "tests/unit/trainer/gang.h"

#include <algorithm>
#include <thread>

#include "common/os/real_clock.h"
#include "trainer-runtime/parallel/sharding.h"
#include "trainer-runtime/trainer/first_parameters.h"

namespace pawl::test {
namespace {

void run_rank(Rank& rank, TrainerConfig config, const GangOptions& options) {
  const RealClock clock;
  options.configure(config, rank.ring->rank());
  const auto dataset = data::open_dataset(config);
  if (!dataset) {
    rank.outcome = tl::make_unexpected(dataset.error());
    return;
  }
  rank.model = models::make_model<float>(config);
  const models::Index count = rank.model->parameter_count();
  const int number = rank.ring->rank(), world_size = rank.ring->world_size();
  rank.arrays = std::make_unique<optim::TrainingArrays>(
      config, count,
      config.is_sharded() ? parallel::ownership_of(count, number, world_size)
                          : optim::Ownership(count));
  models::initialise(rank.model->tensors(), config.seed, rank.arrays->parameters.span());
  rank.start = {.seed = config.seed,
                .config_hash = config_hash(config),
                .model_hash = model_hash(config),
                .optimizer = config.optimizer.kind};
  std::unique_ptr<store::Store> store;
  rank.sink = saving::make_no_sink();
  if (!options.checkpoint_uri.empty()) {
    store = *store::open_store(options.checkpoint_uri);
    const auto states = saving::stored_arrays(config);
    saving::Shard shard = config.is_sharded()
                              ? saving::Shard(rank.model->tensors(), states, rank.arrays->owned)
                              : saving::Shard(rank.model->tensors(), states, number, world_size);
    rank.sink = saving::make_direct_sink(*store, *rank.ring, std::move(shard),
                                         {"test", options.attempt, 100});
  }
  if (options.load_step > 0) {
    const auto opened = checkpoint::open_checkpoint(
        options.checkpoint_uri + "/" +
        checkpoint::folder_of({options.load_step, 1, 1, checkpoint::job_tag("test")}));
    if (!opened) {
      rank.outcome = tl::make_unexpected(opened.error());
      return;
    }
    rank.start = *saving::decode_state(opened->found.manifest.trainer_json);
    const auto loaded = saving::load_arrays(opened->reader, rank.model->tensors(),
                                            optim::state_names(config.optimizer), *rank.arrays);
    if (!loaded) {
      rank.outcome = tl::make_unexpected(loaded.error());
      return;
    }
    if (!*loaded) rank.start.optimizer_step = 0;
    rank.start.optimizer = config.optimizer.kind;
  } else if (const Status taken = trainer::take_weights(config, rank.model->tensors(),
                                                        rank.arrays->parameters.span(), *rank.ring);
             !taken) {
    rank.outcome = tl::make_unexpected(taken.error());
    return;
  }
  options.prepare(rank);
  trainer::Pulse pulse{clock, options.pulse_fd};
  trainer::Trainer trainer(
      {.config = config,
       .dataset = **dataset,
       .model = *rank.model,
       .arrays = *rank.arrays,
       .ring = *rank.ring,
       .sink = *rank.sink,
       .session = rank.session,
       .pulse = pulse,
       .clock = clock,
       .checkpoint_seconds = 100'000,
       .is_stored = options.is_stored,
       .print = [&rank](const std::string& line) { rank.lines.push_back(line); },
       .deliver = [&] { return options.deliver(rank); }},
      rank.start);
  rank.outcome = trainer.run();
  options.finished(rank);
  rank.sink.reset();  // it borrows the store
}

}  // namespace

std::vector<Rank> run_gang(const TrainerConfig& config, const GangOptions& options) {
  const auto count = static_cast<std::size_t>(options.world_size);
  std::vector<Rank> ranks(count);
  std::vector<os::Fd> listeners;
  collective::RingOptions ring{.world_size = options.world_size, .generation = 1, .key = "key"};
  for (std::size_t i = 0; i < count; ++i) {
    listeners.push_back(*os::listen_tcp("127.0.0.1", 0));
    ring.peers.push_back(os::join_host_port("127.0.0.1", *os::local_port(listeners.back().get())));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      collective::RingOptions mine = ring;
      mine.rank = static_cast<int>(i);
      ranks[i].ring =
          count == 1 ? collective::make_self() : *collective::make_ring(mine, listeners[i]);
      run_rank(ranks[i], config, options);
      ranks[i].ring.reset();  // the others see that this rank is gone
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

bool is_equal(const optim::TrainingArrays& a, const optim::TrainingArrays& b) {
  return std::ranges::equal(
      a.spans(), b.spans(),
      [](std::span<const float> x, std::span<const float> y) { return std::ranges::equal(x, y); });
}

std::vector<double> losses_of(const Rank& rank) {
  std::vector<double> losses;
  for (const auto& report : rank.session.reports) {
    const bool is_repeated = report.note.find("validation: ") != std::string::npos;
    if (!is_repeated) losses.push_back(report.loss);
  }
  return losses;
}

void order_at(Rank& rank, std::int64_t poll, trainer::Orders orders) {
  rank.session.orders = [=](std::int64_t now) { return now == poll ? orders : trainer::Orders{}; };
}

}  // namespace pawl::test
