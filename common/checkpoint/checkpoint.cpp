#include "common/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "common/base/hash.h"

namespace pawl::checkpoint {
namespace {

// Takes "<prefix><digits>" off the front of `text`; false when it is not there.
bool take_number(std::string_view& text, std::string_view prefix, std::int64_t& number) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return true;
}

constexpr std::size_t kTagDigits = 8;

bool is_tag(std::string_view text) {
  return text.size() == kTagDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string padded(std::int64_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

}  // namespace

std::string folder_of(const CheckpointId& id) {
  return "step-" + padded(id.step, 8) + "-a" + padded(id.attempt, 2) + "-g" +
         padded(id.generation, 4) + (id.job.empty() ? "" : "-" + id.job);
}

std::string job_tag(const std::string& job_uid) {
  std::string tag = job_uid.substr(0, kTagDigits);
  return is_tag(tag) ? tag : sha256_hex(job_uid).substr(0, kTagDigits);
}

std::optional<CheckpointId> parse_folder(const std::string& name) {
  CheckpointId id;
  std::string_view rest = name;
  const bool is_shaped = take_number(rest, "step-", id.step) &&
                         take_number(rest, "-a", id.attempt) &&
                         take_number(rest, "-g", id.generation);
  if (rest.starts_with('-') && is_tag(rest.substr(1))) id.job = rest.substr(1);
  // One id has one name: "step-1-a1-g1" is not ours.
  if (!is_shaped || folder_of(id) != name) return std::nullopt;
  return id;
}

std::string shard_name(int index, int count) {
  return "shard-" + padded(index, 5) + "-of-" + padded(count, 5) + ".safetensors";
}

bool is_newer(const CheckpointId& a, const CheckpointId& b) {
  return std::tie(a.attempt, a.generation, a.step) > std::tie(b.attempt, b.generation, b.step);
}

bool is_on_lineage(const CheckpointId& id, const std::vector<LineagePoint>& lineage) {
  if (lineage.empty()) return true;
  const auto place = std::tie(id.attempt, id.generation);
  bool has_entry = false;
  for (const auto& point : lineage) {
    const auto other = std::tie(point.attempt, point.generation);
    if (other == place) has_entry = has_entry || id.step >= point.start_step;
    if (other > place && id.step > point.start_step) return false;
  }
  return has_entry;
}

Result<ShardInfo> write_shard(store::Store& store, const CheckpointId& id, int index, int count,
                              std::span<const std::byte> bytes) {
  const std::string folder = folder_of(id);
  const auto published = store.stat(folder + "/" + kManifestName);
  if (published) {
    return fail(Code::kAlreadyExists,
                store.uri_of(folder) +
                    " is published already and is never written again; is another job "
                    "using this checkpoint URI?");
  }
  if (published.error().code != Code::kNotFound) return tl::make_unexpected(published.error());
  ShardInfo info{shard_name(index, count), bytes.size(), 0, {}};
  Sha256 sha;
  // Both hashes over a part that stays in the cache.
  constexpr std::size_t kPart = 64 * 1024;
  for (auto rest = bytes; !rest.empty(); rest = rest.subspan(std::min(kPart, rest.size()))) {
    const auto part = rest.first(std::min(kPart, rest.size()));
    info.crc32c = crc32c(part, info.crc32c);
    sha.update(part);
  }
  info.sha256 = sha.hex_digest();
  PAWL_TRY_VOID(store.put(folder + "/" + info.file, bytes, true));
  return info;
}

Result<Manifest> publish(store::Store& store, Manifest manifest) {
  const std::string folder = folder_of(manifest.id);
  if (manifest.shards.empty()) return fail(Code::kInvalid, "a checkpoint needs at least one shard");
  const std::string text = encode_manifest(manifest);
  // What cannot be read back (a field that is not UTF-8, a wrong shard name) must not be published.
  auto decoded = decode_manifest(text);
  if (!decoded)
    return fail(Code::kInvalid, "this manifest cannot be published: " + decoded.error().message);
  manifest.digest = decoded->digest;
  decoded->id.job = manifest.id.job;  // stands in the folder's name alone
  if (*decoded != manifest)
    return fail(Code::kInvalid, "this manifest has a field that is not UTF-8");
  for (const auto& shard : manifest.shards) {
    PAWL_TRY(entry, store.stat(folder + "/" + shard.file));
    if (entry.bytes == shard.bytes) continue;
    return fail(Code::kCorrupt, store.uri_of(entry.key) + " has " + std::to_string(entry.bytes) +
                                    " bytes, its writer said " + std::to_string(shard.bytes));
  }
  PAWL_TRY_VOID(store.put(folder + "/" + kManifestName, std::as_bytes(std::span{text}), false));
  return manifest;
}

Result<Manifest> read_manifest(const store::Store& store, const std::string& folder) {
  PAWL_TRY(entry, store.stat(folder + "/" + kManifestName));
  if (entry.bytes > kManifestBytesMax) return fail(Code::kCorrupt, "the manifest is over 64 MiB");
  PAWL_TRY(bytes, store.get(entry.key));
  PAWL_TRY(manifest, decode_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  const auto named = parse_folder(folder);
  if (named && (named->job.empty() || named->job == job_tag(manifest.job_uid)))
    manifest.id.job = named->job;
  if (folder_of(manifest.id) != folder) {
    return fail(Code::kCorrupt, "the manifest is that of " + folder_of(manifest.id) + " of job " +
                                    manifest.job_uid);
  }
  return manifest;
}

}  // namespace pawl::checkpoint
