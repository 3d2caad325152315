#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>

#include "common/os/seqpacket.h"
#include "launcher/channel/channel_set.h"
#include "peer_fixture.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::test;
namespace channel = pawl::api::channel;

namespace {

struct Line {
  Line()
      : channels(*poller, log, [this](int rank, const channel::FromProcess& message) {
          last_rank = rank;
          messages.push_back(message);
        }) {}
  void say(const os::Fd& end, const channel::FromProcess& message) {
    REQUIRE(os::send_packet(end.get(), channel::encode(message)).has_value());
  }
  os::Packet hear(const os::Fd& end) {
    auto packet = os::receive_packet(end.get(), std::chrono::milliseconds{2000});
    REQUIRE(packet.has_value());
    REQUIRE(packet->has_value());
    return std::move(**packet);
  }
  std::unique_ptr<Poller> poller = Poller::create().value();
  FakeClock clock;
  int warnings = 0;
  Log log{clock, [this](std::string_view) { ++warnings; }};
  ChannelSet channels;
  int last_rank = -1;
  std::vector<channel::FromProcess> messages;
};

}  // namespace

TEST_CASE("channel_set: messages both ways, in order, also those of a process that is gone",
          "[launcher]") {
  Line line;
  os::Fd process = line.channels.open(3).value().socket;
  line.say(process, channel::Hello{.data_port = 7});
  line.say(process, channel::Done{.step = 9});
  line.channels.send(3, channel::CheckpointNow{});
  CHECK(line.hear(process).text.find("checkpoint_now") != std::string::npos);
  process.reset();
  line.channels.drain(3);
  REQUIRE(line.messages.size() == 2);
  CHECK(line.last_rank == 3);
  CHECK(std::get<channel::Hello>(line.messages[0]).data_port == 7);
  CHECK(std::get<channel::Done>(line.messages[1]).step == 9);
  line.channels.send(3, channel::CheckpointNow{});  // to nobody: no harm
}

TEST_CASE("channel_set: buffers are shared, cannot shrink, and outlive the process", "[launcher]") {
  Line line;
  os::Fd process = line.channels.open(0).value().socket;
  CHECK_FALSE(line.channels.buffer(0, 0, 1).has_value());
  line.say(process, channel::Buffers{.bytes = 4096});
  line.channels.drain(0);
  os::Packet packet = line.hear(process);
  REQUIRE(packet.fds.size() == 2);
  CHECK(::ftruncate(packet.fds[1].get(), 10) != 0);
  REQUIRE(::pwrite(packet.fds[1].get(), "data", 4, 100) == 4);
  packet.fds.clear();
  process.reset();
  line.channels.drain(0);
  const os::Fd kept = line.channels.buffer(0, 1, 4096).value();
  std::string text(4, '\0');
  REQUIRE(::pread(kept.get(), text.data(), 4, 100) == 4);
  CHECK(text == "data");
}

TEST_CASE("channel_set: nonsense is ignored and said, never passed on", "[launcher]") {
  Line line;
  const os::Fd process = line.channels.open(0).value().socket;
  REQUIRE(os::send_packet(process.get(), "nonsense").has_value());
  line.say(process, channel::Sealed{.buffer = 0, .step = 1, .bytes = 10});
  line.say(process, channel::Sealed{.buffer = -1, .step = 1, .bytes = 0});
  line.channels.drain(0);
  CHECK(line.messages.empty());
  CHECK(line.warnings == 3);
}

TEST_CASE("channel_set: a process that does not read does not stop the launcher", "[launcher]") {
  Line line;
  const os::Fd process = line.channels.open(0).value().socket;
  for (int i = 0; i < 10'000 && line.warnings == 0; ++i)
    (void)line.channels.send(0, channel::CheckpointNow{});
  CHECK(line.warnings == 1);
}

TEST_CASE("channel_set: what cannot be sent is said to whoever sends it", "[launcher]") {
  Line line;
  os::Fd process = line.channels.open(0).value().socket;
  CHECK(line.channels.send(0, channel::Welcome{}).has_value());
  channel::Welcome large;
  large.peers.resize(10'000);
  CHECK(line.channels.send(0, large).error().code == Code::kInvalid);
  CHECK(line.warnings == 1);
  process.reset();
  line.channels.drain(0);
  CHECK(line.channels.send(0, channel::Welcome{}).error().code == Code::kNotFound);
}

TEST_CASE("channel_set: what a process writes on its page is seen, until another has its place",
          "[launcher]") {
  Line line;
  CHECK(line.channels.pulse(0) == nullptr);
  auto process = line.channels.open(0).value();
  CHECK(::ftruncate(process.pulse.get(), 0) != 0);  // a shorter one would kill the launcher
  const auto memory = os::SharedMemory::map(process.pulse.get(), sizeof(api::PulsePage)).value();
  auto* page = reinterpret_cast<api::PulsePage*>(memory.bytes().data());
  page->beats = 7;
  REQUIRE(line.channels.pulse(0) != nullptr);
  CHECK(line.channels.pulse(0)->beats == 7);
  const auto other = line.channels.open(0).value();
  CHECK(line.channels.pulse(0)->beats == 0);
}
