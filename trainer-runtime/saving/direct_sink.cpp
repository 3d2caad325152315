#include <charconv>

#include "common/os/process.h"
#include "trainer-runtime/saving/sink.h"

namespace pawl::saving {
namespace {

class NoSink final : public CheckpointSink {
 public:
  bool is_saving() const override { return false; }
  bool is_ready() const override { return false; }
  Status seal(const TrainerState&, const optim::TrainingArrays&) override { return {}; }
  Status drain() override { return {}; }
};

// "file bytes crc sha256", or "! message" of a rank that could not write.
std::string encode(const Result<checkpoint::ShardInfo>& shard) {
  if (!shard) return "! " + shard.error().message;
  return shard->file + " " + std::to_string(shard->bytes) + " " + std::to_string(shard->crc32c) +
         " " + shard->sha256;
}

Result<checkpoint::ShardInfo> decode(const std::string& text, std::size_t rank) {
  checkpoint::ShardInfo shard;
  const std::size_t first = text.find(' '), second = text.find(' ', first + 1),
                    third = text.find(' ', second + 1);
  if (text.starts_with("!") || third == std::string::npos) {
    return fail(Code::kIo, "rank " + std::to_string(rank) + " could not write its shard: " +
                               text.substr(std::min<std::size_t>(2, text.size())));
  }
  shard.file = text.substr(0, first);
  std::from_chars(text.data() + first + 1, text.data() + second, shard.bytes);
  std::from_chars(text.data() + second + 1, text.data() + third, shard.crc32c);
  shard.sha256 = text.substr(third + 1);
  return shard;
}

class DirectSink final : public CheckpointSink {
 public:
  DirectSink(store::Store& store, collective::Collective& ring, Shard shard, DirectOptions options)
      : store_(store),
        ring_(ring),
        shard_(std::move(shard)),
        options_(std::move(options)),
        file_(shard_.bytes()) {}

  bool is_saving() const override { return true; }
  bool is_ready() const override { return true; }
  Status drain() override { return {}; }

  Status seal(const TrainerState& state, const optim::TrainingArrays& arrays) override {
    const checkpoint::CheckpointId id{state.step, options_.attempt, 1,
                                      checkpoint::job_tag(options_.run_id)};
    shard_.fill(arrays, file_.span());
    const auto written =
        checkpoint::write_shard(store_, id, ring_.rank(), ring_.world_size(), file_.span());
    PAWL_TRY(texts, ring_.all_gather(encode(written)));
    checkpoint::Manifest manifest{.id = id,
                                  .job_uid = options_.run_id,
                                  .run_id = options_.run_id,
                                  .world_size = ring_.world_size(),
                                  .trainer_json = encode_state(state)};
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      PAWL_TRY(shard, decode(texts[rank], rank));
      manifest.shards.push_back(std::move(shard));
    }
    if (ring_.rank() != 0) return {};
    if (auto published = checkpoint::publish(store_, std::move(manifest)); !published) {
      return fail_with(published.error(),
                       "publishing the checkpoint of step " + std::to_string(state.step));
    }
    // What cannot be deleted costs space, not the run.
    if (const auto left = checkpoint::retain(store_, options_.run_id, options_.keep, id); !left) {
      os::write_stderr("pawl-train: old checkpoints: " + left.error().message + "\n");
    }
    return {};
  }

 private:
  store::Store& store_;
  collective::Collective& ring_;
  Shard shard_;
  DirectOptions options_;
  device::Buffer<std::byte> file_;
};

}  // namespace

std::unique_ptr<CheckpointSink> make_no_sink() { return std::make_unique<NoSink>(); }

std::unique_ptr<CheckpointSink> make_direct_sink(store::Store& store, collective::Collective& ring,
                                                 Shard shard, DirectOptions options) {
  return std::make_unique<DirectSink>(store, ring, std::move(shard), std::move(options));
}

}  // namespace pawl::saving
