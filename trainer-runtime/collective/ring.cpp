#include "trainer-runtime/collective/ring.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/os/real_clock.h"
#include "trainer-runtime/collective/link.h"

namespace pawl::collective {
namespace {

constexpr std::chrono::milliseconds kBeat{100};

struct Work {
  Frame frame;
  std::span<std::byte> bytes;
  int root = 0;  // of a broadcast
};

Arrival arrival_of(Operation operation) {
  switch (operation) {
    case Operation::kSumInteger:
    case Operation::kScatterInteger:
      return Arrival::kAddInteger;
    case Operation::kSumFloat:
    case Operation::kScatterFloat:
    case Operation::kGatherFloat:
      return Arrival::kAddFloat;
    default:
      return Arrival::kAddDouble;
  }
}

class Ring final : public Collective {
 public:
  Ring(const RingOptions& options, Neighbours neighbours)
      : rank_(options.rank),
        world_size_(options.world_size),
        on_waiting_(options.on_waiting),
        link_(options, std::move(neighbours)),
        thread_([this] { run(); }) {}

  ~Ring() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
      // Work that nobody waits for must not keep the thread: a ring ends after its last wait, or
      // after an error.
      if (finished_ != started_) link_.abort("this rank left the ring");
    }
    changed_.notify_all();
    thread_.join();
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  Ticket start_all_reduce(std::span<float> values, int bucket) override {
    return start(Operation::kSumFloat, std::as_writable_bytes(values), bucket);
  }
  Ticket start_all_reduce(std::span<std::int64_t> values, int bucket) override {
    return start(Operation::kSumInteger, std::as_writable_bytes(values), bucket);
  }
  Ticket start_reduce_scatter(std::span<float> values, int bucket) override {
    return start(Operation::kScatterFloat, std::as_writable_bytes(values), bucket);
  }
  Ticket start_reduce_scatter(std::span<std::int64_t> values, int bucket) override {
    return start(Operation::kScatterInteger, std::as_writable_bytes(values), bucket);
  }
  Ticket start_all_gather(std::span<float> values, int bucket) override {
    return start(Operation::kGatherFloat, std::as_writable_bytes(values), bucket);
  }
  Ticket start_all_gather(std::span<std::byte> slots, int bucket) override {
    PAWL_CHECK(slots.size() % static_cast<std::size_t>(world_size_) == 0, "slots are not equal");
    return start(Operation::kGatherBytes, slots, bucket);
  }
  Status all_reduce(std::span<double> values) override {
    return wait(start(Operation::kSumDouble, std::as_writable_bytes(values), 0));
  }
  Status broadcast(std::span<std::byte> bytes, int root) override {
    return wait(start(Operation::kBroadcast, bytes, root));
  }
  void abort(const std::string& cause) override { link_.abort(cause); }

  Status wait(Ticket ticket) override {
    std::unique_lock lock(mutex_);
    const auto is_done = [&] { return finished_ >= ticket.sequence || error_; };
    const SteadyPoint begun = is_done() ? SteadyPoint::max() : now();
    bool is_waiting = true;
    while (is_waiting) {
      is_waiting = !changed_.wait_for(lock, kBeat, is_done);
      // Many short waits are a long one.
      const std::uint64_t turns = link_.turns();
      if (std::exchange(turns_seen_, turns) != turns && on_waiting_) on_waiting_();
    }
    if (begun != SteadyPoint::max()) times_.waited += now() - begun;
    if (finished_ >= ticket.sequence) return {};
    return tl::make_unexpected(*error_);
  }

  Times times() const override {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  std::size_t records(std::uint64_t after, std::span<Record> into) const override {
    const std::lock_guard lock(mutex_);
    return recorder_.copy(after, into);
  }

 private:
  static SteadyPoint now() { return RealClock{}.steady_now(); }

  Ticket start(Operation operation, std::span<std::byte> bytes, int bucket_or_root) {
    Work work;
    work.frame.operation = operation;
    work.frame.bucket = static_cast<std::uint32_t>(bucket_or_root);
    work.frame.total = bytes.size();
    work.bytes = bytes;
    work.root = bucket_or_root;
    const std::lock_guard lock(mutex_);
    work.frame.sequence = ++started_;
    recorder_.queue({.sequence = started_,
                     .operation = name_of(operation),
                     .bucket = work.frame.bucket,
                     .bytes = bytes.size(),
                     .queued = now()});
    queue_.push_back(work);  // bounded by the caller: the buckets of one step
    changed_.notify_all();
    return {work.frame.sequence};
  }

  void run() {
    while (true) {
      std::optional<Work> work;
      SteadyPoint begun;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_ending_ || (!queue_.empty() && !error_); });
        if (queue_.empty() || error_) return;
        work = queue_.front();
        queue_.pop_front();
        begun = now();
        recorder_.begin(work->frame.sequence, begun);
      }
      const Status status =
          work->frame.operation == Operation::kBroadcast ? pass_on(*work) : reduce(*work);
      const std::lock_guard lock(mutex_);
      const SteadyPoint ended = now();
      times_.ran += ended - begun;
      if (status) {
        finished_ = work->frame.sequence;
        recorder_.end(finished_, ended);
      } else {
        error_ = status.error();
        recorder_.fail(work->frame.sequence, link_.exchanges());
      }
      changed_.notify_all();
    }
  }

  // Doubles are a few numbers that everybody waits for: cut evenly.
  std::span<std::byte> chunk(const Work& work, int index) const {
    const int rank = (index % world_size_ + world_size_) % world_size_;
    const auto c = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(world_size_);
    if (work.frame.operation == Operation::kGatherBytes) {
      const std::size_t slot = work.bytes.size() / n;
      return work.bytes.subspan(c * slot, slot);
    }
    const Arrival arrival = arrival_of(work.frame.operation);
    const std::size_t element = element_bytes(arrival), count = work.bytes.size() / element;
    const Chunk part = arrival == Arrival::kAddDouble ? Chunk{count * c / n, count * (c + 1) / n}
                                                      : chunk_of(count, rank, world_size_);
    return work.bytes.subspan(part.first * element, (part.last - part.first) * element);
  }

  Status reduce(const Work& work) {
    const Operation operation = work.frame.operation;
    const bool is_gathered =
        operation == Operation::kGatherFloat || operation == Operation::kGatherBytes;
    if (!is_gathered) PAWL_TRY_VOID(scatter(work));
    const bool is_scattered =
        operation == Operation::kScatterFloat || operation == Operation::kScatterInteger;
    return is_scattered ? Status{} : gather(work);
  }

  Status scatter(const Work& work) {
    for (int step = 0; step + 1 < world_size_; ++step) {
      const Incoming incoming{chunk(work, rank_ - step - 2), arrival_of(work.frame.operation)};
      PAWL_TRY_VOID(link_.exchange(work.frame, chunk(work, rank_ - step - 1), incoming));
    }
    return {};
  }

  Status gather(const Work& work) {
    for (int step = 0; step + 1 < world_size_; ++step) {
      const Incoming incoming{chunk(work, rank_ - step - 1), Arrival::kStore};
      PAWL_TRY_VOID(link_.exchange(work.frame, chunk(work, rank_ - step), incoming));
    }
    return {};
  }

  // In pieces, so that the ranks behind each other work at the same time.
  Status pass_on(const Work& work) {
    constexpr std::size_t kBroadcastPiece = std::size_t{256} << 10;
    const int distance = (rank_ - work.root + world_size_) % world_size_;
    for (std::size_t first = 0; first < work.bytes.size(); first += kBroadcastPiece) {
      const auto piece =
          work.bytes.subspan(first, std::min(kBroadcastPiece, work.bytes.size() - first));
      if (distance > 0) PAWL_TRY_VOID(link_.exchange(work.frame, {}, {piece}));
      if (distance + 1 < world_size_) PAWL_TRY_VOID(link_.exchange(work.frame, piece, {}));
    }
    return {};
  }

  const int rank_, world_size_;
  const std::function<void()> on_waiting_;
  Link link_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::uint64_t started_ = 0, finished_ = 0;
  std::uint64_t turns_seen_ = 0;  // by whoever waits
  Times times_;
  FlightRecorder recorder_;
  bool is_ending_ = false;
  std::optional<Error> error_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

Result<std::unique_ptr<Collective>> make_ring(const RingOptions& options, const os::Fd& listener) {
  PAWL_TRY(neighbours, connect_ring(options, listener));
  return std::unique_ptr<Collective>(new Ring(options, std::move(neighbours)));
}

}  // namespace pawl::collective
