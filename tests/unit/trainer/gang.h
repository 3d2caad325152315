// Whole training runs inside a test: a small text, and a gang of ranks as threads over the real TCP
// ring.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "common/os/process.h"
#include "common/os/real_clock.h"
#include "trainer-runtime/collective/ring.h"
#include "trainer-runtime/trainer/trainer.h"

namespace pawl::test {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("pawl-trainer-" + os::random_hex(8))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// Words drawn by a fixed rule: a model learns something from it in a few steps.
inline std::string small_text(std::size_t bytes) {
  const char* const words[] = {"the ", "river ",   "runs ", "under ",
                               "a ",   "bridge, ", "and ",  "rain\n"};
  Random random(11);
  std::string text;
  while (text.size() < bytes) text += words[random.below(8)];
  return text.substr(0, bytes);
}

inline TrainerConfig small_config(const std::string& path) {
  TrainerConfig config;
  config.model = {
      .kind = "gpt", .layers = 2, .heads = 2, .channels = 32, .context = 32, .vocabulary = 256};
  config.data.paths = {path};
  // Even: equal numbers of ranks give equal bits, however busy the machine is.
  config.batch = {12, 2, "even"};
  config.optimizer.learning_rate = 3e-3;
  config.schedule.warmup_steps = 5;
  config.steps = 50;
  config.validate_batches = 4;
  return config;
}

// Remembers what is reported; orders what the test says for a step.
class RecordingSession final : public trainer::Session {
 public:
  std::function<trainer::Orders(std::int64_t confirmed_step)> orders = [](std::int64_t) {
    return trainer::Orders{};
  };
  std::function<bool()> parking = [] { return false; };
  std::vector<api::channel::Report> reports;
  std::optional<std::int64_t> done_step;

  Result<trainer::Orders> poll() override { return orders(polls_++); }
  bool is_parking() const override { return parking(); }
  Status report(const api::channel::Report& report) override {
    reports.push_back(report);
    return {};
  }
  Status done(std::int64_t step) override {
    done_step = step;
    return {};
  }

 private:
  std::int64_t polls_ = 0;
};

// Everything of one rank, alive until the test has looked at it.
struct Rank {
  std::unique_ptr<models::Model<float>> model;
  std::unique_ptr<optim::TrainingArrays> arrays;
  std::unique_ptr<collective::Collective> ring;
  std::unique_ptr<saving::CheckpointSink> sink;
  RecordingSession session;
  saving::TrainerState start;
  Result<trainer::Outcome> outcome = trainer::Outcome::kDone;
};

struct GangOptions {
  int world_size = 1;
  std::string checkpoint_uri;  // "": none
  std::int64_t load_step = 0;  // of attempt 1; 0: fresh
  std::int64_t attempt = 1;
  bool is_stored = true;  // the start
  int pulse_fd = -1;      // of a gang of one
  std::function<void(Rank&)> prepare = [](Rank&) {};
  std::function<void(Rank&)> finished = [](Rank&) {};
};

inline void run_rank(Rank& rank, const TrainerConfig& config, const GangOptions& options) {
  const RealClock clock;
  const auto corpus = data::TextCorpus::open(config.data, config.model.context);
  rank.model = models::make_model<float>(config);
  rank.arrays = std::make_unique<optim::TrainingArrays>(rank.model->parameter_count());
  models::initialise(rank.model->tensors(), config.seed, rank.arrays->parameters.span());
  rank.start = {0, 0, config.seed, config_hash(config), model_hash(config)};
  std::unique_ptr<store::Store> store;
  rank.sink = saving::make_no_sink();
  if (!options.checkpoint_uri.empty()) {
    store = *store::open_store(options.checkpoint_uri);
    rank.sink = saving::make_direct_sink(
        *store, *rank.ring,
        saving::Shard(rank.model->tensors(), rank.ring->rank(), rank.ring->world_size()),
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
    if (const Status loaded =
            saving::load_arrays(opened->reader, rank.model->tensors(), *rank.arrays);
        !loaded) {
      rank.outcome = tl::make_unexpected(loaded.error());
      return;
    }
  }
  options.prepare(rank);
  trainer::Pulse pulse{clock, options.pulse_fd};
  trainer::Trainer trainer({config, *corpus, *rank.model, *rank.arrays, *rank.ring, *rank.sink,
                            rank.session, pulse, clock, 100'000, options.is_stored},
                           rank.start);
  rank.outcome = trainer.run();
  options.finished(rank);
  rank.sink.reset();  // it borrows the store
}

inline std::vector<Rank> run_gang(const TrainerConfig& config, const GangOptions& options) {
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

inline bool is_equal(const optim::TrainingArrays& a, const optim::TrainingArrays& b) {
  const auto same = [](const device::Buffer<float>& x, const device::Buffer<float>& y) {
    return x.size() == y.size() && std::equal(x.data(), x.data() + x.size(), y.data());
  };
  return same(a.parameters, b.parameters) && same(a.moment1, b.moment1) &&
         same(a.moment2, b.moment2);
}

inline std::vector<double> losses_of(const Rank& rank) {
  std::vector<double> losses;
  for (const auto& report : rank.session.reports) {
    const bool is_repeated = report.note.find("validation: ") != std::string::npos;
    if (!is_repeated) losses.push_back(report.loss);
  }
  return losses;
}

inline void order_at(Rank& rank, std::int64_t poll, trainer::Orders orders) {
  rank.session.orders = [=](std::int64_t now) { return now == poll ? orders : trainer::Orders{}; };
}

}  // namespace pawl::test
