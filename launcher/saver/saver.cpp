#include "launcher/saver/saver.h"

#include <poll.h>
#include <sys/mman.h>
#include <atomic>
#include <thread>
#include <utility>

#include "common/checkpoint/checkpoint.h"
#include "common/os/process.h"

namespace pawl::launcher {
namespace {

using membership::CheckpointSelected;
using membership::CleanUpCheckpoints;
using membership::DiscardCheckpoint;
using membership::PublishCheckpoint;
using membership::PublishDone;
using membership::SelectCheckpoint;
using membership::ShardDone;
using membership::ShardWritten;
using membership::WriteShard;

std::vector<checkpoint::LineagePoint> points_of(const std::vector<api::LineageEntry>& lineage) {
  std::vector<checkpoint::LineagePoint> points;
  for (const auto& entry : lineage) {
    points.push_back({entry.attempt, entry.generation, entry.start_step});
  }
  return points;
}

// The folder's name if the URI lies in this store. Another place was a person's choice.
std::string folder_in(const store::Store& store, const std::string& uri) {
  const std::string root = store.uri_of("") + "/";
  return uri.starts_with(root) ? uri.substr(root.size()) : "";
}

// A buffer, mapped for as long as it is being written out.
class Mapping {
 public:
  Mapping(int fd, std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) memory_ = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  }
  ~Mapping() {
    if (is_valid()) ::munmap(memory_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool is_valid() const { return memory_ != MAP_FAILED; }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(memory_), bytes_};
  }

 private:
  std::size_t bytes_;
  void* memory_ = MAP_FAILED;
};

}  // namespace

class Saver::Impl {
 public:
  Impl(SaverOptions options, std::shared_ptr<Inbox> owner, std::shared_ptr<Inbox> own,
       SaverEvents events)
      : options_(std::move(options)),
        owner_(std::move(owner)),
        own_(std::move(own)),
        events_(std::move(events)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() {
    is_ending_ = true;
    own_->post([] {});
    thread_.join();
  }

  template <typename Job>
  void post(Job job) {
    own_->post([this, job = std::move(job)] {
      if (!is_ending_) job();
    });
  }
  template <typename Handler, typename Answer>
  void answer(const Handler& handler, Answer value) {
    owner_->post([&handler, value = std::move(value)] { handler(value); });
  }

  void select(const SelectCheckpoint& wanted);
  void write(const WriteShard& wanted, const os::Fd& buffer);
  void publish(const PublishCheckpoint& wanted);
  void clean_up(const CleanUpCheckpoints& wanted);
  void discard(const DiscardCheckpoint& wanted);

 private:
  void run() {
    while (!is_ending_) {
      pollfd waiting{own_->fd(), POLLIN, 0};
      ::poll(&waiting, 1, -1);
      own_->drain();
    }
  }
  Result<store::Store*> storage();
  template <typename Action>
  checkpoint::CheckpointId id_of(const Action& wanted) const {
    return {wanted.step, wanted.attempt, wanted.generation, tag_};
  }
  Result<ShardDone> write_one(const WriteShard& wanted, const os::Fd& buffer);

  const SaverOptions options_;
  const std::string tag_ = checkpoint::job_tag(options_.job_uid);
  std::shared_ptr<Inbox> owner_, own_;
  const SaverEvents events_;
  std::atomic<bool> is_ending_ = false;
  std::unique_ptr<store::Store> store_;
  std::thread thread_;
};

Result<store::Store*> Saver::Impl::storage() {
  if (!store_) {
    PAWL_TRY(opened, options_.open(options_.uri));
    store_ = std::move(opened);
  }
  return store_.get();
}

void Saver::Impl::select(const SelectCheckpoint& wanted) {
  CheckpointSelected selected;
  const auto opened = storage();
  const auto found =
      opened ? checkpoint::select_newest(**opened, options_.job_uid, points_of(wanted.lineage),
                                         folder_in(**opened, wanted.published_uri))
             : Result<checkpoint::Selection>{tl::make_unexpected(opened.error())};
  if (!found) {
    selected.error = found.error().message;
  } else {
    for (const auto& skipped : found->skipped) {
      answer(events_.on_warning, "checkpoint " + skipped.folder + " passed over: " + skipped.why);
    }
    if (found->newest) {
      selected.step = found->newest->id.step;
      selected.load_uri = (*opened)->uri_of(found->newest->folder);
    }
  }
  answer(events_.on_selected, std::move(selected));
}

Result<ShardDone> Saver::Impl::write_one(const WriteShard& wanted, const os::Fd& buffer) {
  PAWL_TRY(opened, storage());
  const Mapping mapping{buffer.get(), wanted.bytes};
  if (!mapping.is_valid())
    return fail(Code::kIo, "mapping a checkpoint buffer: " + os::errno_text());
  const auto id = id_of(wanted);
  PAWL_TRY(info,
           checkpoint::write_shard(*opened, id, wanted.rank, wanted.world_size, mapping.bytes()));
  ShardDone done = answer_to(wanted).shard;
  done.file = info.file;
  done.bytes = info.bytes;
  done.crc32c = info.crc32c;
  done.sha256 = info.sha256;
  done.manifest_json = wanted.manifest_json;
  return done;
}

void Saver::Impl::write(const WriteShard& wanted, const os::Fd& buffer) {
  ShardWritten written = answer_to(wanted);
  auto done = write_one(wanted, buffer);
  if (done) {
    written.shard = std::move(*done);
  } else {
    written.error = done.error().message;
  }
  answer(events_.on_written, std::move(written));
}

void Saver::Impl::publish(const PublishCheckpoint& wanted) {
  PublishDone done{.step = wanted.step};
  const auto id = id_of(wanted);
  checkpoint::Manifest manifest{.id = id,
                                .job_uid = options_.job_uid,
                                .run_id = options_.job_uid,
                                .world_size = wanted.world_size,
                                .trainer_json = wanted.trainer_json};
  for (const ShardDone& shard : wanted.shards) {
    manifest.shards.push_back({shard.file, shard.bytes, shard.crc32c, shard.sha256});
    done.checkpoint.size_bytes += static_cast<std::int64_t>(shard.bytes);
  }
  const std::vector<checkpoint::ShardInfo> shards = manifest.shards;
  const auto opened = storage();
  auto published = opened ? checkpoint::publish(**opened, std::move(manifest))
                          : Result<checkpoint::Manifest>{tl::make_unexpected(opened.error())};
  const bool is_durable = published.has_value();
  // No answer is not a no, and what is taken may have been taken by an earlier try of ours: what is
  // there tells.
  const Code code = published ? Code::kNotFound : published.error().code;
  if (code == Code::kOutcomeUnknown || code == Code::kAlreadyExists) {
    auto there = checkpoint::read_manifest(**opened, checkpoint::folder_of(id));
    const bool is_ours = there && there->shards == shards;
    if (is_ours || code == Code::kOutcomeUnknown) published = std::move(there);
  }
  if (!published) {
    done.error = published.error().message;
    answer(events_.on_published, std::move(done));
    return;
  }
  done.checkpoint.step = wanted.step;
  done.checkpoint.uri = (*opened)->uri_of(checkpoint::folder_of(id));
  done.checkpoint.digest = published->digest;
  answer(events_.on_published, std::move(done));
  if (!is_durable) {
    // A power cut may still take it, and then the older ones are all there is.
    answer(events_.on_warning, "checkpoint " + checkpoint::folder_of(id) +
                                   " is there, but storage did not say that it stays; the older "
                                   "ones are kept until the next one");
    return;
  }
  const auto kept =
      checkpoint::retain(**opened, options_.job_uid, options_.keep, id, points_of(wanted.lineage));
  if (!kept) answer(events_.on_warning, "cleaning up old checkpoints: " + kept.error().message);
}

void Saver::Impl::clean_up(const CleanUpCheckpoints& wanted) {
  const checkpoint::CheckpointId current{0, wanted.attempt, wanted.generation, tag_};
  const auto opened = storage();
  const Status removed = opened
                             ? checkpoint::remove_unpublished(**opened, options_.job_uid, current)
                             : tl::make_unexpected(opened.error());
  if (!removed)
    answer(events_.on_warning, "removing unfinished checkpoints: " + removed.error().message);
}

void Saver::Impl::discard(const DiscardCheckpoint& wanted) {
  const auto opened = storage();
  const Status removed =
      opened ? checkpoint::discard(**opened, id_of(wanted)) : tl::make_unexpected(opened.error());
  if (!removed)
    answer(events_.on_warning, "removing an unfinished checkpoint: " + removed.error().message);
}

Saver::Saver(SaverOptions options, std::shared_ptr<Inbox> owner, SaverEvents events) {
  auto own = Inbox::create();
  impl_ =
      std::make_unique<Impl>(std::move(options), std::move(owner), own.value(), std::move(events));
}
Saver::~Saver() = default;

void Saver::select(const SelectCheckpoint& select) {
  impl_->post([impl = impl_.get(), select] { impl->select(select); });
}
void Saver::write(const WriteShard& write, os::Fd buffer) {
  impl_->post([impl = impl_.get(), write, fd = std::make_shared<os::Fd>(std::move(buffer))] {
    impl->write(write, *fd);
  });
}
void Saver::publish(const PublishCheckpoint& publish) {
  impl_->post([impl = impl_.get(), publish] { impl->publish(publish); });
}
void Saver::clean_up(const CleanUpCheckpoints& clean_up) {
  impl_->post([impl = impl_.get(), clean_up] { impl->clean_up(clean_up); });
}
void Saver::discard(const DiscardCheckpoint& discard) {
  impl_->post([impl = impl_.get(), discard] { impl->discard(discard); });
}

}  // namespace pawl::launcher
