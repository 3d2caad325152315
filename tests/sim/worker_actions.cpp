// What a launcher does with its world, action by action: as launcher/launcher_actions.cpp and
// launcher/reporter/record_client.cpp do it.
#include <utility>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/check.h"
#include "launcher/reporter/record_json.h"
#include "tests/sim/worker.h"

namespace pawl::sim {

using namespace membership;  // NOLINT: this file translates between its types and the world.

namespace {

constexpr milliseconds kMissingMin{500}, kUnauthorizedMin{10'000};
constexpr milliseconds kBackoffFirst{100}, kBackoffMax{3'000};
constexpr milliseconds kDialTimeout{3'000};
constexpr milliseconds kResendEvery{200};

}  // namespace

// ---- the record

void Worker::act(const ReadRecord& read) {
  wanted_read_ = std::max(wanted_read_.value_or(0), read.id);
  if (!is_reading_ && place_.engine.elapsed() >= retry_at_) read_record();
}

void Worker::read_record() {
  is_reading_ = true;
  auto request = launcher::record_request(kNamespace, job_name_);
  const std::uint64_t id = *wanted_read_;
  link_->send(request, [this, id, request](const Result<kube::HttpResponse>& response) {
    on_read(id, request, response);
  });
}

bool Worker::is_gone(const Result<kube::HttpResponse>& response) {
  if (!response || (response->status != 404 && response->status != 401)) {
    denied_since_.reset();
    return false;
  }
  if (!denied_since_) denied_since_ = place_.engine.elapsed();
  const auto least = response->status == 404 ? kMissingMin : kUnauthorizedMin;
  return place_.engine.elapsed() - *denied_since_ >= least;
}

void Worker::on_read(std::uint64_t id, const kube::HttpRequest& request,
                     const Result<kube::HttpResponse>& response) {
  is_reading_ = false;
  if (is_gone(response)) {
    wanted_read_.reset();
    return feed_soon(RecordGone{"the API server says so"});
  }
  auto group = response ? launcher::read_group(request, *response)
                        : Result<api::WorkerGroup>{tl::make_unexpected(response.error())};
  if (!group) {
    read_backoff_ = std::clamp(read_backoff_ * 2, kBackoffFirst, kBackoffMax);
    retry_at_ = place_.engine.elapsed() + read_backoff_;
    return;
  }
  read_backoff_ = {};
  if (wanted_read_ == id) wanted_read_.reset();
  see(std::move(*group), id);
  if (wants_watch_ && !reflector_) act(WatchRecord{true});
  if (wanted_read_ && !is_reading_) read_record();
}

void Worker::see(api::WorkerGroup group, std::uint64_t read_id) {
  const auto label = group.meta.labels.find(api::kLabelJobUid);
  if (label != group.meta.labels.end() && label->second != job_uid_) {
    return feed_soon(RecordGone{"the WorkerGroup belongs to another job of the same name"});
  }
  leads_ = group.status.leader && group.status.leader->ref == id_.self;
  if (group.spec.attempt > attempt() && !outdated_since_) {
    outdated_since_ = place_.engine.elapsed();
  }
  feed_soon(RecordSeen{std::move(group), read_id});
}

void Worker::on_group(const nlohmann::json& object) {
  if (auto group = launcher::read_group(object)) see(std::move(*group), 0);
}

// The watch begins after a first read, which says at once whether there is a record at all.
void Worker::act(const WatchRecord& watch) {
  const bool was_wanted = std::exchange(wants_watch_, watch.is_on);
  if (!watch.is_on) {
    // Not from within its own callback.
    place_.engine.after(milliseconds{0}, [this, alive = is_alive_] {
      if (*alive && !wants_watch_) reflector_.reset();
    });
    return;
  }
  if (!was_wanted) return act(ReadRecord{0});
  if (reflector_) return;
  kube::InformerOptions options;
  options.resource = kube::resources::kWorkerGroups;
  options.ns = kNamespace;
  options.field_selector = "metadata.name=" + job_name_;
  options.can_list = false;
  kube::InformerEvents events;
  events.on_upsert = [this](const nlohmann::json& object) { on_group(object); };
  events.on_delete = [this](const nlohmann::json&) {
    feed_soon(RecordGone{"the WorkerGroup was deleted"});
  };
  reflector_ =
      std::make_unique<Reflector>(place_.engine, *link_, std::move(options), std::move(events));
  reflector_->start();
}

void Worker::act(const WriteStatus& write) {
  auto request = launcher::status_patch(kNamespace, job_name_, write);
  link_->send(request, [this, request](const Result<kube::HttpResponse>& response) {
    auto group = response ? launcher::read_group(request, *response)
                          : Result<api::WorkerGroup>{tl::make_unexpected(response.error())};
    if (group) {
      see(std::move(*group), 0);
      return feed_soon(WriteDone{WriteOutcome::kApplied, ""});
    }
    if (response && (response->status == 404 || response->status == 401)) act(ReadRecord{0});
    const bool was_answered = response && response->status >= 200 && response->status < 300;
    const Code code = group.error().code;
    const bool is_unclear =
        was_answered || code == Code::kConflict || code == Code::kOutcomeUnknown;
    feed_soon(WriteDone{is_unclear ? WriteOutcome::kUnclear : WriteOutcome::kRefused,
                        group.error().message});
  });
}

// ---- peers

void Worker::act(const Dial& dial) {
  drop(kLeaderPeer, true);
  const milliseconds latency = place_.engine.between(milliseconds{1}, milliseconds{20});
  place_.engine.after(latency, [this, alive = is_alive_, dial, latency] {
    if (!*alive) return;
    Worker* other = place_.net.find(dial.address);
    if (is_cut_ || (other != nullptr && other->is_cut_)) {
      return feed_soon(PeerDown{kLeaderPeer, "timed out"}, kDialTimeout);
    }
    if (other == nullptr || other == this || other->id_.fingerprint != dial.fingerprint) {
      return feed_soon(PeerDown{kLeaderPeer, "connection refused"});
    }
    drop(kLeaderPeer, true);
    const PeerId inbound = ++other->last_peer_;
    connections_[kLeaderPeer] = {other->id_.address, inbound, latency};
    other->connections_[inbound] = {id_.address, kLeaderPeer, latency};
    feed_soon(PeerUp{});
  });
}

void Worker::act(const Send& send) {
  const auto found = connections_.find(send.peer);
  if (found == connections_.end()) return;
  const Connection& connection = found->second;
  connection.wire->push_back(send.message);
  deliver_after(connection.latency,
                {id_.address, connection.other, connection.their_id, connection.wire});
}

void Worker::deliver_after(milliseconds delay, Delivery delivery) {
  place_.engine.after(delay, [place = place_, delivery = std::move(delivery)]() mutable {
    Worker* sender = place.net.find(delivery.from);
    Worker* reader = place.net.find(delivery.to);
    if (reader == nullptr || delivery.wire->empty()) return;
    if (reader->is_cut_ || (sender != nullptr && sender->is_cut_)) {
      return reader->deliver_after(kResendEvery, std::move(delivery));
    }
    const Message message = std::move(delivery.wire->front());
    delivery.wire->pop_front();
    const auto known = reader->connections_.find(delivery.their_id);
    if (known != reader->connections_.end() && known->second.other == delivery.from) {
      reader->feed(PeerSaid{delivery.their_id, message});
    }
  });
}

void Worker::act(const HangUp& hang_up) { drop(hang_up.peer, true); }

// ---- processes and storage

void Worker::act(const SelectCheckpoint& select) {
  feed_soon(place_.training.select(job_uid_, select.lineage),
            place_.engine.between(milliseconds{1}, milliseconds{500}));
}

void Worker::act(const StartProcesses& start) {
  placement_ = start.placement;
  start_process();
}

void Worker::start_process() {
  PAWL_CHECK(!has_process_, "a process is started beside another one in its place");
  has_process_ = true;
  is_stopping_process_ = false;
  self_ = std::make_shared<Rank*>(this);
  Training& training = place_.training;
  const bool is_told_to = training.starts_to_fail > 0;
  if (is_told_to) --training.starts_to_fail;
  const bool crashes =
      is_told_to || (training.may_fail && place_.engine.chance(place_.knobs.crash_at_start));
  if (id_.runtime != api::RuntimeKind::kNative) training.expect_program(job_uid_, *placement_);
  const milliseconds delay = place_.knobs.pace.process_start +
                             place_.engine.between(milliseconds{10}, milliseconds{1'500});
  place_.engine.after(delay, [this, self = self_, crashes] {
    if (*self == nullptr) return;
    if (crashes) {
      AttemptTruth& truth = place_.truth.of(job_uid_, attempt());
      ++truth.faults;
      ++truth.at_start;
      return exit_process(1, 0, false);
    }
    if (id_.runtime == api::RuntimeKind::kNative) {
      return say(api::channel::Hello{
          .data_port = 4000, .config_hash = "h", .holds_part = place_.knobs.holds_parts});
    }
    place_.training.run_program(job_uid_, *placement_, *this);
  });
}

void Worker::act(const TellProcess& tell) {
  if (!has_process_) return;
  if (const auto* welcome = std::get_if<api::channel::Welcome>(&tell.message)) {
    place_.training.enter(job_uid_, *welcome, *this);
  } else if (std::holds_alternative<api::channel::Park>(tell.message)) {
    const std::int64_t generation = place_.training.generation_of(*this);
    place_.engine.after(place_.engine.between(milliseconds{1}, milliseconds{2'000}),
                        [this, self = self_, generation] {
                          if (*self != nullptr) place_.training.park(*this, generation);
                        });
  } else if (std::holds_alternative<api::channel::CheckpointNow>(tell.message)) {
    place_.training.save_soon(*this);
  } else if (std::holds_alternative<api::channel::Stop>(tell.message)) {
    is_stopping_process_ = true;
    const milliseconds delay = place_.engine.between(milliseconds{1}, place_.knobs.exit_max);
    place_.engine.after(delay, [this, self = self_] {
      if (*self != nullptr) place_.training.save_and_stop(*this);
    });
  }
}

void Worker::act(const StopProcesses& stop) {
  if (!has_process_) return;
  is_stopping_process_ = true;
  const milliseconds wish = place_.engine.between(milliseconds{1}, place_.knobs.exit_max);
  const bool is_killed = wish > stop.grace || place_.training.hangs(*this);
  // One that saves first says that all is well.
  const bool says_well = id_.runtime != api::RuntimeKind::kNative && place_.engine.chance(2'000);
  place_.engine.after(is_killed ? stop.grace : wish, [this, self = self_, is_killed, says_well] {
    if (*self == nullptr) return;
    if (is_killed || !says_well)
      return exit_process(is_killed ? 137 : 143, is_killed ? 9 : 15, true);
    exit_process(0, 0, true);
  });
}

void Worker::act(const WriteShard& write) {
  ShardWritten written = answer_to(write);
  written.shard.file = "f";
  written.shard.bytes = 1;
  if (write.rank == 0) written.shard.manifest_json = "{}";
  feed_soon(written, place_.engine.between(milliseconds{1}, milliseconds{1'000}));
}

void Worker::act(const PublishCheckpoint& publish) {
  place_.training.publish(job_uid_, publish);
  PublishDone done{.step = publish.step};
  done.checkpoint = {.step = publish.step,
                     .uri = "file:///store/" + std::to_string(publish.step),
                     .size_bytes = 1,
                     .digest = "sha256:0"};
  feed_soon(done, place_.engine.between(milliseconds{1}, milliseconds{500}));
}

void Worker::act(const SetReady& ready) { events_.on_ready(ready.is_ready); }

void Worker::act(const WriteTermination& write) {
  termination_ = api::encode_termination(write.failure);
}

void Worker::act(const Note& note) {
  if (place_.engine.is_recording()) {
    place_.engine.trace(id_.pod + ": " + note.event + ": " + note.text);
  }
}

void Worker::act(const Leave& leave) { events_.on_exit(leave.exit_code, termination_); }

}  // namespace pawl::sim
