// The manifest's text. The digest is the last field and covers the exact bytes before it, so that
// any flipped bit anywhere in the file is seen, whatever a JSON parser would make of it.

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/checkpoint/checkpoint.h"

namespace pawl::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;
constexpr std::string_view kDigestField = ",\n \"digest\": \"";
constexpr std::string_view kEnd = "\"\n}\n";
constexpr std::string_view kAlgorithm = "sha256:";

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<Manifest> manifest_of(const Json& json) {
  if (!json.is_object()) return fail(Code::kCorrupt, "the manifest is not a JSON object");
  const int version = json.at("formatVersion").get<int>();
  if (version != kFormatVersion) {
    return fail(Code::kInvalid, "format version " + std::to_string(version) +
                                    " was written by a newer Pawl; this one reads version 1");
  }
  Manifest manifest;
  manifest.id = {json.at("step").get<std::int64_t>(), json.at("attempt").get<std::int64_t>(),
                 json.at("generation").get<std::int64_t>()};
  manifest.job_uid = json.at("jobUID").get<std::string>();
  manifest.run_id = json.at("runID").get<std::string>();
  manifest.world_size = json.at("worldSize").get<int>();
  manifest.trainer_json = json.at("trainer").get<std::string>();
  const auto& shards = json.at("shards");
  const int count = static_cast<int>(shards.size());
  for (const auto& shard : shards) {
    ShardInfo info{shard.at("file").get<std::string>(), shard.at("bytes").get<std::uint64_t>(),
                   shard.at("crc32c").get<std::uint32_t>(), shard.at("sha256").get<std::string>()};
    // The name is given by the place, so no manifest can make us read another file.
    const bool is_sound =
        info.file == shard_name(static_cast<int>(manifest.shards.size()), count) &&
        is_sha256(info.sha256);
    if (!is_sound)
      return fail(Code::kCorrupt, "the manifest's shard \"" + info.file + "\" is malformed");
    manifest.shards.push_back(std::move(info));
  }
  const auto& id = manifest.id;
  if (id.step < 0 || id.attempt < 0 || id.generation < 0 || manifest.world_size < 1) {
    return fail(Code::kCorrupt, "the manifest has a number out of range");
  }
  return manifest;
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
  Json shards = Json::array();
  for (const auto& shard : manifest.shards) {
    shards.push_back(Json{{"file", shard.file},
                          {"bytes", shard.bytes},
                          {"crc32c", shard.crc32c},
                          {"sha256", shard.sha256}});
  }
  const Json json{{"formatVersion", kFormatVersion},
                  {"jobUID", manifest.job_uid},
                  {"runID", manifest.run_id},
                  {"attempt", manifest.id.attempt},
                  {"generation", manifest.id.generation},
                  {"step", manifest.id.step},
                  {"worldSize", manifest.world_size},
                  {"trainer", manifest.trainer_json},
                  {"shards", shards}};
  // Not UTF-8 becomes U+FFFD here; publish compares and refuses it.
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}"
  const std::string digest = sha256_hex(text);
  return text.append(kDigestField).append(kAlgorithm).append(digest).append(kEnd);
}

Result<Manifest> decode_manifest(const std::string& text) {
  constexpr std::size_t kDigestBytes = kAlgorithm.size() + 64;
  constexpr std::size_t kTail = kDigestField.size() + kDigestBytes + kEnd.size();
  if (text.size() <= kTail) return fail(Code::kCorrupt, "the manifest is cut off");
  const std::string_view all = text;
  const auto body = all.substr(0, text.size() - kTail);
  const auto digest = all.substr(body.size() + kDigestField.size(), kDigestBytes);
  const bool is_shaped = all.substr(body.size()).starts_with(kDigestField) && all.ends_with(kEnd);
  const std::string expected = std::string{kAlgorithm} + sha256_hex(body);
  if (!is_shaped || digest != expected)
    return fail(Code::kCorrupt, "the manifest's digest does not match");
  try {
    PAWL_TRY(manifest, manifest_of(Json::parse(text)));
    manifest.digest = expected;
    return manifest;
  } catch (const Json::exception& error) {
    return fail(Code::kCorrupt, std::string{"the manifest is malformed: "} + error.what());
  }
}

}  // namespace pawl::checkpoint
