// pawl-placement [--smoke]: our placement beside Kueue's, Volcano's and KAI's on the same states,
// and how long a decision takes, alone and with 50,000 gangs in line, and to find who has to leave
// for a gang. The last line is RESULT {json}; exits 1 where ours is worse.
#include <sys/resource.h>
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/placement/line_run.h"
#include "tests/placement/peers.h"
#include "tests/placement/search_run.h"
#include "tests/placement/states.h"
#include "tests/placement/stopwatch.h"
#include "tests/placement/trace_run.h"

namespace {

using namespace pawl::placement;

std::vector<peers::Tally> compare_all(std::uint32_t states) {
  std::vector<peers::Tally> tallies(peers::all().size());
  for (std::uint32_t seed = 1; seed <= states; ++seed) {
    const State state = random_state(seed);
    const auto score_of = [&](const peers::Strategy& strategy) {
      return peers::score(state.topology, strategy(state.topology, state.room, state.ask));
    };
    const std::vector<int> ours = score_of(peers::ours);
    if (ours.empty()) continue;  // nothing is free
    for (std::size_t peer = 0; peer < tallies.size(); ++peer) {
      const int before = tallies[peer].worse;
      peers::count(tallies[peer], ours, score_of(peers::all()[peer].hosts));
      if (tallies[peer].worse > before)
        std::printf("worse than %s: seed %u\n", peers::all()[peer].name, seed);
    }
  }
  return tallies;
}

// Gangs of 1 to 1,024 GPUs, on states of their own.
Spent time_decisions(int hosts, int decisions) {
  const Topology topology = regular_topology(hosts);
  std::vector<Spent> times;
  for (int i = 0; i < decisions; ++i) {
    const Room room = worn_room(topology, static_cast<std::uint32_t>(1 + i / 11));
    const Ask ask{.units = 1 << (i % 11)};
    const Stopwatch watch;
    const auto placed = place(topology, room, ask);
    if (placed) times.push_back(watch.spent());
  }
  return p99_of(std::move(times));
}

// "philly_kueue":[better, equal, worse, of jobs on more than one host], and a line for each.
std::string traces_text(int hosts, int jobs) {
  std::string text;
  for (const TraceResult& one : run_traces(hosts, jobs)) {
    std::printf(
        "trace %s, %s: of %d jobs %d closer, %d worse; of %d on several hosts %d and %d; "
        "their wait %.3f of ours\n",
        one.trace.c_str(), one.peer.c_str(), jobs, one.all.better, one.all.worse,
        one.wide.better + one.wide.equal + one.wide.worse, one.wide.better, one.wide.worse,
        one.wait_ratio);
    char entry[96];
    std::snprintf(entry, sizeof entry, R"(%s"%s_%s":[%d,%d,%d])", text.empty() ? "" : ",",
                  one.trace.c_str(), one.peer.c_str(), one.wide.better, one.wide.equal,
                  one.wide.worse);
    text += entry;
  }
  return text;
}

}  // namespace

int main(int count, char** words) {
  const bool is_smoke = count > 1 && std::strcmp(words[1], "--smoke") == 0;
  if (count > 2 || (count == 2 && !is_smoke)) {
    std::fprintf(stderr, "usage: pawl-placement [--smoke]\n");
    return 2;
  }
  const std::uint32_t states = is_smoke ? 100 : 1000;
  std::printf("states: seeds 1 to %u\n", states);
  const std::vector<peers::Tally> tallies = compare_all(states);
  const Spent small = time_decisions(15'360, is_smoke ? 22 : 2'000);
  const Spent large = time_decisions(65'536, is_smoke ? 11 : 1'000);
  const LineTimes line = is_smoke ? time_line(512, 1'000, 100) : time_line(15'360, 50'000, 2'000);
  const LineTimes long_line =
      is_smoke ? time_line(1'024, 1'000, 20) : time_line(65'536, 50'000, 500);
  const SearchTimes search =
      is_smoke ? time_search(512, 50, 20) : time_search(15'360, 1'000, 1'000);
  std::printf(
      "search: %d gangs may leave; %d searches that found some: p99 %.1f, longest %.1f ms\n",
      search.runners, search.searches, search.p99.wall_ms, search.ms_max);
  const std::string traces = traces_text(is_smoke ? 256 : 512, is_smoke ? 300 : 10'000);
  ::rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  int worse = 0;
  std::string others;
  for (std::size_t peer = 0; peer < tallies.size(); ++peer) {
    const auto& [better, equal, less] = tallies[peer];
    worse += less;
    char text[96];
    std::snprintf(text, sizeof text, R"(%s"%s":{"better":%d,"equal":%d,"worse":%d})",
                  others.empty() ? "" : ",", peers::all()[peer].name, better, equal, less);
    others += text;
  }
  std::printf(
      R"(RESULT {"p99_ms_15k":%.2f,"p99_ms_65k":%.2f,"line_p99_ms_15k":%.2f,"line_p99_ms_65k":%.2f,)"
      R"("admissions_per_s":%.0f,"admissions_per_s_65k":%.0f,"search_ms_p99":%.2f,)"
      R"("cpu":{"p99_ms_15k":%.2f,"p99_ms_65k":%.2f,"line_p99_ms_15k":%.2f,"line_p99_ms_65k":%.2f,)"
      R"("admissions_per_s":%.0f,"admissions_per_s_65k":%.0f,"search_ms_p99":%.2f},"worse_than_peers":%d,)"
      R"("peers":{%s},"states":%u,"trace":{%s},"rss_mib":%ld})"
      "\n",
      small.wall_ms, large.wall_ms, line.decision_p99.wall_ms, long_line.decision_p99.wall_ms,
      line.admissions_per_s, long_line.admissions_per_s, search.p99.wall_ms, small.cpu_ms,
      large.cpu_ms, line.decision_p99.cpu_ms, long_line.decision_p99.cpu_ms,
      line.admissions_per_cpu_s, long_line.admissions_per_cpu_s, search.p99.cpu_ms, worse,
      others.c_str(), states, traces.c_str(), usage.ru_maxrss / 1024);
  return worse == 0 ? 0 : 1;
}
