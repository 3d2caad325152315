// Finding the newest checkpoint that can be trusted.
#include <algorithm>

#include "common/base/hash.h"
#include "common/checkpoint/checkpoint.h"

namespace pawl::checkpoint {
namespace {

constexpr std::uint64_t kReadBytes = 1 << 20;
constexpr int kBadNamesMax = 100;

Status verify_shard(const store::Store& store, const std::string& key, const ShardInfo& expected,
                    std::span<std::byte> buffer) {
  const auto entry = store.stat(key);
  if (!entry) {
    if (entry.error().code != Code::kNotFound) return tl::make_unexpected(entry.error());
    return fail(Code::kCorrupt, expected.file + " is missing");
  }
  if (entry->bytes != expected.bytes) {
    return fail(Code::kCorrupt, expected.file + " has " + std::to_string(entry->bytes) +
                                    " bytes instead of " + std::to_string(expected.bytes));
  }
  std::uint32_t crc = 0;
  Sha256 sha;
  for (std::uint64_t offset = 0; offset < expected.bytes;) {
    const auto part = buffer.first(std::min<std::uint64_t>(buffer.size(), expected.bytes - offset));
    PAWL_TRY_VOID(store.read(key, offset, part));
    crc = crc32c(part, crc);
    sha.update(part);
    offset += part.size();
  }
  if (crc != expected.crc32c)
    return fail(Code::kCorrupt, expected.file + " does not match its CRC32C");
  if (sha.hex_digest() != expected.sha256) {
    return fail(Code::kCorrupt, expected.file + " does not match its SHA-256");
  }
  return {};
}

// Out of the way, but not deleted: somebody may want to know what happened to it. Returns what it
// did, for `why`.
std::string quarantine(store::Store& store, const std::string& folder) {
  for (int i = 1; i <= kBadNamesMax; ++i) {
    const std::string name = "bad-" + folder + (i == 1 ? "" : "-" + std::to_string(i));
    const Status renamed = store.rename_folder(folder, name);
    if (renamed) return "; renamed to " + name;
    if (renamed.error().code != Code::kAlreadyExists)
      return "; not renamed: " + renamed.error().message;
  }
  return "; not renamed: too many bad ones of this name";
}

// The candidate's manifest when it is wholly valid.
Result<Manifest> examine(const store::Store& store, const std::string& folder,
                         const std::string& job_uid) {
  PAWL_TRY(manifest, read_manifest(store, folder));
  if (manifest.job_uid != job_uid) {
    return fail(Code::kInvalid, "belongs to another job (UID " + manifest.job_uid + ")");
  }
  PAWL_TRY_VOID(verify(store, folder, manifest));
  return manifest;
}

}  // namespace

Status verify(const store::Store& store, const std::string& folder, const Manifest& manifest) {
  std::uint64_t largest = 0;
  for (const auto& shard : manifest.shards) largest = std::max(largest, shard.bytes);
  std::vector<std::byte> buffer(std::min(kReadBytes, largest));
  for (const auto& shard : manifest.shards) {
    PAWL_TRY_VOID(verify_shard(store, folder + "/" + shard.file, shard, buffer));
  }
  return {};
}

Result<Selection> select_newest(store::Store& store, const std::string& job_uid,
                                const std::vector<LineagePoint>& lineage,
                                const std::string& published) {
  PAWL_TRY(folders, store.list_folders(""));
  std::optional<CheckpointId> awaited = parse_folder(published);
  // Put aside by an earlier look, whose caller did not come to act on it, or by a person.
  const bool was_bad = std::ranges::any_of(folders, [&](const std::string& folder) {
    return folder == "bad-" + published || folder.starts_with("bad-" + published + "-");
  });
  if (was_bad || (awaited && !is_on_lineage(*awaited, lineage))) awaited.reset();
  const std::string tag = job_tag(job_uid);
  std::vector<CheckpointId> ids;
  for (const auto& folder : folders) {
    const auto id = parse_folder(folder);
    if (id && (id->job.empty() || id->job == tag)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end(), is_newer);
  Selection selection;
  std::optional<Error> unreadable;
  for (const auto& id : ids) {
    const std::string folder = folder_of(id);
    if (!is_on_lineage(id, lineage)) {
      selection.skipped.push_back({folder, "is not on this run's lineage"});
      continue;
    }
    if (awaited && is_newer(*awaited, id)) break;
    auto manifest = examine(store, folder, job_uid);
    if (manifest) {
      if (unreadable) return fail_with(*unreadable, "a newer checkpoint could not be verified");
      selection.newest = Found{id, folder, std::move(*manifest)};
      return selection;
    }
    const Error& error = manifest.error();
    std::string why = error.message;
    if (error.code == Code::kNotFound) {
      why = "was never published";
    } else if (error.code == Code::kCorrupt) {
      why += quarantine(store, folder);
      if (folder == published) awaited.reset();
    } else if (error.code != Code::kInvalid && !unreadable) {
      unreadable = error;
    }
    selection.skipped.push_back({folder, why});
  }
  if (unreadable) return fail_with(*unreadable, "no checkpoint could be verified");
  if (awaited) {
    return fail(Code::kUnavailable,
                store.uri_of(published) +
                    " was published and is not there: is its volume mounted? If it is lost for "
                    "good, make a folder " +
                    store.uri_of("bad-" + published) + ", and the next older one is taken");
  }
  return selection;
}

}  // namespace pawl::checkpoint
