#include "common/api/channel.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

using namespace pawl;
using namespace pawl::api::channel;

TEST_CASE("channel: every message comes back as it went", "[trainer]") {
  const auto hello = decode_from_process(encode(FromProcess{Hello{1, 7, 65535, "hash"}}));
  REQUIRE(hello);
  CHECK(std::get<Hello>(*hello).rank == 7);
  CHECK(std::get<Hello>(*hello).data_port == 65535);
  CHECK(std::get<Hello>(*hello).config_hash == "hash");
  const auto sealed =
      decode_from_process(encode(FromProcess{Sealed{1, 40, 1ULL << 63, R"({"a": "ü\n"})"}}));
  REQUIRE(sealed);
  CHECK(std::get<Sealed>(*sealed).bytes == 1ULL << 63);
  CHECK(std::get<Sealed>(*sealed).manifest_json == R"({"a": "ü\n"})");
  const auto report =
      decode_from_process(encode(FromProcess{Report{3, 10, 0.1, 5.5, 1e9, 2, "note"}}));
  REQUIRE(report);
  CHECK(std::get<Report>(*report).loss == 0.1);
  CHECK(std::get<Report>(*report).tokens_per_second == 1e9);
  CHECK(std::get<Report>(*report).note == "note");
  CHECK(std::get<Report>(*report).has_loss);
  CHECK(std::get<Buffers>(*decode_from_process(encode(FromProcess{Buffers{12}}))).bytes == 12);
  CHECK(std::get<Done>(*decode_from_process(encode(FromProcess{Done{12}}))).step == 12);
  const auto parked = decode_from_process(encode(FromProcess{Parked{4, 31, "why"}}));
  REQUIRE(parked);
  CHECK(std::get<Parked>(*parked).generation == 4);
  CHECK(std::get<Parked>(*parked).step == 31);
  CHECK(std::get<Parked>(*parked).why == "why");
  CHECK(std::holds_alternative<Park>(*decode_to_process(encode(ToProcess{Park{}}))));
  Welcome sent{1, 2, 3, 4, 5, 6, "file:///c", "00ff", {{0, "10.0.0.1:1"}, {1, "[::1]:2"}}, 15};
  sent.base_generation = 4;
  sent.source_rank = 2;
  sent.can_park = true;
  const auto welcome = decode_to_process(encode(ToProcess{sent}));
  REQUIRE(welcome);
  const Welcome& got = std::get<Welcome>(*welcome);
  CHECK(got.rank == 1);
  CHECK(got.world_size == 2);
  CHECK(got.local_rank == 3);
  CHECK(got.attempt == 4);
  CHECK(got.generation == 5);
  CHECK(got.start_step == 6);
  CHECK(got.load_uri == "file:///c");
  CHECK(got.key == "00ff");
  REQUIRE(got.peers.size() == 2);
  CHECK(got.peers[1].rank == 1);
  CHECK(got.peers[1].address == "[::1]:2");
  CHECK(got.checkpoint_seconds == 15);
  CHECK(got.base_generation == 4);
  CHECK(got.source_rank == 2);
  CHECK(got.can_park);
  CHECK(std::get<Released>(*decode_to_process(encode(ToProcess{Released{1}}))).buffer == 1);
  CHECK(!std::get<Stop>(*decode_to_process(encode(ToProcess{Stop{false}}))).is_saving);
  CHECK(
      std::holds_alternative<BuffersReady>(*decode_to_process(encode(ToProcess{BuffersReady{}}))));
  CHECK(std::holds_alternative<CheckpointNow>(
      *decode_to_process(encode(ToProcess{CheckpointNow{}}))));
}

TEST_CASE("channel: a loss that is no number arrives as one that is none", "[trainer]") {
  Report report;
  report.loss = std::numeric_limits<double>::quiet_NaN();
  const auto got = decode_from_process(encode(FromProcess{report}));
  REQUIRE(got);
  CHECK(std::isnan(std::get<Report>(*got).loss));
}

TEST_CASE("channel: both sides may grow: unknown fields are ignored, unknown types are NotFound",
          "[trainer]") {
  CHECK(std::get<Done>(*decode_from_process(R"({"type": "done", "step": 3, "colour": "red"})"))
            .step == 3);
  CHECK(std::get<Done>(*decode_from_process(R"({"type": "done"})")).step == 0);
  CHECK(std::get<Report>(*decode_from_process(R"({"type": "report", "loss": 2})")).has_loss);
  CHECK(decode_from_process(R"({"type": "sing"})").error().code == Code::kNotFound);
  CHECK(decode_to_process(R"({"type": "done"})").error().code == Code::kNotFound);
}

TEST_CASE("channel: what is no message is Invalid and names the field", "[trainer]") {
  for (const char* text : {"", "[]", "{", "{}", R"({"type": 1})"}) {
    CHECK(decode_from_process(text).error().code == Code::kInvalid);
  }
  for (const char* text :
       {R"({"type": "hello", "dataPort": 65536})", R"({"type": "hello", "dataPort": -1})",
        R"({"type": "hello", "dataPort": "1"})", R"({"type": "hello", "dataPort": 1.5})"}) {
    const auto refused = decode_from_process(text);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kInvalid);
    CHECK(refused.error().message.find("dataPort") != std::string::npos);
  }
  CHECK(decode_to_process(R"({"type": "welcome", "peers": [1]})").error().code == Code::kInvalid);
}
