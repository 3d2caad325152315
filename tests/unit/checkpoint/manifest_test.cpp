// Names, the manifest's text, and the rules of writing.
#include "tests/unit/checkpoint/fixture.h"

namespace pawl::checkpoint {

TEST_CASE("checkpoint: folder names are read back, and only those that it writes", "[checkpoint]") {
  const std::vector<std::pair<CheckpointId, std::string>> cases = {
      {{1200, 2, 7}, "step-00001200-a02-g0007"},
      {{0, 0, 0}, "step-00000000-a00-g0000"},
      {{123'456'789'012, 345, 67'890}, "step-123456789012-a345-g67890"},
  };
  for (const auto& [id, name] : cases) {
    CHECK(folder_of(id) == name);
    CHECK(parse_folder(name) == id);
  }
  for (const char* name : {"", "step-1-a1-g1", "step-00001200-a02-g0007-x", "step-00001200-a02",
                           "bad-step-00001200-a02-g0007", "step--0001200-a02-g0007",
                           "step-000001200-a02-g0007", "step-00001200-a02-g0007 ",
                           "step-99999999999999999999-a02-g0007", "Step-00001200-a02-g0007"}) {
    INFO(name);
    CHECK_FALSE(parse_folder(name).has_value());
  }
  CHECK(shard_name(0, 1) == "shard-00000-of-00001.safetensors");
  CHECK(shard_name(3, 16) == "shard-00003-of-00016.safetensors");
}

TEST_CASE("checkpoint: a manifest survives its text", "[checkpoint]") {
  Manifest manifest =
      manifest_for({1200, 2, 7}, {{shard_name(0, 2), 10, 0xffffffff, std::string(64, 'a')},
                                  {shard_name(1, 2), 1ULL << 40, 0, std::string(64, '0')}});
  manifest.trainer_json = "{\"loss\":1e-7,\"text\":\"\\u00fc \xc3\xbc \\\" \n\"}";
  const auto decoded = decode_manifest(encode_manifest(manifest));
  REQUIRE(decoded.has_value());
  CHECK(decoded->digest.starts_with("sha256:"));
  manifest.digest = decoded->digest;
  CHECK(*decoded == manifest);
  CHECK(encode_manifest(*decoded) == encode_manifest(manifest));
}

TEST_CASE("checkpoint: every flipped bit and every cut of a manifest is seen", "[checkpoint]") {
  const std::string text =
      encode_manifest(manifest_for({1, 2, 3}, {{shard_name(0, 1), 10, 7, std::string(64, 'a')}}));
  REQUIRE(decode_manifest(text).has_value());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const auto decoded = decode_manifest(flipped);
      if (decoded || decoded.error().code != Code::kCorrupt)
        FAIL("bit " << bit << " of byte " << i);
    }
    if (decode_manifest(text.substr(0, i))) FAIL("cut at " << i);
  }
  CHECK_FALSE(decode_manifest(text + " ").has_value());
  CHECK_FALSE(decode_manifest(" " + text).has_value());
}

TEST_CASE("checkpoint: publish refuses what could not be loaded", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  const CheckpointId id{10, 1, 1};
  const auto shard = *write_shard(*process.store, id, 0, 1, bytes_of("data"));
  const auto code_after = [&](const std::function<void(Manifest&)>& change) {
    Manifest manifest = manifest_for(id, {shard});
    change(manifest);
    const auto published = publish(*process.store, manifest);
    return published ? std::string{"published"} : code_name(published.error().code);
  };
  CHECK(code_after([](Manifest& m) { m.shards.clear(); }) == "Invalid");
  CHECK(code_after([](Manifest& m) { m.trainer_json = "\xff"; }) == "Invalid");
  CHECK(code_after([](Manifest& m) { m.shards[0].file = "../../x"; }) == "Invalid");
  CHECK(code_after([](Manifest& m) { m.shards[0].sha256 = "?"; }) == "Invalid");
  CHECK(code_after([](Manifest& m) { m.world_size = 0; }) == "Invalid");
  CHECK(code_after([](Manifest& m) { m.shards[0].bytes = 3; }) == "Corrupt");
  CHECK(code_after([](Manifest& m) {
          m.shards = {{shard_name(0, 2), 4, 0, std::string(64, 'a')},
                      {shard_name(1, 2), 4, 0, std::string(64, 'a')}};
        }) == "NotFound");
  CHECK(newest(*process.store) == "-");
  CHECK(code_after([](Manifest&) {}) == "published");
  CHECK(newest(*process.store) == folder_of(id));
}

TEST_CASE("checkpoint: what is published is never written again", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  const CheckpointId id{10, 1, 1};
  // A leftover of a crash before publication is replaced.
  REQUIRE(write_shard(*process.store, id, 0, 2, bytes_of("leftover")).has_value());
  REQUIRE(save(*process.store, id).has_value());
  const auto again = write_shard(*process.store, id, 0, 2, bytes_of("other"));
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == Code::kAlreadyExists);
  CHECK(newest(*process.store) == folder_of(id));
}

TEST_CASE("checkpoint: of two publishers of one id one wins, at every interleaving",
          "[checkpoint]") {
  for (const bool is_nfs : {false, true}) {
    for (int other_at = 1;; ++other_at) {
      store::MemoryDisk disk;
      disk.refuses_no_replace = is_nfs;
      const auto first = start(disk), second = start(disk);
      const CheckpointId id{10, 1, 1};
      const auto shard = *write_shard(*first.store, id, 0, 1, bytes_of("data"));
      Manifest ours = manifest_for(id, {shard}), theirs = ours;
      ours.run_id = "ours", theirs.run_id = "theirs";
      std::optional<Result<Manifest>> other;
      int calls = 0;
      disk.before_call = [&](const std::string&) {
        if (++calls != other_at) return;
        disk.before_call = nullptr;
        other = publish(*second.store, theirs);
      };
      const auto published = publish(*first.store, ours);
      disk.before_call = nullptr;
      if (!other) break;
      INFO("the other one came before call " << other_at);
      REQUIRE(published.has_value() != other->has_value());
      const auto& lost = published ? *other : published;
      CHECK(lost.error().code == Code::kAlreadyExists);
      CHECK(select(*first.store).newest->manifest.run_id == (published ? "ours" : "theirs"));
    }
  }
}

}  // namespace pawl::checkpoint
