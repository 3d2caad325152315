// Where the time of a step goes: what a gang of ranks writes, and what it says of a rank that is
// late.
#include "trainer-runtime/trainer/trace.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <set>
#include <thread>

#include "common/base/json.h"
#include "tests/unit/trainer/gang.h"

using namespace pawl;
using namespace std::chrono_literals;
using nlohmann::json;
using test::Rank;
using trainer::Trace;

namespace {

struct Span {
  std::string name;
  std::int64_t begun = 0, ended = 0;
  json arguments;
};

// The events of a row, by their begin; what holds others comes before them.
std::vector<Span> row_of(const json& trace, int row) {
  std::vector<Span> spans;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["tid"] != row) continue;
    const std::int64_t begun = event["ts"];
    spans.push_back(
        {event["name"], begun, begun + event["dur"].get<std::int64_t>(), event["args"]});
  }
  std::ranges::stable_sort(spans, [](const Span& a, const Span& b) {
    return a.begun != b.begun ? a.begun < b.begun : a.ended > b.ended;
  });
  return spans;
}

std::vector<Span> named(const std::vector<Span>& spans, const std::string& name,
                        bool is_so = true) {
  std::vector<Span> found;
  std::ranges::copy_if(spans, std::back_inserter(found),
                       [&](const Span& span) { return (span.name == name) == is_so; });
  return found;
}

// Some take less than the file's microsecond.
void check_no_overlap(std::vector<Span> spans) {
  std::ranges::stable_sort(spans, [](const Span& a, const Span& b) {
    return std::pair{a.begun, a.ended} < std::pair{b.begun, b.ended};
  });
  for (std::size_t i = 1; i < spans.size(); ++i) CHECK(spans[i - 1].ended <= spans[i].begun);
}

json trace_in(const std::string& folder, const std::string& name) {
  INFO(name);
  REQUIRE(std::filesystem::exists(folder + "/" + name));
  const json trace = parse_json(test::read_whole(folder + "/" + name));
  REQUIRE(trace.is_object());
  return trace;
}

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

TrainerConfig traced_config(const test::Folder& folder, std::int64_t first_step) {
  TrainerConfig config = test::small_config(folder.write("text/a", test::small_text(20'000)));
  config.steps = 8;
  config.trace = {folder.path() + "/deep/traces", first_step, 3};
  return config;
}

bool has_line(const Rank& rank, const std::string& part) {
  return std::ranges::any_of(
      rank.lines, [&](const auto& line) { return line.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("trace: each rank writes the steps that were asked for, and their parts make them up",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = traced_config(folder, 4);
  config.parallel.zero = 1;
  const auto ranks = test::run_gang(config, {.world_size = 2});
  for (const Rank& rank : ranks) REQUIRE(rank.outcome);
  CHECK(has_line(ranks[0],
                 "trace: steps 4 to 6 are in " + config.trace.folder + "/trace-rank0.json"));
  CHECK(files_in(config.trace.folder) == 2);  // neither a trial nor a temporary file
  for (int rank = 0; rank < 2; ++rank) {
    const json trace = trace_in(config.trace.folder, "trace-rank" + std::to_string(rank) + ".json");
    CHECK(trace["otherData"] ==
          json{{"rank", rank}, {"ranks", 2}, {"generation", 1}, {"events_without_room", 0}});
    for (const json& event : trace["traceEvents"]) CHECK(event["pid"] == rank);
    const auto training = row_of(trace, 0), network = row_of(trace, 1);
    const auto steps = named(training, "step"), phases = named(training, "step", false);
    REQUIRE(steps.size() == 3);
    check_no_overlap(steps);
    check_no_overlap(phases);
    check_no_overlap(network);
    std::set<std::string> names;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Span& step = steps[i];
      CHECK(step.arguments["step"] == static_cast<std::int64_t>(4 + i));
      const std::int64_t whole = step.ended - step.begun;
      CHECK(step.arguments["exposed_us"] <= whole);
      CHECK(step.arguments["exposed_percent"] <= 100);
      std::int64_t parts = 0, waited = 0;
      for (const Span& phase : phases) {
        if (phase.arguments["step"] != step.arguments["step"]) continue;
        CHECK((phase.begun >= step.begun && phase.ended <= step.ended));
        parts += phase.ended - phase.begun;
        waited += phase.arguments["waited_us"].get<std::int64_t>();
        names.insert(phase.name);
      }
      CHECK(parts == whole);
      CHECK(waited <= step.arguments["exposed_us"].get<std::int64_t>());
      // One reduce-scatter and one all-gather of the only bucket, and the agreement.
      const auto count = std::ranges::count_if(network, [&](const Span& one) {
        return one.begun >= step.begun && one.ended <= step.ended;
      });
      CHECK(count == 3);
    }
    CHECK(names == std::set<std::string>{"agree", "backward", "data", "forward", "optimizer",
                                         "other", "reduce"});
    CHECK(network.size() == 9);
    for (std::size_t i = 1; i < network.size(); ++i)
      CHECK(network[i].arguments["sequence"] ==
            network[i - 1].arguments["sequence"].get<int>() + 1);
    CHECK(network[0].name == "reduce-scatter");
    CHECK(network[0].arguments["bytes"] == 4 * ranks[0].arrays->parameters.size());
  }
}

TEST_CASE("trace: a late rank is exposed time of the other, in its file and in the log",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = traced_config(folder, 4);
  config.log_every = 1;
  constexpr auto kLate = 600ms;
  const auto ranks = test::run_gang(config, {.world_size = 2, .prepare = [&](Rank& rank) {
                                               if (rank.ring->rank() == 0) return;
                                               // Before it agrees to the fifth step.
                                               rank.session.orders = [&](std::int64_t poll) {
                                                 if (poll == 4) std::this_thread::sleep_for(kLate);
                                                 return trainer::Orders{};
                                               };
                                             }});
  for (const Rank& rank : ranks) REQUIRE(rank.outcome);
  const auto waited = [&](int rank, const char* what, const char* key) -> std::int64_t {
    const json trace = trace_in(config.trace.folder, "trace-rank" + std::to_string(rank) + ".json");
    return named(row_of(trace, 0), what).at(1).arguments[key];
  };
  CHECK(waited(0, "step", "exposed_us") >= 200'000);
  CHECK(waited(0, "agree", "waited_us") >= 200'000);
  CHECK(waited(1, "agree", "waited_us") < waited(0, "agree", "waited_us"));
  const auto line = std::ranges::find_if(
      ranks[0].lines, [](const auto& one) { return one.starts_with("step 5/8 loss"); });
  REQUIRE(line != ranks[0].lines.end());
  const auto at = line->find(", communication exposed ");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(line->substr(at + 24)) > 10);
}

TEST_CASE("trace: when the ring breaks, each rank leaves what it did last", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = traced_config(folder, 4);
  const auto ranks = test::run_gang(config, {.world_size = 3, .prepare = [&](Rank& rank) {
                                               if (rank.ring->rank() != 1) return;
                                               rank.session.orders = [&](std::int64_t poll) {
                                                 if (poll == 5) rank.ring->abort("ended by \"x\"");
                                                 return trainer::Orders{};
                                               };
                                             }});
  for (int rank = 0; rank < 3; ++rank) {
    const auto& outcome = ranks[static_cast<std::size_t>(rank)].outcome;
    REQUIRE_FALSE(outcome);
    const json flight =
        trace_in(config.trace.folder, "flight-rank" + std::to_string(rank) + ".json");
    CHECK(flight["rank"] == rank);
    CHECK(flight["why"] == outcome.error().message);
    const json& records = flight["records"];
    REQUIRE(records.size() == 12);  // a sum of gradients and the agreement, six times
    CHECK(records[10]["ended"] >= records[10]["begun"]);
    CHECK(records[11]["operation"] == "all-reduce");
    CHECK(records[11]["ended"].is_null());
    CHECK(records[11]["exchanges"] < 4);
    // What there is of the steps, too.
    const json trace = trace_in(config.trace.folder, "trace-rank" + std::to_string(rank) + ".json");
    CHECK(named(row_of(trace, 0), "step").size() == 2);
    check_no_overlap(named(row_of(trace, 0), "step", false));
    check_no_overlap(row_of(trace, 1));
  }
  // Told by nobody, ranks 0 and 2 say what they waited for.
  const auto& why = ranks[2].outcome.error().message;
  CHECK(why.find("all-reduce 12 (bucket 0)") != std::string::npos);
}

TEST_CASE("trace: a rank alone has no network, and says nothing of it", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = traced_config(folder, 7);  // ends with the run, a step too early
  config.log_every = 1;
  const auto ranks = test::run_gang(config, {});
  REQUIRE(ranks[0].outcome);
  CHECK_FALSE(has_line(ranks[0], "exposed"));
  const json trace = trace_in(config.trace.folder, "trace-rank0.json");
  CHECK(named(row_of(trace, 0), "step").size() == 2);
  const auto phases = named(row_of(trace, 0), "step", false);
  check_no_overlap(phases);
  CHECK(named(phases, "validate").size() == 4);  // behind the last step
  CHECK(row_of(trace, 1).empty());
  config.trace.first_step = 9;
  config.trace.folder += "/none";
  CHECK(has_line(test::run_gang(config, {})[0],
                 "trace: none is written: the run has ended before step 9"));
}

TEST_CASE("trace: what has no room is counted, and a later generation has a file of its own",
          "[trainer]") {
  const test::Folder folder;
  const auto ring = collective::make_self();
  const FakeClock clock;
  std::vector<std::string> lines;
  Trace trace({folder.path() + "/t", 1, 1},
              {.generation = 3,
               .start_step = 10,
               .events_max = 4,
               .print = [&](const std::string& line) { lines.push_back(line); }},
              *ring, clock);
  REQUIRE(trace.open());
  trace.begin_step(11);
  for (int i = 0; i < 5; ++i) trace.enter("forward");
  trace.end_step();
  trace.begin_step(12);  // behind the last
  trace.end_step();
  trace.finish(true);
  const json written = trace_in(folder.path() + "/t", "trace-rank0-generation3.json");
  CHECK(row_of(written, 0).size() == 4);
  CHECK(written["otherData"]["events_without_room"] == 3);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "trace: 3 events of rank 0 had no room and are not in trace-rank0-generation3.json");
}

TEST_CASE(
    "trace: a folder that cannot be written ends a run before its first step, and none that "
    "goes on",
    "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = traced_config(folder, 1);
  config.trace.folder = folder.write("file", "") + "/traces";
  const auto ranks = test::run_gang(config, {});
  REQUIRE_FALSE(ranks[0].outcome);
  CHECK(ranks[0].outcome.error().code == Code::kInvalid);
  const std::string& why = ranks[0].outcome.error().message;
  CHECK(why.starts_with("trace.folder: "));
  CHECK(why.find("/file") != std::string::npos);
  CHECK(why.ends_with("; name a folder that every rank can make and write"));
  CHECK(ranks[0].session.reports.empty());

  const auto ring = collective::make_self();
  const FakeClock clock;
  std::vector<std::string> lines;
  const auto print = [&](const std::string& line) { lines.push_back(line); };
  Trace goes_on(config.trace, {.start_step = 100, .print = print}, *ring, clock);
  CHECK(goes_on.open());
  goes_on.begin_step(101);
  goes_on.end_step();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("rank 0 writes no trace: trace.folder: "));

  // Later it is said, and no more.
  lines.clear();
  config.trace = {folder.path() + "/lost", 1, 1};
  Trace later(config.trace, {.print = print}, *ring, clock);
  REQUIRE(later.open());
  std::filesystem::remove_all(config.trace.folder);
  folder.write("lost", "");
  later.begin_step(1);
  later.end_step();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("trace: rank 0 cannot write trace-rank0.json: "));
}
