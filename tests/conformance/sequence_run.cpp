#include "sequence_run.h"

#include <algorithm>

#include "sequence_mask.h"

namespace pawl::conformance {

using nlohmann::json;

namespace {

std::string both(const std::string& what, const json& ours, const json& servers) {
  return what + "\n  ApiStore: " + ours.dump() + "\n  server:   " + servers.dump();
}

// What the watches showed, object by object.
std::string difference_of_events(const Mask& our_mask, const std::vector<Event>& ours,
                                 const Mask& server_mask, const std::vector<Event>& servers) {
  const auto ours_by_object = our_mask.by_object(ours);
  const auto servers_by_object = server_mask.by_object(servers);
  std::set<std::string> keys;
  for (const auto& [key, events] : ours_by_object) keys.insert(key);
  for (const auto& [key, events] : servers_by_object) keys.insert(key);
  const auto at = [](const std::map<std::string, json>& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? json::array() : found->second;
  };
  for (const std::string& key : keys) {
    const json one = at(ours_by_object, key), other = at(servers_by_object, key);
    if (one != other) return both("the events of " + key, one, other);
  }
  return "";
}

struct Transcript {
  std::vector<Reply> ours, servers;
};

// With a wrong object of ours the server goes on to rules that read the wrong field; the twin in
// common/api stops before them. What the twin names the server must name too.
void forgive_further_causes(json& ours, const json& servers) {
  const json::json_pointer causes("/body/causes"), group("/body/details/group");
  if (ours.value("status", 0) != 422 || !ours.contains(group) || ours[group] != "pawl.dev") return;
  if (!servers.contains(causes) || ours[causes].empty()) return;
  const json& theirs = servers[causes];
  const bool is_part = std::all_of(ours[causes].begin(), ours[causes].end(), [&](const json& one) {
    return std::find(theirs.begin(), theirs.end(), one) != theirs.end();
  });
  if (is_part) ours[causes] = theirs;
}

std::optional<Difference> compare_replies(const std::vector<Step>& steps, const Transcript& said,
                                          const Mask& our_mask, const Mask& server_mask) {
  for (std::size_t i = 0; i < said.ours.size(); ++i) {
    json one = our_mask.reply(steps[i], said.ours[i]);
    const json other = server_mask.reply(steps[i], said.servers[i]);
    forgive_further_causes(one, other);
    if (one != other) return Difference{i, both(describe(steps[i]), one, other)};
  }
  return std::nullopt;
}

std::vector<Replay> replays_of(std::uint64_t seed, const std::vector<Event>& events) {
  constexpr const char* kSelectors[] = {"labelSelector=k", "labelSelector=k%3D1",
                                        "labelSelector=k%21%3D2", "labelSelector=k+in+(1,2)",
                                        "fieldSelector=metadata.name%21%3Da"};
  std::vector<Replay> replays;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const std::string& plural = sequence_kinds()[keyed_random(seed, i, 1) % 3];
    const auto count = std::count_if(events.begin(), events.end(),
                                     [&](const Event& event) { return event.plural == plural; });
    replays.push_back({plural, kSelectors[keyed_random(seed, i, 2) % std::size(kSelectors)],
                       keyed_random(seed, i, 3) % static_cast<std::uint64_t>(count)});
  }
  return replays;
}

}  // namespace

std::optional<Difference> SequenceRunner::run(const std::vector<Step>& steps, std::uint64_t seed) {
  const std::string ns = prefix_ + "-" + std::to_string(++namespaces_);
  ServerSide server(server_, ns);
  StoreSide store(ns);
  std::vector<Step> all = steps;
  for (Step& step : closing_steps()) all.push_back(std::move(step));
  Transcript said;
  bool is_in_step = true;
  for (const Step& step : all) {
    said.ours.push_back(store.call(step));
    said.servers.push_back(server.call(step));
    ++requests;
    is_in_step = said.ours.back().status == said.servers.back().status &&
                 server_.wait_for_events(ns, store.events().size());
    if (!is_in_step) break;
  }
  const std::vector<Event> ours = store.events(), servers = server.events();
  events += ours.size();
  const Mask our_mask(ours), server_mask(servers);
  if (auto difference = compare_replies(all, said, our_mask, server_mask)) return difference;
  const std::string what = difference_of_events(our_mask, ours, server_mask, servers);
  if (!what.empty()) return Difference{said.ours.size(), what};
  if (!is_in_step) return Difference{said.ours.size(), "the server's events do not come"};
  for (const Replay& replay : replays_of(seed, ours)) {
    const std::string unlike =
        difference_of_events(our_mask, store.replay(replay), server_mask, server.replay(replay));
    if (unlike.empty()) continue;
    return Difference{said.ours.size(), "a watch of " + replay.plural + " with " + replay.selector +
                                            " from event " + std::to_string(replay.from) + ": " +
                                            unlike};
  }
  return std::nullopt;
}

std::vector<Step> SequenceRunner::shrink(std::vector<Step> steps, std::uint64_t seed,
                                         int runs_max) {
  for (std::size_t width = steps.size() / 2; width > 0; width /= 2) {
    for (std::size_t at = 0; at + width <= steps.size() && runs_max > 0;) {
      std::vector<Step> fewer = steps;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(at + width));
      --runs_max;
      if (run(fewer, seed)) {
        steps = std::move(fewer);
      } else {
        at += width;
      }
    }
  }
  return steps;
}

}  // namespace pawl::conformance
