// A leader that does not reach the API server, while a member may (design §5, rule 8). Steps go on
// without it; what the gang has to say, and another generation, do not.
//
// 1. For 2 s nothing was heard of a write: the members are asked one after the other whether they
//    can read the record (AskApi).
// 2. One can (HasApi). The server may be back for all: this launcher reads, too, and leads on if
//    that goes through within the time of its own retries.
// 3. Else it tells that member to stand (Stand), which claims the record as it would after a loss.
// 4. Who leads then, or reads that somebody does, sends the record to the one before (Leads), and
//    that one to the others, as those beside it may not reach the API server either. They park and
//    report to the new one.
#include <utility>
#include <vector>

#include "launcher/membership/gang.h"

namespace pawl::membership {

void Gang::seek_deputy() {
  const auto since = writer_.unheard_since();
  const bool is_away = since && ctx_.now.steady - *since >= ctx_.timings.api_away_max;
  // A manifest that waits for the record to be read waits for the API server, too.
  const bool may_go = lives() && !roster_.has_trained_to_end() && !saves_.is_storing() &&
                      ctx_.record->spec.has_successors && !ctx_.is_superseded();
  if (!is_away || !may_go) {
    deputy_ = {};
    return;
  }
  if (deputy_.peer) {
    const auto joiner = roster_.joiners.find(*deputy_.peer);
    const bool is_there = joiner != roster_.joiners.end() && roster_.may_lead(joiner->second);
    const auto time = deputy_.is_told ? ctx_.timings.stand_max : ctx_.timings.api_retry_max;
    if (is_there && ctx_.now.steady < deputy_.since + time) return;
    if (is_there && !deputy_.is_told) {
      ctx_.note("deputy_stands", joiner->second.join.pod + ", for want of the API server", true);
      send(*deputy_.peer, Stand{ctx_.record->status.term});
      deputy_.is_told = true;
      deputy_.since = ctx_.now.steady;
      return;
    }
    deputy_.peer.reset();
  }
  if (ctx_.now.steady < deputy_.asked_at + ctx_.timings.ask_api_every) return;
  std::vector<PeerId> others;
  for (const PeerId peer : roster_.members)
    if (peer != kSelfPeer && roster_.may_lead(roster_.joiners.at(peer))) others.push_back(peer);
  if (others.empty()) return;
  deputy_.asked_at = ctx_.now.steady;
  send(others[deputy_.asked++ % others.size()], AskApi{});
}

void Gang::on_api_reached(const Joiner& joiner) {
  if (deputy_.peer || deputy_.asked == 0) return;
  for (const auto& [peer, one] : roster_.joiners)
    if (&one == &joiner) deputy_.peer = peer;
  deputy_.since = ctx_.now.steady;
  deputy_.is_told = false;
  writer_.ask_for_record();
}

// The word of a member that another launcher leads.
bool Gang::is_deposed_by(PeerId peer, const api::WorkerGroup& group) const {
  const auto joiner = roster_.joiners.find(peer);
  const api::WorkerGroupStatus& status = group.status;
  return joiner != roster_.joiners.end() && roster_.is_ours(joiner->second) && status.leader &&
         status.leader->ref != ctx_.id.self && status.attempt == ctx_.id.attempt &&
         status.term > ctx_.record->status.term;
}

// They hang up when they have read it.
void Gang::follow(PeerId leader) {
  for (const auto& [peer, joiner] : roster_.joiners) {
    if (peer != leader && peer != kSelfPeer && !joiner.is_lost) send(peer, Leads{*ctx_.record});
  }
}

}  // namespace pawl::membership
