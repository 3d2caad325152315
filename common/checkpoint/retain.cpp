// Deleting what is not needed any more, and nothing else.
#include <algorithm>

#include "common/checkpoint/checkpoint.h"

namespace pawl::checkpoint {
namespace {

// Holds the digest of the manifest whose shards were read back whole, so that each is read once and
// not with every save. A hint for retention alone: loading always verifies.
constexpr char kVerifiedName[] = "verified";
constexpr std::string_view kBadPrefix = "bad-";

Status check_read_back(store::Store& store, const Found& found) {
  const std::string key = found.folder + "/" + kVerifiedName;
  if (const auto mark = store.get(key)) {
    const std::string_view text{reinterpret_cast<const char*>(mark->data()), mark->size()};
    if (text == found.manifest.digest) return {};
  }
  PAWL_TRY_VOID(verify(store, found.folder, found.manifest));
  // Without the mark it is read again next time; no reason to call it unverified.
  (void)store.put(key, std::as_bytes(std::span{found.manifest.digest}), true);
  return {};
}

// "bad-step-00000010-a01-g0001-1b4e28ba" or with "-2" behind it.
std::optional<CheckpointId> parse_bad(std::string_view name) {
  if (!name.starts_with(kBadPrefix)) return std::nullopt;
  name.remove_prefix(kBadPrefix.size());
  if (const auto id = parse_folder(std::string{name})) return id;
  return parse_folder(std::string{name.substr(0, name.rfind('-'))});
}

class Retention {
 public:
  Retention(store::Store& store, int keep, const CheckpointId& current)
      : store_(store), keep_(std::max(keep, 1)), current_(current) {}

  bool is_protected(const CheckpointId& id) const { return !is_newer(current_, id); }

  // One on the lineage; newest first.
  void decide(const Found& found) {
    if (is_enough() && !is_protected(found.id)) {
      remove_published(found.folder);
      return;
    }
    ++left_;
    const Status read_back = check_read_back(store_, found);
    if (read_back) {
      ++verified_;
      oldest_kept_ = found.id;
    } else if (read_back.error().code != Code::kCorrupt) {
      note(read_back.error());
    }
  }

  // After all that are on the lineage: one that this run can never load.
  void decide_abandoned(const CheckpointId& id) {
    if (is_enough() && !is_protected(id)) {
      remove_published(folder_of(id));
    } else {
      ++left_;
    }
  }

  // What is quarantined stays as long as a checkpoint of its time does.
  void decide_bad(const CheckpointId& id, const std::string& folder) {
    if (is_enough() && is_newer(*oldest_kept_, id)) (void)remove(folder);
  }

  // Of an earlier generation, or behind what this one has published or goes on from: whoever began
  // it does not finish it.
  void decide_unpublished(const CheckpointId& id) {
    if (is_newer(current_, id)) (void)remove(folder_of(id));
  }

  void note(const Error& error) {
    if (!first_error_) first_error_ = error;
  }

  Result<int> result() const {
    if (first_error_) return fail_with(*first_error_, "removing old checkpoints");
    return left_;
  }

 private:
  bool is_enough() const { return verified_ >= keep_; }

  bool remove(const std::string& folder) {
    const Status removed = store_.remove_folder(folder);
    if (!removed) note(removed.error());
    return removed.has_value();
  }

  void remove_published(const std::string& folder) { left_ += remove(folder) ? 0 : 1; }

  store::Store& store_;
  const int keep_;
  const CheckpointId current_;
  int verified_ = 0, left_ = 0;
  std::optional<CheckpointId> oldest_kept_;
  std::optional<Error> first_error_;
};

}  // namespace

Result<int> retain(store::Store& store, const std::string& job_uid, int keep,
                   const CheckpointId& current, const std::vector<LineagePoint>& lineage) {
  PAWL_TRY(folders, store.list_folders(""));
  const std::string tag = job_tag(job_uid);
  std::vector<CheckpointId> ids, abandoned;
  for (const auto& folder : folders) {
    const auto id = parse_folder(folder);
    if (id && (id->job.empty() || id->job == tag)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end(), is_newer);
  Retention retention{store, keep, current};
  for (const auto& id : ids) {
    const std::string folder = folder_of(id);
    const auto manifest = read_manifest(store, folder);
    if (manifest) {
      if (manifest->job_uid != job_uid) continue;
      if (is_on_lineage(id, lineage)) {
        retention.decide({id, folder, *manifest});
      } else {
        abandoned.push_back(id);
      }
    } else if (manifest.error().code == Code::kNotFound) {
      if (id.job == tag) retention.decide_unpublished(id);
    } else if (manifest.error().code != Code::kCorrupt && manifest.error().code != Code::kInvalid) {
      retention.note(manifest.error());  // it may be ours and good: left alone
    }
  }
  for (const auto& id : abandoned) retention.decide_abandoned(id);
  for (const auto& folder : folders) {
    const auto id = parse_bad(folder);
    if (id && (id->job.empty() || id->job == tag)) retention.decide_bad(*id, folder);
  }
  return retention.result();
}

Status remove_unpublished(store::Store& store, const std::string& job_uid,
                          const CheckpointId& current) {
  PAWL_TRY(folders, store.list_folders(""));
  Status result;
  for (const auto& folder : folders) {
    const auto id = parse_folder(folder);
    if (!id || id->job != job_tag(job_uid) || !is_newer(current, *id)) continue;
    const Status removed = discard(store, *id);
    if (!removed && result) result = removed;
  }
  return result;
}

Status discard(store::Store& store, const CheckpointId& id) {
  const auto manifest = store.stat(folder_of(id) + "/" + kManifestName);
  if (manifest) return {};
  if (manifest.error().code != Code::kNotFound) return tl::make_unexpected(manifest.error());
  return store.remove_folder(folder_of(id));
}

}  // namespace pawl::checkpoint
