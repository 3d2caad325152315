// A training process for the tests: speaks the channel as a trainer does, counts steps instead of
// training. Arguments: total steps, milliseconds a step, steps between checkpoints, and optionally
// the global rank and step at which it exits 3, or with a fifth number falls silent in the first
// generation: it stops beating, and obeys nobody. On Stop it seals step 1000 (all ranks the same,
// as a real gang would agree), and exits 75. On Park it keeps its step in memory until the next
// generation.
#include <sys/mman.h>
#include <unistd.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "common/api/channel.h"
#include "common/api/contract.h"
#include "common/api/pulse.h"
#include "common/os/process.h"
#include "common/os/seqpacket.h"
#include "common/os/shared_memory.h"

namespace {

using namespace pawl;
using namespace pawl::api::channel;

constexpr std::int64_t kStopStep = 1000;

class Trainer {
 public:
  explicit Trainer(std::vector<int> numbers) : numbers_(std::move(numbers)) {
    fd_ = std::stoi(os::env(api::kEnvChannelFd).value());
    const int page = std::stoi(os::env(api::kEnvPulseFd).value());
    if (numbers_.size() < 6) return;
    memory_ = os::SharedMemory::map(page, sizeof(api::PulsePage)).value();
    page_ = reinterpret_cast<api::PulsePage*>(memory_.bytes().data());
  }

  int run() {
    say(Hello{
        .data_port = static_cast<std::uint16_t>(40'000 + std::stoi(os::env("LOCAL_RANK").value())),
        .config_hash = "same"});
    while (welcome_.world_size == 0) hear(std::chrono::milliseconds{10'000});
    while (true) {
      if (const auto code = train()) return *code;
      const std::int64_t generation = welcome_.generation;
      say(Parked{.generation = generation, .step = step_});
      while (welcome_.generation == generation) {
        hear(std::chrono::milliseconds{10'000});
        if (is_stopping_) return api::kExitRetry;
      }
    }
  }

 private:
  // Its exit code, or nothing when it has parked.
  std::optional<int> train() {
    std::printf("rank %d of %d starts at %lld, %zu peers, key of %zu, pid %d\n", welcome_.rank,
                welcome_.world_size, static_cast<long long>(welcome_.start_step),
                welcome_.peers.size(), welcome_.key.size(), ::getpid());
    std::fflush(stdout);
    if (buffers_.empty()) say(Buffers{.bytes = 4096});
    while (buffers_.empty()) hear(std::chrono::milliseconds{10'000});
    step_ = welcome_.start_step;
    while (step_ < numbers_[0]) {
      const std::int64_t step = step_ + 1;
      beat(step);
      hear(std::chrono::milliseconds{numbers_[1]});
      if (is_stopping_) return stop();
      if (is_parking_) return std::nullopt;
      step_ = step;
      if (numbers_.size() > 4 && welcome_.rank == numbers_[3] && step == numbers_[4]) {
        if (numbers_.size() == 5) {
          std::fprintf(stderr, "rank %d has had enough\n", welcome_.rank);
          return 3;
        }
        if (welcome_.generation == 1) hang();
      }
      report(step);
      if (step % numbers_[2] == 0 || is_asked_) seal(step);
      is_asked_ = false;
    }
    say(Done{.step = numbers_[0]});
    return 0;
  }

  void beat(std::int64_t step) {
    if (page_ == nullptr) return;
    page_->step = step;
    page_->phase = static_cast<std::uint32_t>(api::Phase::kForward);
    api::count_time(*page_, api::Phase::kForward, std::chrono::milliseconds{1});
    ++page_->beats;
  }

  [[noreturn]] static void hang() {
    while (true) ::pause();
  }

  void say(const FromProcess& message) { (void)os::send_packet(fd_, encode(message)); }

  void hear(std::chrono::milliseconds wait) {
    auto packet = os::receive_packet(fd_, wait);
    if (!packet) std::exit(api::kExitRetry);  // the launcher is gone
    if (!*packet) return;
    const auto message = decode_to_process((*packet)->text);
    if (!message) return;
    if (const auto* welcome = std::get_if<Welcome>(&*message)) {
      welcome_ = *welcome;
      is_parking_ = false;
    }
    if (std::holds_alternative<Park>(*message)) is_parking_ = true;
    if (std::holds_alternative<BuffersReady>(*message)) {
      buffers_ = std::move((*packet)->fds);
      is_free_ = {true, true};
    }
    if (const auto* released = std::get_if<Released>(&*message))
      is_free_[static_cast<std::size_t>(released->buffer)] = true;
    if (std::holds_alternative<CheckpointNow>(*message)) is_asked_ = true;
    if (std::holds_alternative<Stop>(*message)) is_stopping_ = true;
  }

  void report(std::int64_t step) {
    if (welcome_.rank != 0) return;
    say(Report{.step = step,
               .total_steps = numbers_[0],
               .loss = 1.0 / static_cast<double>(step),
               .samples_per_second = 5});
  }

  void seal(std::int64_t step) {
    while (!is_free_[0] && !is_free_[1]) hear(std::chrono::milliseconds{1000});
    const int buffer = is_free_[0] ? 0 : 1;
    is_free_[static_cast<std::size_t>(buffer)] = false;
    const std::string file = std::string{"\x08\0\0\0\0\0\0\0", 8} + "{}      ";
    const int memory_fd = buffers_[static_cast<std::size_t>(buffer)].get();
    void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    std::memcpy(memory, file.data(), file.size());
    ::munmap(memory, 4096);
    say(Sealed{.buffer = buffer,
               .step = step,
               .bytes = file.size(),
               .manifest_json = welcome_.rank == 0 ? R"({"cursor":1})" : ""});
  }

  int stop() {
    seal(kStopStep);
    report(kStopStep);
    return api::kExitRetry;
  }

  std::vector<int> numbers_;
  int fd_ = -1;
  os::SharedMemory memory_;
  api::PulsePage* page_ = nullptr;
  Welcome welcome_{.world_size = 0};
  std::vector<os::Fd> buffers_;
  std::array<bool, 2> is_free_{};
  bool is_asked_ = false, is_stopping_ = false, is_parking_ = false;
  std::int64_t step_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> numbers;
  for (int i = 1; i < argc; ++i) numbers.push_back(std::atoi(argv[i]));
  return Trainer{std::move(numbers)}.run();
}
