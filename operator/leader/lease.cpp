#include "operator/leader/lease.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/mutant.h"
#include "common/kube/requests.h"

namespace pawl::leader {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kHandover[] = "pawl.dev/handover";
constexpr char kVersion[] = "pawl.dev/operator-version";
// A holder that writes nonsense does not keep everybody else away for ever.
constexpr seconds kDurationMax{600};

const json& child(const json& object, const char* key) {
  static const json nothing = json::object();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : nothing;
}

std::int64_t number_at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

// What a holder changes when it writes; labels and annotations of others prove no life.
bool is_same_life(const LeaseRecord& a, const LeaseRecord& b) {
  return a.uid == b.uid && a.holder == b.holder && a.renew_time == b.renew_time &&
         a.acquire_time == b.acquire_time && a.transitions == b.transitions;
}

}  // namespace

LeaseRecord decode_lease(const json& object) {
  const json& meta = child(object, "metadata");
  const json& spec = child(object, "spec");
  LeaseRecord record;
  record.uid = text_at(meta, "uid");
  record.resource_version = text_at(meta, "resourceVersion");
  record.version = text_at(child(meta, "annotations"), kVersion);
  record.handover = text_at(child(meta, "annotations"), kHandover);
  record.holder = text_at(spec, "holderIdentity");
  record.acquire_time = text_at(spec, "acquireTime");
  record.renew_time = text_at(spec, "renewTime");
  const std::int64_t duration = number_at(spec, "leaseDurationSeconds");
  record.duration = std::clamp(seconds{duration}, seconds{0}, kDurationMax);
  record.transitions = std::max<std::int64_t>(0, number_at(spec, "leaseTransitions"));
  return record;
}

LeaseMachine::LeaseMachine(LeaseOptions options, Random random)
    : options_(std::move(options)), random_(random) {
  PAWL_CHECK(!options_.identity.empty(), "a candidate needs a name");
  PAWL_CHECK(options_.renew_every + options_.request_timeout < options_.deadline,
             "a renewal may fail once before the deadline");
  PAWL_CHECK(options_.deadline < options_.duration, "a leader stops before others may begin");
}

// Another's lease is free when it did not change for as long as its holder promised to renew it.
SteadyPoint LeaseMachine::takeable_at() const {
  if (!record_ || record_->holder.empty() || is_mine()) return SteadyPoint::min();
  const seconds promised = record_->duration > seconds{0} ? record_->duration : options_.duration;
  return changed_at_ + promised;
}

LeaseMachine::Ask LeaseMachine::choose(SteadyPoint now) const {
  if (asked_ != Ask::kNone || is_released_ || now < retry_at_) return Ask::kNone;
  if (must_read_) return Ask::kRead;
  // What may be ours by a lost reply is read first: another's lease is never cleared.
  if (is_releasing_) return is_mine() ? Ask::kRelease : Ask::kRead;
  if (is_leading()) return now >= renew_at_ ? Ask::kRenew : Ask::kNone;
  if (!record_) return Ask::kCreate;
  return now >= takeable_at() ? Ask::kTake : Ask::kNone;
}

std::optional<kube::HttpRequest> LeaseMachine::next(TimePoint wall, SteadyPoint now) {
  expire(now);
  if (is_releasing_ && asked_ == Ask::kNone && !may_hold_) is_released_ = true;
  const Ask ask = choose(now);
  if (ask == Ask::kNone) return std::nullopt;
  asked_ = ask;
  asked_at_ = now;
  if (ask == Ask::kCreate || ask == Ask::kTake) {
    may_hold_ = true;
    begin_ = describe_begin();  // now: the watch may show our own write before its answer comes
  } else if (ask == Ask::kRenew) {
    begin_ = {"a renewal was answered late", ""};
  }
  return build(ask, wall);
}

LeaseMachine::Begin LeaseMachine::describe_begin() const {
  if (!record_) return {"there was no lease", ""};
  if (is_mine()) return {"the lease was ours already", ""};
  if (!record_->holder.empty()) return {record_->holder + " did not renew it", ""};
  return {"the leader before gave the lease back", record_->handover};
}

SteadyPoint LeaseMachine::due() const {
  const SteadyPoint expiry = is_leading() ? leads_until_ : SteadyPoint::max();
  if (asked_ != Ask::kNone || is_released_) return expiry;
  if (must_read_ || is_releasing_) return std::min(expiry, retry_at_);
  const SteadyPoint wanted = is_leading() ? renew_at_ : takeable_at();
  return std::min(expiry, std::max(wanted, retry_at_));
}

// Whatever our clock does: others know one renewal from another by its time, and may have missed
// those in between.
TimePoint LeaseMachine::rising(TimePoint wall) const {
  if (!record_) return wall;
  const auto last = parse_time(record_->renew_time);
  return last ? std::max(wall, *last + milliseconds{1}) : wall;
}

kube::HttpRequest LeaseMachine::build(Ask ask, TimePoint wall) const {
  const kube::Resource& leases = kube::resources::kLeases;
  const std::string time = format_micro_time(ask == Ask::kRenew ? rising(wall) : wall);
  json meta = json::object(), spec = {{"renewTime", time}};
  if (ask == Ask::kCreate || ask == Ask::kTake) {
    spec["holderIdentity"] = options_.identity;
    spec["leaseDurationSeconds"] = options_.duration.count();
    spec["acquireTime"] = time;
    spec["leaseTransitions"] = record_ ? record_->transitions + 1 : 0;
    meta["annotations"][kVersion] = options_.version;
    if (ask == Ask::kTake) meta["annotations"][kHandover] = nullptr;
  } else if (ask == Ask::kRelease) {
    spec["holderIdentity"] = "";
    spec["leaseDurationSeconds"] = 1;
    meta["annotations"][kHandover] = handover_.empty() ? json(nullptr) : json(handover_);
  }
  kube::HttpRequest request;
  if (ask == Ask::kRead) {
    request = kube::get_request(leases, options_.ns, options_.name);
  } else if (ask == Ask::kCreate) {
    meta["name"] = options_.name;
    meta["namespace"] = options_.ns;
    request = kube::create_request(leases, options_.ns,
                                   {{"apiVersion", "coordination.k8s.io/v1"},
                                    {"kind", "Lease"},
                                    {"metadata", std::move(meta)},
                                    {"spec", std::move(spec)}});
  } else {
    meta["uid"] = record_->uid;
    meta["resourceVersion"] = record_->resource_version;
    request = kube::merge_patch_request(leases, options_.ns, options_.name,
                                        {{"metadata", std::move(meta)}, {"spec", std::move(spec)}});
  }
  request.timeout = options_.request_timeout;
  return request;
}

void LeaseMachine::on_answer(const Result<kube::HttpResponse>& answer, SteadyPoint now) {
  const Ask ask = std::exchange(asked_, Ask::kNone);
  if (ask == Ask::kNone) return;
  expire(now);
  kube::HttpRequest asked;  // only its method and target matter for reading
  asked.method = ask == Ask::kRead     ? kube::Method::kGet
                 : ask == Ask::kCreate ? kube::Method::kPost
                                       : kube::Method::kPatch;
  asked.target = kube::path_of(kube::resources::kLeases, options_.ns, options_.name);
  if (!answer) return on_error(ask, answer.error(), now);
  const Result<json> body = kube::read_response(asked, *answer);
  if (!body) return on_error(ask, body.error(), now);
  retry_at_ = SteadyPoint::min();
  if (ask != Ask::kRead) return on_written(ask, decode_lease(*body), now);
  must_read_ = false;
  on_record(decode_lease(*body), now);
  if (now < takeable_at()) settle();  // else a refused write may come next, and wait longer
}

void LeaseMachine::settle() {
  errors_ = 0;
  trouble_.clear();
}

void LeaseMachine::on_written(Ask ask, LeaseRecord record, SteadyPoint now) {
  settle();
  if (ask == Ask::kRelease) {
    record_ = std::move(record);
    may_hold_ = false;
    is_released_ = true;
    return;
  }
  const SteadyPoint until = asked_at_ + options_.deadline;
  const bool is_good = record.holder == options_.identity && now < until && !is_releasing_;
  // An answer that took so long proves nothing about now: the lease is ours to take again.
  if (!is_good) return on_record(std::move(record), now);
  lead(std::move(record), until);
}

void LeaseMachine::on_error(Ask ask, const Error& error, SteadyPoint now) {
  trouble_ = error.message;
  switch (error.code) {
    case Code::kNotFound:
      must_read_ = false;
      // A POST that is answered 404 means that the namespace is missing.
      if (ask == Ask::kCreate) return back_off(error, now);
      return on_absent();
    case Code::kConflict:
    case Code::kAlreadyExists:
    case Code::kOutcomeUnknown:
    case Code::kCancelled:
      // Somebody else was faster, or a write of ours was or will be applied.
      must_read_ = true;
      return back_off(error, now);
    default:
      return back_off(error, now);
  }
}

void LeaseMachine::back_off(const Error& error, SteadyPoint now) {
  milliseconds wait = options_.retry_first;
  const milliseconds most = is_leading() ? 2 * options_.retry_first : options_.retry_max;
  for (int i = 0; i < errors_ && wait < most; ++i) wait *= 2;
  wait = std::min(wait, most);
  wait += milliseconds{random_.below(static_cast<std::uint64_t>(wait.count()) / 5 + 1)};
  // Whoever leads has no time to lose.
  if (!is_leading()) wait = std::max(wait, error.retry_after.value_or(milliseconds{0}));
  ++errors_;
  retry_at_ = now + wait;
}

void LeaseMachine::on_seen(const LeaseRecord& record, SteadyPoint now) {
  expire(now);
  const bool is_old =
      record_ && kube::is_at_least(record_->resource_version, record.resource_version);
  if (!is_old) on_record(record, now);
}

void LeaseMachine::on_gone(const std::string& uid, SteadyPoint now) {
  expire(now);
  if (record_ && record_->uid == uid) on_absent();
}

void LeaseMachine::on_record(LeaseRecord record, SteadyPoint now) {
  if (!record_ || !is_same_life(*record_, record)) changed_at_ = now;
  record_ = std::move(record);
  if (is_mine()) return;
  may_hold_ = false;
  if (is_leading()) {
    lose(record_->holder.empty() ? "somebody cleared the lease"
                                 : "the lease is held by " + record_->holder);
  }
}

// Deleted under us: whoever creates it next leads.
void LeaseMachine::on_absent() {
  record_.reset();
  may_hold_ = false;
  if (is_leading()) lose("the lease was deleted");
}

void LeaseMachine::lead(LeaseRecord record, SteadyPoint until) {
  if (!is_leading()) {
    ++terms_;
    why_ = begin_.why;
    inherited_ = begin_.handover;
  }
  must_read_ = false;
  record_ = std::move(record);
  leads_until_ = until;
  renew_at_ = asked_at_ + options_.renew_every;
}

void LeaseMachine::lose(std::string why) {
  leads_until_ = SteadyPoint::min();
  ++losses_;
  why_ = std::move(why);
}

void LeaseMachine::expire(SteadyPoint now) {
  if (!is_leading() || now < leads_until_) return;
  if (is_mutant(Mutant::kB21LeadsTooLong)) {
    leads_until_ = now + options_.deadline;
    return;
  }
  lose("it could not be renewed for " + std::to_string(options_.deadline.count()) + " ms");
  must_read_ = true;
}

void LeaseMachine::release(std::string handover) {
  if (is_releasing_) return;
  is_releasing_ = true;
  handover_ = std::move(handover);
  retry_at_ = SteadyPoint::min();
  if (is_leading()) lose("it was given back");
}

}  // namespace pawl::leader
