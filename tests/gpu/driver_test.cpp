// The launcher's watch of GPUs over NVIDIA's own library and driver, not the stub of the unit
// tests.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <iostream>
#include <mutex>
#include <thread>

#include "common/base/clock.h"
#include "launcher/gpu/gpu_watch.h"
#include "tests/gpu/broken_program.h"

using namespace pawl;
using namespace pawl::launcher::gpu;
using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

namespace {

std::unique_ptr<Nvml> driver() {
  auto nvml = Nvml::open("");
  if (!nvml) SKIP("no driver of NVIDIA's: " << nvml.error().message);
  return std::move(*nvml);
}

std::vector<GpuState> all_gpus() {
  const auto nvml = driver();
  REQUIRE(nvml->start({}).has_value());
  return nvml->look();
}

// What a watch tells, and when it was told first.
class Heard {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    told_.push_back(what);
  }
  std::vector<std::string> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  bool wait_for_one() {
    for (int i = 0; i < 1'000 && told().empty(); ++i) std::this_thread::sleep_for(milliseconds{10});
    return !told().empty();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> told_;
};

}  // namespace

TEST_CASE("driver: says of a GPU that is well all that is asked", "[launcher][gpu]") {
  const auto gpus = all_gpus();
  REQUIRE_FALSE(gpus.empty());
  for (const GpuState& gpu : gpus) {
    INFO("GPU " << gpu.number << " " << gpu.uuid);
    CHECK(gpu.uuid.starts_with("GPU-"));
    REQUIRE(gpu.celsius.has_value());
    CHECK((*gpu.celsius > 5 && *gpu.celsius < 110));
    CHECK((gpu.slows_at.has_value() && *gpu.slows_at > 50 && *gpu.slows_at < 130));
    CHECK((gpu.stops_at.has_value() && *gpu.stops_at >= *gpu.slows_at));
    CHECK(gpu.uncorrected == 0);
    CHECK(gpu.corrected.has_value());
    CHECK_FALSE(unfit(gpu).has_value());
    std::cout << "GPU " << gpu.number << ": " << *gpu.celsius << " °C, slows at "
              << gpu.slows_at.value_or(0) << ", stops at " << gpu.stops_at.value_or(0) << ", "
              << gpu.corrected.value_or(0) << " corrected errors, throttle reasons " << gpu.throttle
              << "\n";
  }
}

TEST_CASE("driver: a GPU is found by its UUID, and one that is not there is missed",
          "[launcher][gpu]") {
  const std::string uuid = all_gpus().front().uuid;
  const auto nvml = driver();
  REQUIRE(nvml->start({uuid, "GPU-of-another-machine"}).has_value());
  const auto found = nvml->look();
  REQUIRE(found.size() == 1);
  CHECK(found.front().uuid == uuid);
  CHECK_FALSE(unfit(found, {uuid}).has_value());
  CHECK(unfit(found, {uuid, "GPU-of-another-machine"}).value_or("") ==
        "GPU-of-another-machine was given to the container, and is not there");
}

TEST_CASE("driver: where nothing happens a wait ends without an event", "[launcher][gpu]") {
  const auto nvml = driver();
  REQUIRE(nvml->start({}).has_value());
  const auto begun = std::chrono::steady_clock::now();
  constexpr int kLooks = 20;
  for (int i = 0; i < kLooks; ++i) nvml->look();
  const Seconds looks = std::chrono::steady_clock::now() - begun;
  std::cout << "a look: " << looks.count() / kLooks * 1'000 << " ms\n";
  CHECK_FALSE(nvml->wait(100).has_value());
}

TEST_CASE("driver: a kernel that breaks is told as the program's error, not the machine's",
          "[launcher][gpu][G2]") {
  Heard checked, faults, errors, lines;
  FakeClock clock;
  Log log{clock, [&lines](std::string_view line) { lines.add(std::string{line}); }};
  const GpuWatch watch(driver(), {}, log,
                       {.on_checked = [&](const std::string& what) { checked.add(what); },
                        .on_fault = [&](const std::string& what) { faults.add(what); },
                        .on_program_error = [&](const std::string& what) { errors.add(what); }});
  REQUIRE(checked.wait_for_one());
  CHECK(checked.told().front().empty());
  const auto begun = std::chrono::steady_clock::now();
  const auto broken = test::run_broken_program();
  if (broken == test::Broken::kNoCuda) SKIP("CUDA's driver does not run a kernel here");
  REQUIRE(broken == test::Broken::kYes);
  const bool is_told = errors.wait_for_one();
  const Seconds taken = std::chrono::steady_clock::now() - begun;
  for (const std::string& line : lines.told()) std::cout << line;
  REQUIRE(is_told);
  std::cout << errors.told().front() << ", " << taken.count() << " s after the program began\n";
  CHECK(errors.told().front() ==
        "GPU 0 was asked for memory that the program does not have (XID 31)");
  CHECK(faults.told().empty());
  CHECK_FALSE(unfit(all_gpus(), {}).has_value());
}
