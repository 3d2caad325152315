// What is made of what NVIDIA's driver says, without a driver.
#include <catch2/catch_test_macros.hpp>

#include "launcher/gpu/gpu_health.h"
#include "launcher/gpu/nvml.h"
#include "launcher/gpu/xid.h"

using namespace pawl::launcher::gpu;

TEST_CASE("gpu: an XID is the program's, wear, or a fault of the machine, in words",
          "[launcher][gpu]") {
  for (const int xid : {8, 13, 31, 32, 43, 45, 68, 69, 109}) {
    INFO("XID " << xid);
    CHECK(meaning_of(static_cast<std::uint64_t>(xid)).kind == XidKind::kProgram);
  }
  for (const int xid : {63, 92, 121}) {
    INFO("XID " << xid);
    CHECK(meaning_of(static_cast<std::uint64_t>(xid)).kind == XidKind::kWear);
  }
  for (const int xid : {48, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143, 158}) {
    INFO("XID " << xid);
    CHECK(meaning_of(static_cast<std::uint64_t>(xid)).kind == XidKind::kFault);
  }
  CHECK(xid_text(3, 79) == "GPU 3 fell off the bus (XID 79)");
  // One that is not in the table, or that NVIDIA adds: nobody's node is taken for it.
  CHECK(meaning_of(999).kind == XidKind::kProgram);
  CHECK(xid_text(0, 999) == "GPU 0 reported XID 999");
}

TEST_CASE("gpu: no worker begins on a GPU that has to be reset first", "[launcher][gpu]") {
  const auto why = [](GpuState state) { return unfit(state).value_or(""); };
  CHECK(why({.number = 1, .uncorrected = 0, .corrected = 5'000, .celsius = 99, .slows_at = 90})
            .empty());
  CHECK(why({.number = 1}).empty());  // an old driver
  CHECK(why({.number = 1, .is_lost = true}) == "GPU 1 fell off the bus (XID 79)");
  CHECK(why({.number = 1, .needs_reset = true}) == "GPU 1 has to be reset before it can be used");
  CHECK(why({.number = 2, .is_repair_pending = true}) ==
        "GPU 2 has a bad row in its memory, and has to be reset to replace it");
  CHECK(why({.number = 2, .has_repair_failed = true}) ==
        "GPU 2 could not replace a bad row of its memory");
  CHECK(why({.number = 2, .uncorrected = 3}) ==
        "GPU 2 has had 3 memory errors that cannot be corrected, and was not reset since");
}

TEST_CASE("gpu: of those that the container was given none may be missing", "[launcher][gpu]") {
  CHECK(named_uuids("all").empty());
  CHECK(named_uuids("void").empty());
  CHECK(named_uuids("0,1").empty());
  const auto wanted = named_uuids("GPU-a,GPU-b,GPU-a");
  CHECK(wanted == std::vector<std::string>{"GPU-a", "GPU-b"});
  const std::vector<GpuState> both{{.number = 0, .uuid = "GPU-b"}, {.number = 1, .uuid = "GPU-a"}};
  CHECK_FALSE(unfit(both, wanted).has_value());
  CHECK(unfit({both[0]}, wanted).value_or("") ==
        "GPU-a was given to the container, and is not there");
  CHECK_FALSE(unfit({both[0]}, {}).has_value());
}

TEST_CASE("gpu: between two looks a fault is what is new", "[launcher][gpu]") {
  const GpuState before{.number = 4, .uncorrected = 1};
  GpuState after = before;
  CHECK_FALSE(fault_between(before, after).has_value());
  after.uncorrected = 2;
  CHECK(fault_between(before, after) == "GPU 4 had a memory error that cannot be corrected");
  after = before;
  after.has_repair_failed = true;
  CHECK(fault_between(before, after) == "GPU 4 could not replace a bad row of its memory (XID 64)");
  after = before;
  after.is_repair_pending = true;  // the program goes on, and the next one is not let in
  CHECK_FALSE(fault_between(before, after).has_value());
  CHECK(warnings_between(before, after).size() == 1);
  after.is_lost = true;
  after.uncorrected.reset();
  CHECK(fault_between(before, after) == "GPU 4 fell off the bus (XID 79)");
  CHECK_FALSE(fault_between(after, after).has_value());
}

TEST_CASE("gpu: heat, lower clocks and corrected errors are told when they begin",
          "[launcher][gpu]") {
  const GpuState cool{.number = 0, .corrected = 900, .celsius = 60, .slows_at = 90, .stops_at = 95};
  GpuState hot = cool;
  hot.celsius = 91;
  hot.throttle = nvml::kThrottleHwThermal | 0x1;  // … and idle
  hot.corrected = 1'001;
  const auto lines = warnings_between(cool, hot);
  CHECK(lines == std::vector<std::string>{"GPU 0 has 91 °C, and slows down at 90",
                                          "GPU 0 runs at half its clocks or less for its heat",
                                          "GPU 0 has corrected 1001 memory errors"});
  CHECK(warnings_between(hot, hot).empty());
  CHECK_FALSE(fault_between(cool, hot).has_value());
}
