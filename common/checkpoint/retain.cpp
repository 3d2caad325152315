// Deleting what is not needed any more, and nothing else.
#include <algorithm>
#include <tuple>

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

// "bad-step-00000010-a01-g0001" or with "-2" behind it.
std::optional<CheckpointId> parse_bad(std::string_view name) {
  if (!name.starts_with(kBadPrefix)) return std::nullopt;
  name.remove_prefix(kBadPrefix.size());
  if (const auto id = parse_folder(std::string{name})) return id;
  return parse_folder(std::string{name.substr(0, name.rfind('-'))});
}

bool is_before_generation(const CheckpointId& id, const CheckpointId& current) {
  return std::tie(id.attempt, id.generation) < std::tie(current.attempt, current.generation);
}

class Retention {
 public:
  Retention(store::Store& store, int keep, const CheckpointId& current)
      : store_(store), keep_(std::max(keep, 1)), current_(current) {}

  // Newest first.
  void decide(const Found& found) {
    const bool is_protected = found.id == current_ || is_newer(found.id, current_);
    if (verified_ >= keep_ && !is_protected) {
      remove(found.folder);
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

  void remove(const std::string& folder) {
    const Status removed = store_.remove_folder(folder);
    if (!removed) note(removed.error());
  }

  void note(const Error& error) {
    if (!first_error_) first_error_ = error;
  }

  bool is_enough() const { return verified_ >= keep_; }
  const std::optional<CheckpointId>& oldest_kept() const { return oldest_kept_; }
  Result<int> result() const {
    if (first_error_) return fail_with(*first_error_, "removing old checkpoints");
    return left_;
  }

 private:
  store::Store& store_;
  const int keep_;
  const CheckpointId current_;
  int verified_ = 0, left_ = 0;
  std::optional<CheckpointId> oldest_kept_;
  std::optional<Error> first_error_;
};

}  // namespace

Result<int> retain(store::Store& store, const std::string& job_uid, int keep,
                   const CheckpointId& current) {
  PAWL_TRY(folders, store.list_folders(""));
  std::vector<CheckpointId> ids;
  for (const auto& folder : folders) {
    if (const auto id = parse_folder(folder)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end(), is_newer);
  Retention retention{store, keep, current};
  for (const auto& id : ids) {
    const std::string folder = folder_of(id);
    const auto manifest = read_manifest(store, folder);
    if (manifest) {
      if (manifest->job_uid == job_uid) retention.decide({id, folder, *manifest});
    } else if (manifest.error().code == Code::kNotFound) {
      if (is_before_generation(id, current)) retention.remove(folder);
    } else if (manifest.error().code != Code::kCorrupt && manifest.error().code != Code::kInvalid) {
      retention.note(manifest.error());  // it may be ours and good: left alone
    }
  }
  // What is quarantined stays as long as a checkpoint of its time does.
  for (const auto& folder : folders) {
    const auto id = parse_bad(folder);
    if (id && retention.is_enough() && is_newer(*retention.oldest_kept(), *id))
      retention.remove(folder);
  }
  return retention.result();
}

}  // namespace pawl::checkpoint
