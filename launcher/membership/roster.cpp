#include "launcher/membership/roster.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/api/contract.h"

namespace pawl::membership {

Joiner* Roster::find(PeerId peer) {
  const auto found = joiners.find(peer);
  return found == joiners.end() ? nullptr : &found->second;
}

bool Roster::are_members(bool (*predicate)(const Joiner&)) const {
  return std::ranges::all_of(members, [&](PeerId peer) {
    const auto found = joiners.find(peer);
    return found != joiners.end() && predicate(found->second);
  });
}

// Anybody with a token of this namespace may join and wait to become eligible. Whoever is not of
// this gang has no say in it: neither a pod of another job, nor one that came too late.
bool Roster::is_ours(const Joiner& joiner) const {
  if (generation > 0) return joiner.member_rank >= 0;
  const api::EligiblePod* pod = ctx_.find_pod(joiner.join.self.uid);
  return pod != nullptr && pod->slot == joiner.join.slot;
}

bool Roster::owns_rank(const Joiner& joiner, int rank) const {
  return joiner.member_rank >= 0 && rank >= 0 && rank / ctx_.id.processes == joiner.member_rank;
}

// A member speaks of its own processes, whatever it says.
api::Failure Roster::failure_of(const Joiner& joiner, api::Failure failure) const {
  const api::EligiblePod* pod = ctx_.find_pod(joiner.join.self.uid);
  failure.pod = pod != nullptr ? pod->name : joiner.join.pod;
  failure.pod_uid = joiner.join.self.uid;
  if (failure.node.empty()) failure.node = joiner.join.node;
  if (!failure.time) failure.time = ctx_.now.wall;
  failure.attempt = ctx_.id.attempt;
  if (joiner.member_rank >= 0 && !owns_rank(joiner, failure.rank))
    failure.rank = joiner.member_rank * ctx_.id.processes;
  return failure;
}

bool Roster::is_wanted(const Joiner& joiner) const {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  return spec.attempt != ctx_.id.attempt || joiner.join.slot < spec.target_members;
}

bool Roster::has_place(int slot) const {
  return std::ranges::any_of(members,
                             [&](PeerId peer) { return joiners.at(peer).join.slot == slot; });
}

bool Roster::is_heard(const std::string& uid) const {
  return std::ranges::any_of(members, [&](PeerId peer) {
    const auto found = joiners.find(peer);
    return found != joiners.end() && found->second.join.self.uid == uid && !found->second.is_lost;
  });
}

// It is no member, or not any more, and may become one.
bool Roster::is_waiting(const std::string& uid) const {
  return std::ranges::any_of(joiners, [&](const auto& entry) {
    const Joiner& joiner = entry.second;
    return joiner.join.self.uid == uid && joiner.member_rank < 0 && !joiner.is_lost &&
           !joiner.is_released && !joiner.is_parted && ctx_.find_pod(uid) != nullptr;
  });
}

// A process that takes another's place may load libraries and data for long.
bool Roster::is_unready(const Joiner& joiner) const {
  return is_elastic() && !joiner.is_lost && joiner.parked && !joiner.ready;
}

bool Roster::are_members_ready() const {
  return count_members([this](const Joiner& joiner) { return is_unready(joiner); }) == 0;
}

bool Roster::is_slow(const Joiner& joiner) const {
  return is_unready(joiner) && ctx_.now.steady >= joiner.parked_at + ctx_.timings.ready_wait;
}

// ---- their order

void Roster::deal_ranks() {
  std::map<int, int> keys;  // by slot
  for (const api::EligiblePod& pod : ctx_.record->spec.pods) keys[pod.slot] = api::rank_key(pod);
  std::ranges::sort(members, {}, [&](PeerId peer) {
    const int slot = joiners.at(peer).join.slot;
    const auto found = keys.find(slot);
    return std::pair{found != keys.end() ? found->second : slot, slot};
  });
}

// ---- the end

// By the ranks that they have: those of a generation that is being committed are not theirs yet.
bool Roster::has_finished() const {
  std::multimap<int, const Joiner*> by_rank;
  for (const PeerId peer : members) {
    const auto found = joiners.find(peer);
    if (found == joiners.end()) return false;
    by_rank.emplace(found->second.member_rank, &found->second);
  }
  int rank = 0;
  for (const auto& [committed, joiner] : by_rank) {
    const bool is_first = rank == 0;
    if (!is_first && ctx_.record->spec.is_rank0_enough) break;
    if (!is_first && ctx_.is_parameter_server(rank, members.size())) break;
    if (!joiner->is_finished) return false;
    ++rank;
  }
  return !members.empty();
}

bool Roster::has_trained_to_end() const {
  return std::ranges::any_of(members, [&](PeerId peer) {
    const auto found = joiners.find(peer);
    if (found == joiners.end()) return false;
    const Joiner& joiner = found->second;
    return joiner.is_finished || (joiner.parked && joiner.parked->has_ended);
  });
}

// ---- how many

std::size_t Roster::least_members() const {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  return static_cast<std::size_t>(
      std::max(is_elastic() ? spec.min_members : spec.target_members, 1));
}

bool Roster::is_elastic() const { return api::may_be_smaller(ctx_.record->spec); }

std::size_t Roster::heard_members() const {
  return count_members([](const Joiner& joiner) { return !joiner.is_lost; });
}

// Of those who are heard and stay.
bool Roster::is_short() const {
  const std::size_t staying = count_members([this](const Joiner& joiner) {
    return is_wanted(joiner) && !joiner.is_lost && !joiner.is_leaving;
  });
  return staying < least_members();
}

bool Roster::is_minority() const {
  return 2 * heard_members() < ctx_.record->status.members.size();
}

// ---- who leads

bool Roster::has_to_go() const {
  const auto own = joiners.find(kSelfPeer);
  return own != joiners.end() && (own->second.is_leaving || !is_wanted(own->second));
}

bool Roster::has_to_end() const {
  const auto own = joiners.find(kSelfPeer);
  return own != joiners.end() && own->second.is_leaving && heir() == nullptr;
}

bool Roster::has_others_to_lead() const {
  return std::ranges::any_of(
      members, [this](PeerId peer) { return peer != kSelfPeer && may_lead(joiners.at(peer)); });
}

// The member of the lowest rank that may lead after this launcher: of the committed generation, and
// heard. One that is to go itself only where nobody else stays.
const Joiner* Roster::heir() const {
  if (!ctx_.record->spec.has_successors || has_trained_to_end()) return nullptr;
  const auto own = joiners.find(kSelfPeer);
  const bool may_be_unwanted = own != joiners.end() && own->second.is_leaving;
  const Joiner* unwanted = nullptr;
  for (const api::Member& member : ctx_.record->status.members) {
    for (const auto& [peer, joiner] : joiners) {
      if (peer == kSelfPeer || joiner.join.self != member.ref || !may_lead(joiner)) continue;
      if (is_wanted(joiner)) return &joiner;
      if (unwanted == nullptr && may_be_unwanted) unwanted = &joiner;
    }
  }
  return unwanted;
}

bool Roster::may_lead(const Joiner& joiner) const {
  const bool is_there = joiner.member_rank >= 0 && !joiner.is_lost && !joiner.is_leaving &&
                        !joiner.is_released && !joiner.is_finished;
  return is_there && ctx_.find_pod(joiner.join.self.uid) != nullptr &&
         !joiner.join.fingerprint.empty();
}

// ---- where they are

// Where they listen, by rank: TensorFlow's want to be told of all, the first one of MPI and of Ray
// starts the others' work there; the rest find each other through rank 0.
std::vector<std::string> Roster::program_addresses() const {
  std::vector<std::string> addresses;
  const api::RuntimeKind runtime = ctx_.id.runtime;
  const bool are_wanted = runtime == api::RuntimeKind::kTensorFlow ||
                          runtime == api::RuntimeKind::kMpi || runtime == api::RuntimeKind::kRay;
  if (!are_wanted) return addresses;
  for (const PeerId peer : members) {
    const Join& join = joiners.at(peer).join;
    const std::string host = join.address.substr(0, join.address.rfind(':'));
    for (const std::uint16_t port : join.ports)
      addresses.push_back(host + ":" + std::to_string(port));
  }
  return addresses;
}

std::optional<api::Straggler> Roster::straggler_of(const api::channel::Report& report) const {
  if (report.slow_rank < 0) return std::nullopt;
  for (const PeerId peer : members) {
    const auto found = joiners.find(peer);
    if (found == joiners.end() || !owns_rank(found->second, report.slow_rank)) continue;
    const Join& join = found->second.join;
    return api::Straggler{.rank = report.slow_rank, .pod = join.pod, .node = join.node};
  }
  return std::nullopt;
}

}  // namespace pawl::membership
