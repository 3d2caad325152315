// pawl-placement [--smoke]: our placement beside Kueue's, Volcano's and KAI's on the same states,
// and how long a decision takes, alone and with 50,000 gangs in line. The last line is RESULT
// {json}; exits 1 where ours is worse.
#include <sys/resource.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>

#include "tests/placement/line_run.h"
#include "tests/placement/peers.h"
#include "tests/placement/states.h"

namespace {

using namespace pawl::placement;

struct Peer {
  const char* name;
  std::function<std::vector<int>(const Topology&, const Room&, const Ask&)> hosts;
  int better = 0, equal = 0, worse = 0;  // ours
};

std::vector<int> hosts_of(const Placement& placement) {
  std::vector<int> hosts;
  for (const Share& share : placement.shares) hosts.push_back(share.host);
  return hosts;
}

// A peer that finds no place counts as worse than any.
void compare(Peer& peer, std::uint32_t seed, const State& state, const std::vector<int>& ours) {
  const std::vector<int> theirs = peer.hosts(state.topology, state.room, state.ask);
  const auto mine = peers::score(state.topology, ours);
  if (theirs.empty() || mine < peers::score(state.topology, theirs)) {
    ++peer.better;
  } else if (mine == peers::score(state.topology, theirs)) {
    ++peer.equal;
  } else {
    ++peer.worse;
    std::printf("worse than %s: seed %u\n", peer.name, seed);
  }
}

bool compare_all(std::vector<Peer>& peers, std::uint32_t states) {
  for (std::uint32_t seed = 1; seed <= states; ++seed) {
    const State state = random_state(seed);
    const auto ours = place(state.topology, state.room, state.ask);
    if (!ours) continue;  // nothing is free
    for (Peer& peer : peers) compare(peer, seed, state, hosts_of(*ours));
  }
  return std::ranges::none_of(peers, [](const Peer& peer) { return peer.worse > 0; });
}

// Gangs of 1 to 1,024 GPUs, on states of their own.
double p99_ms(int hosts, int decisions) {
  const Topology topology = regular_topology(hosts);
  std::vector<double> times;
  for (int i = 0; i < decisions; ++i) {
    const Room room = worn_room(topology, static_cast<std::uint32_t>(1 + i / 11));
    const Ask ask{.units = 1 << (i % 11)};
    const auto start = std::chrono::steady_clock::now();
    const auto placed = place(topology, room, ask);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (placed) times.push_back(time.count());
  }
  std::ranges::sort(times);
  return times[times.size() * 99 / 100];
}

}  // namespace

int main(int count, char** words) {
  const bool is_smoke = count > 1 && std::strcmp(words[1], "--smoke") == 0;
  if (count > 2 || (count == 2 && !is_smoke)) {
    std::fprintf(stderr, "usage: pawl-placement [--smoke]\n");
    return 2;
  }
  std::vector<Peer> peers{
      {"kueue", peers::kueue}, {"volcano", peers::volcano}, {"kai", peers::kai}};
  const std::uint32_t states = is_smoke ? 100 : 1000;
  std::printf("states: seeds 1 to %u\n", states);
  const bool is_best = compare_all(peers, states);
  const double small = p99_ms(15'360, is_smoke ? 22 : 2'000);
  const double large = p99_ms(65'536, is_smoke ? 11 : 1'000);
  const LineTimes line = is_smoke ? time_line(512, 1'000, 100) : time_line(15'360, 50'000, 2'000);
  const LineTimes long_line =
      is_smoke ? time_line(1'024, 1'000, 20) : time_line(65'536, 50'000, 500);
  ::rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  int worse = 0;
  std::string others;
  for (const Peer& peer : peers) {
    worse += peer.worse;
    char text[96];
    std::snprintf(text, sizeof text, R"(%s"%s":{"better":%d,"equal":%d,"worse":%d})",
                  others.empty() ? "" : ",", peer.name, peer.better, peer.equal, peer.worse);
    others += text;
  }
  std::printf(
      R"(RESULT {"p99_ms_15k":%.2f,"p99_ms_65k":%.2f,"line_p99_ms_15k":%.2f,"line_p99_ms_65k":%.2f,)"
      R"("admissions_per_s":%.0f,"admissions_per_s_65k":%.0f,"worse_than_peers":%d,)"
      R"("peers":{%s},"states":%u,"rss_mib":%ld})"
      "\n",
      small, large, line.decision_ms_p99, long_line.decision_ms_p99, line.admissions_per_s,
      long_line.admissions_per_s, worse, others.c_str(), states, usage.ru_maxrss / 1024);
  return is_best ? 0 : 1;
}
