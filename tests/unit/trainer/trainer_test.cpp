#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "common/os/seqpacket.h"
#include "tests/unit/trainer/gang.h"

using namespace pawl;
using test::Rank;

namespace {

// A sink whose buffers are both on their way to storage, until somebody waits for them.
class BusySink final : public saving::CheckpointSink {
 public:
  explicit BusySink(const test::RecordingSession& session) : session_(session) {}
  bool is_saving() const override { return true; }
  bool is_ready() const override { return is_free_; }
  Status seal(const saving::TrainerState& state, const optim::TrainingArrays&) override {
    if (!is_free_) return fail(Code::kUnavailable, "no buffer is free");
    sealed.push_back(state.step);
    return {};
  }
  Status drain() override {
    if (!is_free_) was_validated = !session_.reports.back().note.empty();
    is_free_ = true;
    return {};
  }
  std::vector<std::int64_t> sealed;
  bool was_validated = false;  // when it was first waited for

 private:
  const test::RecordingSession& session_;
  bool is_free_ = false;
};

}  // namespace

TEST_CASE(
    "trainer: the loss falls, every confirmed step is reported once, and the run ends with a "
    "validation",
    "[trainer]") {
  const test::Folder folder;
  const TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  const auto ranks = test::run_gang(config, {});
  REQUIRE(ranks[0].outcome);
  const auto losses = test::losses_of(ranks[0]);
  REQUIRE(losses.size() == 50);
  CHECK(std::abs(losses.front() - std::log(256)) < 0.1);
  CHECK(losses.back() < 2.5);
  for (std::size_t i = 0; i < losses.size(); ++i)
    CHECK(ranks[0].session.reports[i].step == static_cast<std::int64_t>(i) + 1);
  CHECK(ranks[0].session.done_step == 50);
  CHECK(ranks[0].session.reports.back().note.find("bits/byte, bigram entropy") !=
        std::string::npos);
}

TEST_CASE("trainer: several ranks follow the curve of one, and hold equal bits among themselves",
          "[trainer]") {
  const test::Folder folder;
  const TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  const auto alone = test::run_gang(config, {});
  const auto expected = test::losses_of(alone[0]);
  for (const int world_size : {2, 3, 4}) {  // six micro-batches a step: 4 ranks have uneven shares
    const auto ranks = test::run_gang(config, {.world_size = world_size});
    for (const Rank& rank : ranks) REQUIRE(rank.outcome);
    const auto losses = test::losses_of(ranks[0]);
    REQUIRE(losses.size() == expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      CHECK(std::abs(losses[i] - expected[i]) < 1e-4 * expected[i]);
    for (const Rank& rank : ranks) CHECK(test::is_equal(*rank.arrays, *ranks[0].arrays));
  }
}

TEST_CASE("trainer: more ranks than micro-batches still train", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(10'000)));
  config.batch = {2, 1};
  config.steps = 5;
  const auto alone = test::run_gang(config, {});
  const auto ranks = test::run_gang(config, {.world_size = 3});
  for (const Rank& rank : ranks) REQUIRE(rank.outcome);
  CHECK(std::abs(test::losses_of(ranks[0]).back() - test::losses_of(alone[0]).back()) < 1e-4);
}

TEST_CASE("trainer: a resumed run has the bits of one that never stopped", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config =
      test::small_config(folder.write("text", test::small_text(3'000)));  // several epochs
  config.steps = 30;
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  for (const int world_size : {1, 2}) {
    const auto whole = test::run_gang(config, {.world_size = world_size});
    // Rank 0's launcher alone hears the order; the agreement brings it to the others.
    const auto stopped = test::run_gang(
        config, {.world_size = world_size, .checkpoint_uri = uri, .prepare = [](Rank& rank) {
                   if (rank.ring->rank() == 0)
                     test::order_at(rank, 12, {.is_stopping = true, .is_saving = true});
                 }});
    for (const Rank& rank : stopped) REQUIRE(rank.outcome == trainer::Outcome::kStopped);
    const auto resumed = test::run_gang(
        config, {.world_size = world_size, .checkpoint_uri = uri, .load_step = 13, .attempt = 2});
    for (const Rank& rank : resumed) REQUIRE(rank.outcome == trainer::Outcome::kDone);
    CHECK(resumed[0].start.cursor == 13 * 12);
    for (const Rank& rank : resumed) CHECK(test::is_equal(*rank.arrays, *whole[0].arrays));
    const auto expected = test::losses_of(whole[0]), got = test::losses_of(resumed[0]);
    REQUIRE(got.size() == 17);
    CHECK(std::equal(got.begin(), got.end(), expected.begin() + 13));
    std::filesystem::remove_all(folder.path() + "/checkpoints");
  }
}

TEST_CASE("trainer: what two ranks saved, one and three ranks load", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = 20;
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  const auto saved =
      test::run_gang(config, {.world_size = 2, .checkpoint_uri = uri, .prepare = [](Rank& rank) {
                                test::order_at(rank, 9, {.is_checkpoint_wanted = true});
                              }});
  for (const Rank& rank : saved) REQUIRE(rank.outcome);
  const auto expected = test::losses_of(saved[0]);
  for (const int world_size : {1, 3}) {
    const auto ranks = test::run_gang(config, {.world_size = world_size,
                                               .checkpoint_uri = uri,
                                               .load_step = 10,
                                               .attempt = 1 + world_size});
    for (const Rank& rank : ranks) REQUIRE(rank.outcome);
    const auto losses = test::losses_of(ranks[0]);
    REQUIRE(losses.size() == 10);
    for (std::size_t i = 0; i < losses.size(); ++i)
      CHECK(std::abs(losses[i] - expected[i + 10]) < 1e-4 * expected[i + 10]);
  }
  // The end of the run is a checkpoint, too.
  CHECK(checkpoint::open_checkpoint(
      uri + "/" + checkpoint::folder_of({20, 1, 1, checkpoint::job_tag("test")})));
}

TEST_CASE("trainer: a loss that is not finite ends the run on all ranks with what to change",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  const auto ranks = test::run_gang(config, {.world_size = 2, .prepare = [](Rank& rank) {
                                               if (rank.ring->rank() == 1)
                                                 rank.arrays->parameters.span().back() = NAN;
                                             }});
  for (const Rank& rank : ranks) {
    REQUIRE(!rank.outcome);
    CHECK(rank.outcome.error().message.find("Diverged: step 1 ") != std::string::npos);
    CHECK(rank.outcome.error().message.find("learning_rate") != std::string::npos);
  }
}

TEST_CASE("trainer: when a rank is gone the others report it and do not save", "[trainer]") {
  const test::Folder folder;
  const TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  const auto ranks = test::run_gang(config, {.world_size = 3, .prepare = [](Rank& rank) {
                                               if (rank.ring->rank() == 1)
                                                 rank.ring->abort("killed by the test");
                                             }});
  for (const Rank& rank : ranks) {
    REQUIRE(!rank.outcome);
    CHECK(rank.outcome.error().code == Code::kUnavailable);
  }
}

TEST_CASE(
    "gradient_reducer: every gradient is summed once, whatever the bucket and the order of "
    "announcements",
    "[trainer]") {
  for (const models::Index bucket : {1, 7, 64, 1000}) {
    struct Counting final : collective::Collective {
      int rank() const override { return 0; }
      int world_size() const override { return 2; }
      collective::Ticket start_all_reduce(std::span<float> values, int) override {
        for (float& value : values) value += 1;
        return {};
      }
      collective::Ticket start_all_reduce(std::span<std::int64_t>, int) override { return {}; }
      collective::Ticket start_reduce_scatter(std::span<float>, int) override { return {}; }
      collective::Ticket start_reduce_scatter(std::span<std::int64_t>, int) override { return {}; }
      collective::Ticket start_all_gather(std::span<float>, int) override { return {}; }
      collective::Ticket start_all_gather(std::span<std::byte>, int) override { return {}; }
      Status wait(collective::Ticket) override { return {}; }
      Status all_reduce(std::span<double>) override { return {}; }
      Status broadcast(std::span<std::byte>, int) override { return {}; }
      void abort(const std::string&) override {}
    } ring;
    std::vector<float> gradients(100);
    parallel::GradientReducer reducer(ring, gradients, {.bucket_elements = bucket});
    for (const models::Index first : {90, 41, 40, 3}) {
      reducer.ready(first);
      for (models::Index i = 0; i < first; ++i) CHECK(gradients[static_cast<std::size_t>(i)] == 0);
    }
    REQUIRE(reducer.finish());
    CHECK(gradients == std::vector<float>(100, 1));
    REQUIRE(reducer.finish());
    CHECK(gradients == std::vector<float>(100, 2));
  }
}

TEST_CASE("trainer: a rank waits for its storage when no peer waits for it any more", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = 3;
  BusySink* sink = nullptr;
  bool was_validated = false;
  std::vector<std::int64_t> sealed;
  test::GangOptions options;
  options.prepare = [&](Rank& rank) {
    auto busy = std::make_unique<BusySink>(rank.session);
    sink = busy.get();
    rank.sink = std::move(busy);
  };
  options.finished = [&](Rank&) {
    was_validated = sink->was_validated;
    sealed = sink->sealed;
  };
  const auto ranks = test::run_gang(config, options);
  REQUIRE(ranks[0].outcome);
  CHECK(was_validated);
  CHECK(sealed == std::vector<std::int64_t>{3});
}

TEST_CASE("trainer: the last step is stored by whoever goes on from memory behind it",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = 3;
  for (const bool is_stored : {false, true}) {
    std::vector<std::int64_t> sealed;
    BusySink* sink = nullptr;
    test::GangOptions options;
    options.is_stored = is_stored;
    options.prepare = [&](Rank& rank) {
      auto busy = std::make_unique<BusySink>(rank.session);
      sink = busy.get();
      rank.sink = std::move(busy);
      rank.start.step = config.steps;
      rank.session.reports.emplace_back();  // that of the generation before
    };
    options.finished = [&](Rank&) { sealed = sink->sealed; };
    const auto ranks = test::run_gang(config, options);
    REQUIRE(ranks[0].outcome);
    CHECK(sealed == (is_stored ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{3}));
  }
}

TEST_CASE("trainer: a rank that is wanted at rest does not finish its step", "[trainer]") {
  const test::Folder folder;
  const TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  test::GangOptions options;
  int asked = 0;
  options.prepare = [&](Rank& rank) { rank.session.parking = [&] { return ++asked > 10; }; };
  const auto ranks = test::run_gang(config, options);
  REQUIRE_FALSE(ranks[0].outcome);
  CHECK(ranks[0].outcome.error().code == Code::kUnavailable);
  CHECK(asked == 11);
}

TEST_CASE("trainer: it beats in every phase of every step, and ends in none", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.steps = 4;
  const auto memory = os::create_memfd("page", sizeof(api::PulsePage));
  REQUIRE(memory);
  const auto ranks = test::run_gang(
      config, {.checkpoint_uri = "file://" + folder.path() + "/store", .pulse_fd = memory->get()});
  REQUIRE(ranks[0].outcome);
  const auto mapped = os::SharedMemory::map(memory->get(), sizeof(api::PulsePage)).value();
  const auto& page = *reinterpret_cast<const api::PulsePage*>(mapped.bytes().data());
  const auto times = [&](api::Phase phase) {
    std::uint32_t all = 0;
    for (const auto& count : page.times[static_cast<std::size_t>(phase)]) all += count;
    return all;
  };
  const auto micros =
      static_cast<std::uint32_t>(config.steps * config.batch.global / config.batch.micro);
  CHECK(times(api::Phase::kData) == micros + times(api::Phase::kValidate));
  CHECK(times(api::Phase::kForward) == micros);
  CHECK(times(api::Phase::kBackward) > micros);  // layer by layer
  CHECK(times(api::Phase::kOptimizer) == config.steps);
  CHECK(times(api::Phase::kSnapshot) == 1);
  CHECK(times(api::Phase::kValidate) >= 1);
  CHECK(page.step == config.steps);
  CHECK(page.phase == static_cast<std::uint32_t>(api::Phase::kOther));
}
