// The real watch with its thread, over a stub of NVIDIA's library (nvml_stub.cpp).
#include "launcher/gpu/gpu_watch.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/clock.h"

using namespace pawl;
using namespace pawl::launcher::gpu;
using std::chrono::milliseconds;

namespace {

// The machine: a file that the stub reads.
class Machine {
 public:
  explicit Machine(const std::string& text) {
    std::string path = "/tmp/pawl-nvml-XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    folder_ = path;
    ::setenv("PAWL_NVML_STUB", (folder_ + "/state").c_str(), 1);
    be(text);
  }
  ~Machine() { std::filesystem::remove_all(folder_); }
  // At once, as the stub may be reading.
  void be(const std::string& text) const {
    std::ofstream(folder_ + "/next") << text;
    std::filesystem::rename(folder_ + "/next", folder_ + "/state");
  }

 private:
  std::string folder_;
};

struct Heard {
  std::mutex mutex;
  std::vector<std::string> checks, faults, program_errors, lines;
  std::string all() {
    const std::lock_guard lock(mutex);
    std::string text;
    for (const auto* list : {&checks, &faults, &program_errors, &lines})
      for (const std::string& one : *list) text += one + "\n";
    return text;
  }
  std::size_t count(std::vector<std::string> Heard::* list) {
    const std::lock_guard lock(mutex);
    return (this->*list).size();
  }
  void add(std::vector<std::string> Heard::* list, const std::string& what) {
    const std::lock_guard lock(mutex);
    (this->*list).push_back(what);
  }
};

struct Watched {
  explicit Watched(const std::string& library, GpuWatchOptions options = {}) {
    auto nvml = Nvml::open(library);
    REQUIRE(nvml.has_value());
    options.wait = milliseconds{5};
    options.look_every = milliseconds{10};
    watch = std::make_unique<GpuWatch>(
        std::move(*nvml), options, log,
        GpuWatchEvents{
            .on_checked = [this](const std::string& what) { heard.add(&Heard::checks, what); },
            .on_fault = [this](const std::string& what) { heard.add(&Heard::faults, what); },
            .on_program_error =
                [this](const std::string& what) { heard.add(&Heard::program_errors, what); }});
  }
  bool wait_for(std::vector<std::string> Heard::* list, std::size_t count = 1) {
    for (int i = 0; i < 1'000 && heard.count(list) < count; ++i)
      std::this_thread::sleep_for(milliseconds{10});
    return heard.count(list) >= count;
  }
  void look() const {
    std::atomic<bool> is_done{false};
    watch->look([&] { is_done = true; });
    while (!is_done) std::this_thread::sleep_for(milliseconds{1});
  }

  Heard heard;
  FakeClock clock;
  Log log{clock, [this](std::string_view line) { heard.add(&Heard::lines, std::string{line}); }};
  std::unique_ptr<GpuWatch> watch;
};

const char* const kTwo = "gpu GPU-a celsius 50\ngpu GPU-b celsius 50\n";

}  // namespace

TEST_CASE("gpu_watch: without NVIDIA's library there is none", "[launcher][gpu]") {
  const auto nvml = Nvml::open("/nowhere/libnvidia-ml.so.1");
  REQUIRE_FALSE(nvml.has_value());
  CHECK(nvml.error().code == Code::kNotFound);
}

TEST_CASE("gpu_watch: tells once that all is well, and then what fails", "[launcher][gpu]") {
  const Machine machine(kTwo);
  Watched one(PAWL_NVML_STUB_PATH);
  REQUIRE(one.wait_for(&Heard::checks));
  CHECK(one.heard.checks.front().empty());
  SECTION("an XID of the machine") {
    machine.be(std::string(kTwo) + "event 1 8 79\n");
    REQUIRE(one.wait_for(&Heard::faults));
    CHECK(one.heard.faults.front() == "GPU 1 fell off the bus (XID 79)");
    machine.be(std::string(kTwo) + "event 1 8 79\nevent 0 8 48\n");
    one.look();
    one.look();
    CHECK(one.heard.count(&Heard::faults) == 1);  // one is enough
  }
  SECTION("a double-bit error has an event of its own") {
    machine.be(std::string(kTwo) + "event 0 2 0\n");
    REQUIRE(one.wait_for(&Heard::faults));
    CHECK(one.heard.faults.front() ==
          "GPU 0 had a memory error that cannot be corrected (double-bit ECC) (XID 48)");
  }
  SECTION("counters, without an event") {
    machine.be("gpu GPU-a\ngpu GPU-b uncorrected 1\n");
    REQUIRE(one.wait_for(&Heard::faults));
    CHECK(one.heard.faults.front() == "GPU 1 had a memory error that cannot be corrected");
  }
  SECTION("a GPU that does not answer any more") {
    machine.be("gpu GPU-a lost 1\ngpu GPU-b\n");
    REQUIRE(one.wait_for(&Heard::faults));
    CHECK(one.heard.faults.front() == "GPU 0 fell off the bus (XID 79)");
  }
  CHECK(one.heard.count(&Heard::checks) == 1);
  CHECK(one.heard.count(&Heard::program_errors) == 0);
}

TEST_CASE("gpu_watch: what is the program's, or wear, is no fault", "[launcher][gpu]") {
  const Machine machine(kTwo);
  Watched one(PAWL_NVML_STUB_PATH);
  REQUIRE(one.wait_for(&Heard::checks));
  machine.be(
      "gpu GPU-a celsius 92 throttle 64 pending 1\ngpu GPU-b celsius 50\n"
      "event 0 8 63\nevent 1 8 31\n");
  REQUIRE(one.wait_for(&Heard::program_errors));
  CHECK(one.heard.program_errors.front() ==
        "GPU 1 was asked for memory that the program does not have (XID 31)");
  one.look();
  INFO(one.heard.all());
  CHECK(
      one.heard.all().find("GPU 0 replaces a bad row of its memory with the next reset (XID 63)") !=
      std::string::npos);
  CHECK(one.heard.all().find("slows down at 90") != std::string::npos);
  CHECK(one.heard.all().find("half its clocks") != std::string::npos);
  CHECK(one.heard.count(&Heard::faults) == 0);
}

TEST_CASE("gpu_watch: a look answers after what it found was told", "[launcher][gpu]") {
  const Machine machine(kTwo);
  Watched one(PAWL_NVML_STUB_PATH);
  REQUIRE(one.wait_for(&Heard::checks));
  machine.be(std::string(kTwo) + "event 1 8 94\n");
  one.look();
  CHECK(one.heard.count(&Heard::faults) == 1);
}

TEST_CASE("gpu_watch: who may not begin here is told so", "[launcher][gpu]") {
  const auto check = [](const std::string& state, std::vector<std::string> uuids = {}) {
    const Machine machine(state);
    Watched one(PAWL_NVML_STUB_PATH, {.uuids = std::move(uuids)});
    REQUIRE(one.wait_for(&Heard::checks));
    return one.heard.checks.front();
  };
  CHECK(check("gpu GPU-a pending 1\n") ==
        "GPU 0 has a bad row in its memory, and has to be reset to replace it");
  CHECK(check("gpu GPU-a uncorrected 2\n").starts_with("GPU 0 has had 2 memory errors"));
  CHECK(check("gpu GPU-a\n", {"GPU-a", "GPU-b"}) ==
        "GPU-b was given to the container, and is not there");
  // Another worker's GPU is no matter of this one.
  CHECK(check("gpu GPU-a pending 1\ngpu GPU-b\n", {"GPU-b"}).empty());
  // A driver that is not there matters to who was given a GPU.
  CHECK(check("init 9\n").empty());
  CHECK(check("init 9\n", {"GPU-a"}) == "the NVIDIA driver does not answer: Driver Not Loaded");
}

TEST_CASE("gpu_watch: another worker's GPU fails beside ours", "[launcher][gpu]") {
  const Machine machine(kTwo);
  Watched one(PAWL_NVML_STUB_PATH, {.uuids = {"GPU-b"}});
  REQUIRE(one.wait_for(&Heard::checks));
  machine.be("gpu GPU-a uncorrected 4\ngpu GPU-b\nevent 0 8 79\n");
  one.look();
  one.look();
  CHECK(one.heard.count(&Heard::faults) == 0);
  machine.be("gpu GPU-a uncorrected 4\ngpu GPU-b\nevent 0 8 79\nevent 1 8 62\n");
  REQUIRE(one.wait_for(&Heard::faults));
  CHECK(one.heard.faults.front() == "GPU 1 stopped in its power management (XID 62)");
}

TEST_CASE("gpu_watch: an old driver tells less, and is no fault", "[launcher][gpu]") {
  const Machine machine("gpu GPU-a uncorrected 4 pending 1\n");
  Watched one(PAWL_NVML_OLD_STUB_PATH);
  REQUIRE(one.wait_for(&Heard::checks));
  CHECK(one.heard.checks.front().empty());
  machine.be("gpu GPU-a lost 1\n");
  REQUIRE(one.wait_for(&Heard::faults));
}
