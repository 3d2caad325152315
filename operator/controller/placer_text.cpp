// Why a gang waits for room, in one sentence with numbers.
#include <string>

#include "operator/controller/placer.h"
#include "operator/controller/placer_gang.h"
#include "operator/controller/queue_limits.h"

namespace pawl::controller {

std::string requests_text(const placement::Resources& requests) {
  std::string text;
  for (const auto& [resource, quantity] : requests) {
    if (resource == placement::kPods || quantity == 0) continue;
    text += (text.empty() ? "" : ", ") + resource + " " + quantity_text(resource, quantity);
  }
  return text;
}

std::string counted(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// How they have to lie, after what they are.
std::string Placer::slices_text(const placement::Ask& ask) const {
  if (!ask.has_slices()) return "";
  return " in slices of " + std::to_string(ask.slices.size) + ", each within one " +
         levels_.name_at(ask.slices.depth) + (ask.required_depth > 0 ? "," : "");
}

// Within which domains it has to be, and what the best of them has.
std::string Placer::nearness(const admission::Gang& gang) {
  const placement::Topology& topology = ledger_.topology();
  const placement::Room& room = ledger_.room(gang.shape);
  const placement::Ask ask = admission::ask_of(ledger_, gang);
  const int depth = ask.required_depth;
  if (depth == 0 && ask.has_slices())
    return ": " + std::to_string(placement::largest(topology, room, ask).units) +
           " would fit so, in all ";
  if (depth == 0) return ": ";
  const std::string level = levels_.name_at(depth);
  if (ask.beside.empty()) {
    const auto most = placement::largest(topology, room, ask);
    const std::string best = most.domain == nullptr ? "" : level + " " + most.domain->path;
    return " within one " + level + ": " +
           (best.empty() ? "" : best + " would hold " + std::to_string(most.units) + ", in all ");
  }
  const placement::Domain& domain = placement::domain_of(topology, depth, ask.beside.front());
  const int units = room.units_in(topology, depth, domain);
  return " within " + level + " " + domain.path + ", where the others are: it would hold " +
         std::to_string(units) + ", in all ";
}

// What is kept for it, and when that is enough.
std::string Placer::kept_text(const admission::Reservation& kept, int units, TimePoint now) {
  const int nodes = static_cast<int>(kept.hosts.size());
  std::string text = "; " + counted(nodes, "node");
  if (kept.depth > 0) text += " of " + levels_.name_at(kept.depth) + " " + kept.domain->path;
  text += (nodes == 1 ? " is" : " are") + std::string(" kept for it, with room for ") +
          std::to_string(units - kept.lacking) + " of its workers now";
  if (kept.begin == placement::Outlook::kUnknown || kept.begin <= now) return text;
  return text + ", and for all by " + format_time(kept.begin) + " at the latest";
}

// What the quota of its queue lacks, and why others may go before it.
std::string Placer::shortage_text(const admission::Gang& gang,
                                  const admission::Verdict& verdict) const {
  const admission::Shortage& lacking = *verdict.shortage;
  const auto text = [&](std::int64_t quantity) {
    return quantity_text(lacking.resource, quantity);
  };
  std::string sentence =
      "no quota for " + counted(admission::charged_units(gang, gang.ask.units), "worker") +
      " in queue " + gang.queue + ": " + lacking.resource + " " + text(lacking.needed) +
      " is needed, " + text(lacking.available) + " can be had (" + text(lacking.used) + " of " +
      text(lacking.nominal) + " used)";
  if (lacking.is_for_ever)
    return sentence + ", and never more than the quotas allow: ask for less, or have them raised";
  if (verdict.ahead > 0) sentence += "; " + counted(verdict.ahead, "job") + " before it in line";
  return sentence + "; it starts when jobs end or quotas are raised";
}

std::string Placer::leaving_text(const std::string& id) const {
  const int jobs = preemptor_.leaving_for(id);
  if (jobs == 0) return "";
  return "; " + counted(jobs, "job") + (jobs == 1 ? " leaves" : " leave") + " for it";
}

std::string Placer::obstacle(const admission::Gang& gang, const admission::Verdict& verdict,
                             TimePoint now) {
  if (verdict.shortage) return shortage_text(gang, verdict) + leaving_text(gang.id);
  if (verdict.is_behind)
    return "queue " + gang.queue + " is FIFO, and " + counted(verdict.ahead, "job") +
           (verdict.ahead == 1 ? " is" : " are") + " before it in line";
  const placement::Room& room = ledger_.room(gang.shape);
  int fit = 0, nodes = 0;
  for (const int units : room.units()) {
    fit += units;
    nodes += units > 0 ? 1 : 0;
  }
  const std::string each = requests_text(gang.shape.requests);
  std::string text = "no room for " + counted(gang.ask.units, "worker") +
                     (each.empty() ? "" : " of " + each + " each") + slices_text(gang.ask) +
                     nearness(gang) + std::to_string(fit) + " would fit, on " +
                     std::to_string(nodes) + " of " +
                     counted(static_cast<int>(room.units().size()), "node");
  if (verdict.ahead > 0) text += "; " + counted(verdict.ahead, "job") + " before it in line";
  if (verdict.kept) text += kept_text(*verdict.kept, gang.ask.units, now);
  text += leaving_text(gang.id);
  if (gang.is_enough && !gang.avoided.empty()) text += "; nodes that it avoids do not count";
  if (verdict.is_passed_over) text += "; the room is kept for jobs that have waited for longer";
  return text + "; it starts when pods end or nodes are added";
}

// Whoever waits far back in line asks when its time comes: an autoscaler is not to add nodes for
// all at once.
bool Placer::lacks_nodes(const admission::Gang& gang, const admission::Verdict& verdict) const {
  const bool waits_for_others = verdict.shortage || verdict.is_behind || verdict.is_passed_over;
  const bool is_member = gang.is_underway && !policy_.asks_by_pods;
  return !waits_for_others && !is_member && !gang.is_growth && verdict.ahead < kAskersMax &&
         preemptor_.leaving_for(gang.id) == 0;
}

// All of a gang that has to be near each other. In slices it needs a part of the nodes that it
// would leave: most of its slices stay. What its other pods hold may be free soon, where they are.
bool Placer::fits_elsewhere(const admission::Gang& gang, const Asked& asked) {
  const placement::Ask& whole = asked.whole;
  if (whole.required_depth == 0 && !whole.has_slices()) return false;
  const placement::Topology& topology = ledger_.topology();
  placement::Room room = ledger_.room(gang.shape);
  if (whole.has_slices()) {
    const placement::Ledger::Leaver itself{gang.id, asked.staying};
    placement::Clearing clearing = ledger_.clearing(gang.shape, std::span(&itself, 1));
    const placement::HostRange all{0, topology.hosts()};
    constexpr std::size_t kSpare = 0;
    clearing.take_out(kSpare, all);
    room = clearing.room(topology, all);
  }
  line_.close_kept(ledger_, gang, room);
  return placement::largest(topology, room, whole).units >= whole.units;
}

Placer::Answer Placer::refusal(const admission::Verdict& verdict, Asked& asked, TimePoint now) {
  const admission::Gang& gang = *line_.find(verdict.id);
  if (!lacks_nodes(gang, verdict)) {
    asked.lacks_nodes_since.reset();
  } else if (!asked.lacks_nodes_since) {
    asked.lacks_nodes_since = now;
  }
  Answer answer{{.obstacle = obstacle(gang, verdict, now),
                 .lacks_quota = verdict.shortage.has_value(),
                 .lacks_nodes_since = asked.lacks_nodes_since,
                 .keeps_quota = gang.keeps_quota},
                verdict.ahead};
  answer.seating.is_room_elsewhere =
      gang.is_underway && !verdict.shortage && fits_elsewhere(gang, asked);
  return answer;
}

}  // namespace pawl::controller
