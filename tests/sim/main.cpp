// pawl-sim: runs seeds, scenarios, mutants or long lives; says how to see a failure again, and ends
// with one RESULT line.
#include <unistd.h>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "tests/sim/generation_search.h"
#include "tests/sim/market.h"
#include "tests/sim/mutants.h"
#include "tests/sim/stories.h"
#include "tests/sim/tenants.h"

namespace {

using namespace pawl::sim;
using ull = unsigned long long;

constexpr std::size_t kTraceLines = 80;

struct Options {
  std::uint64_t seeds = 1'000, seed = 1, hours = 0, seconds_max = 0, days = 30;
  std::string scenario, seeds_file, mutant, market;
  bool is_verbose = false, goes_on = false, is_exhaustive = false, has_mutants = false,
       searches_generations = false, is_quick = false, are_tenants = false;
};

struct Tally {
  std::uint64_t seeds = 0, failures = 0, faults = 0, hash = 0;
  std::size_t mutants = 0, killed = 0;
  void add(const RunResult& result) {
    ++seeds;
    failures += result.failure ? 1 : 0;
    hash = pawl::mix64(hash ^ result.hash);
    for (const auto& [name, count] : result.faults) faults += count;
  }
};

// For the signal handler: how to see the present run again.
char replay_line[160] = "";

void on_abort(int) {
  const char head[] = "FAILED O13: aborted\nreplay: ";
  if (::write(2, head, sizeof head - 1) < 0 ||
      ::write(2, replay_line, std::strlen(replay_line)) < 0 || ::write(2, "\n", 1) < 0) {
    ::_exit(3);
  }
  ::_exit(1);
}

void announce(const std::string& arguments) {
  std::snprintf(replay_line, sizeof replay_line, "./dev sim %s", arguments.c_str());
}

int usage() {
  std::fputs(
      "usage: pawl-sim [--seeds N] [--seed S] [--seconds T] [--seeds-file FILE]\n"
      "                [--exhaustive] [--scenario NAME[:BLOW:N]] [--hours H]\n"
      "                [--tenants] [--generations]\n"
      "                [--market NAME:SHARE:elastic|restart-all[:fallback] [--days D]]\n"
      "                [--mutants [--quick]] [--mutant NAME] [--keep-going] [--verbose]\n",
      stderr);
  return 2;
}

bool parse_number(const char* text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), out);
  return error == std::errc{} && *end == '\0';
}

bool parse(int argc, char** argv, Options& options) {
  const auto flag = [&](const std::string& name) -> bool* {
    if (name == "--verbose") return &options.is_verbose;
    if (name == "--keep-going") return &options.goes_on;
    if (name == "--exhaustive") return &options.is_exhaustive;
    if (name == "--tenants") return &options.are_tenants;
    if (name == "--generations") return &options.searches_generations;
    if (name == "--quick") return &options.is_quick;
    return name == "--mutants" ? &options.has_mutants : nullptr;
  };
  const auto number = [&](const std::string& name) -> std::uint64_t* {
    if (name == "--seeds") return &options.seeds;
    if (name == "--seed") return &options.seed;
    if (name == "--seconds") return &options.seconds_max;
    if (name == "--days") return &options.days;
    return name == "--hours" ? &options.hours : nullptr;
  };
  const auto text = [&](const std::string& name) -> std::string* {
    if (name == "--scenario") return &options.scenario;
    if (name == "--mutant") return &options.mutant;
    if (name == "--market") return &options.market;
    return name == "--seeds-file" ? &options.seeds_file : nullptr;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (bool* value = flag(name)) {
      *value = true;
    } else if (i + 1 == argc) {
      return false;
    } else if (std::uint64_t* value_number = number(name)) {
      if (!parse_number(argv[++i], *value_number)) return false;
    } else if (std::string* value_text = text(name)) {
      *value_text = argv[++i];
    } else {
      return false;
    }
  }
  return true;
}

// `again` is the same run, with its story.
void explain(const Failure& failure, const RunResult& again, bool is_verbose) {
  const std::size_t size = again.trace.size();
  for (std::size_t i = is_verbose || size < kTraceLines ? 0 : size - kTraceLines; i < size; ++i) {
    std::printf("%s\n", again.trace[i].c_str());
  }
  std::printf("FAILED %s: %s\nreplay: %s\n", failure.oracle.c_str(), failure.message.c_str(),
              replay_line);
  std::fflush(stdout);
}

// False: it failed.
bool run_one(std::uint64_t seed, const Options& options, Tally& tally) {
  announce((options.are_tenants ? "--tenants --seeds 1 --seed " : "--seeds 1 --seed ") +
           std::to_string(seed));
  const auto run = options.are_tenants ? run_tenants : run_seed;
  const bool is_alone = options.seeds == 1 && options.seeds_file.empty();
  const RunResult result = run(seed, options.is_verbose && is_alone);
  tally.add(result);
  if (!result.failure) {
    if (!options.is_verbose || !is_alone) return true;
    for (const std::string& line : result.trace) std::printf("%s\n", line.c_str());
    return true;
  }
  if (tally.failures > 1) {
    std::printf("seed %llu: %s: %s\n", static_cast<ull>(seed), result.failure->oracle.c_str(),
                result.failure->message.c_str());
  } else {
    explain(*result.failure, run(seed, true), options.is_verbose);
  }
  return false;
}

std::vector<std::uint64_t> read_seeds(const std::string& path) {
  std::vector<std::uint64_t> seeds;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::uint64_t seed = 0;
    const std::string word = line.substr(0, line.find(' '));
    if (parse_number(word.c_str(), seed)) seeds.push_back(seed);
  }
  return seeds;
}

void run_seeds(const Options& options, Tally& tally) {
  if (!options.seeds_file.empty()) {
    for (const std::uint64_t seed : read_seeds(options.seeds_file)) {
      if (!run_one(seed, options, tally) && !options.goes_on) return;
    }
  }
  const std::time_t begin = std::time(nullptr);
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const auto spent = static_cast<std::uint64_t>(std::time(nullptr) - begin);
    if (options.seconds_max > 0 && spent >= options.seconds_max) return;
    if (!run_one(options.seed + i, options, tally) && !options.goes_on) return;
  }
}

void run_scenario(const Options& options, Tally& tally) {
  Experiment experiment;
  if (!parse_experiment(options.scenario, experiment)) return;
  announce("--scenario " + options.scenario);
  const RunResult result = run_experiment(experiment, true);
  tally.add(result);
  if (result.failure) return explain(*result.failure, result, options.is_verbose);
  for (const std::string& line : result.trace) {
    if (options.is_verbose) std::printf("%s\n", line.c_str());
  }
}

void run_exhaustive(const Options& options, Tally& tally) {
  const Exploration all = explore(options.scenario, options.goes_on);
  tally.seeds += all.runs;
  tally.faults += all.faults;
  tally.hash = pawl::mix64(tally.hash ^ all.hash);
  tally.failures += all.failures.size();
  for (const auto& [experiment, failure] : all.failures) {
    std::printf("%s: %s: %s\n", experiment.text().c_str(), failure.oracle.c_str(),
                failure.message.c_str());
  }
  if (all.failures.empty()) return;
  const auto& [experiment, failure] = all.failures.front();
  announce("--scenario " + experiment.text());
  explain(failure, run_experiment(experiment, true), options.is_verbose);
}

void run_mutants(const Options& options, Tally& tally) {
  for (const MutantName& one : mutants()) {
    if (!options.mutant.empty() && options.mutant != one.name) continue;
    if (options.is_quick && !one.is_quick) continue;
    const Kill kill = hunt(one.mutant, options.seed, options.seeds, options.is_exhaustive);
    ++tally.mutants;
    tally.killed += kill.is_killed ? 1 : 0;
    const std::string where =
        kill.experiment.empty() ? std::to_string(kill.seeds) + " seeds" : kill.experiment;
    std::printf("%-24s %s %s\n", one.name, kill.is_killed ? kill.oracle.c_str() : "NOT KILLED",
                where.c_str());
    std::fflush(stdout);
  }
  if (tally.killed < tally.mutants) ++tally.failures;
}

void run_life(const Options& options, Tally& tally) {
  announce("--hours " + std::to_string(options.hours) + " --seed " + std::to_string(options.seed));
  const RunResult result = run_hours(options.seed, static_cast<int>(options.hours), false);
  tally.add(result);
  for (const auto& [name, count] : result.faults) {
    std::printf("%8llu %s\n", static_cast<ull>(count), name.c_str());
  }
  if (!result.failure) return;
  explain(*result.failure, run_hours(options.seed, static_cast<int>(options.hours), true),
          options.is_verbose);
}

// One job in a spot market: a line of figures before the last.
void run_one_market(const Options& options, Tally& tally) {
  MarketRun run;
  if (!parse_market(options.market, run) || options.days == 0) {
    std::fprintf(stderr, "--market wants %s, a share of 0|25|50|75|100, and a policy\n",
                 market_names().c_str());
    ++tally.failures;
    return;
  }
  run.days = static_cast<int>(options.days);
  run.seed = options.seed;
  announce("--market " + options.market + " --days " + std::to_string(run.days) + " --seed " +
           std::to_string(run.seed));
  const MarketResult result = run_market(run);
  ++tally.seeds;
  std::printf("MARKET %s\n", result.line.c_str());
  if (!result.failure) return;
  ++tally.failures;
  std::printf("FAILED %s: %s\nreplay: %s\n", result.failure->oracle.c_str(),
              result.failure->message.c_str(), replay_line);
}

// Every order of events of a gang of three, as README.md tells of it.
void run_generations(Tally& tally) {
  const std::vector<SearchBounds> all = {
      {.founders = 3, .launcher_crashes = 0},
      {.founders = 3, .launcher_crashes = 1},
      {.founders = 2, .launcher_crashes = 1},
      {.founders = 3, .launcher_crashes = 0, .process_crashes = 1},
  };
  announce("--generations");
  for (const SearchBounds& bounds : all) {
    const SearchResult result = search_generations(bounds);
    std::printf("%d founders, %d generations, %d launcher and %d process crashes: %llu states%s\n",
                bounds.founders, bounds.generations, bounds.launcher_crashes,
                bounds.process_crashes, static_cast<ull>(result.states),
                result.is_complete ? "" : ", not all");
    std::fflush(stdout);
    ++tally.seeds;
    if (result.violation.empty() && result.is_complete) continue;
    ++tally.failures;
    for (const std::string& event : result.history) std::printf("  %s\n", event.c_str());
    std::printf("FAILED O12: %s\nreplay: %s\n", result.violation.c_str(), replay_line);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) return usage();
  std::signal(SIGABRT, on_abort);
  pawl::abort_on_bug();
  Tally tally;
  if (options.has_mutants || !options.mutant.empty()) {
    run_mutants(options, tally);
  } else if (!options.market.empty()) {
    run_one_market(options, tally);
  } else if (options.searches_generations) {
    run_generations(tally);
  } else if (options.is_exhaustive) {
    run_exhaustive(options, tally);
  } else if (!options.scenario.empty()) {
    run_scenario(options, tally);
  } else if (options.hours > 0) {
    run_life(options, tally);
  } else {
    run_seeds(options, tally);
  }
  std::printf(
      "RESULT {\"seeds\":%llu,\"failures\":%llu,\"faults\":%llu,\"trace_hash\":\"%016llx\","
      "\"mutants\":%zu,\"mutants_killed\":%zu}\n",
      static_cast<ull>(tally.seeds), static_cast<ull>(tally.failures),
      static_cast<ull>(tally.faults), static_cast<ull>(tally.hash), tally.mutants, tally.killed);
  return tally.failures == 0 ? 0 : 1;
}
