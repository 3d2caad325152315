#include "cli/logs/log_choice.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "common/api/children.h"
#include "operator/core/failures.h"

namespace pawl::cli {
namespace {

// A pod of the attempt, and the rank of its first process.
struct Candidate {
  const SeenWorker* worker = nullptr;
  int first_rank = 0;
  bool is_by_slot = false;  // the record does not name it
};

std::string attempt_text(std::int64_t attempt) { return "attempt " + std::to_string(attempt); }

std::int64_t wanted_attempt(const JobSnapshot& snapshot, const LogOptions& options) {
  if (options.attempt) return *options.attempt;
  const std::int64_t present = snapshot.job.status.attempt;
  if (options.is_previous) return present - 1;
  // A new attempt without pods yet: the newest pods there are say why the last one ended.
  const bool has_present = std::ranges::any_of(
      snapshot.workers, [&](const SeenWorker& worker) { return worker.attempt == present; });
  return has_present || snapshot.workers.empty() ? present : snapshot.workers.back().attempt;
}

// By rank. Where the record does not know a pod (it is of an earlier attempt, or the gang has not
// formed, or it waits beside it), its slot stands for the member's rank, or the next one that is
// nobody's.
std::vector<Candidate> candidates_of(const JobSnapshot& snapshot, std::int64_t attempt) {
  const int processes = api::processes_per_worker(snapshot.job);
  std::map<int, const SeenWorker*> newest;  // by slot: a replaced pod is not asked
  for (const SeenWorker& worker : snapshot.workers) {
    if (worker.attempt == attempt && attempt > 0) newest[worker.slot] = &worker;
  }
  std::map<int, Candidate> found;  // by the member's rank
  for (const auto& [slot, worker] : newest) {
    const api::Member* member = member_of(snapshot, worker->pod.meta.uid);
    if (member != nullptr) found[member->rank] = {worker, member->rank * processes};
  }
  for (const auto& [slot, worker] : newest) {
    if (member_of(snapshot, worker->pod.meta.uid) != nullptr) continue;
    int rank = slot;
    while (found.contains(rank)) ++rank;
    found[rank] = {worker, rank * processes, true};
  }
  std::vector<Candidate> candidates;
  for (const auto& [rank, candidate] : found) candidates.push_back(candidate);
  return candidates;
}

std::string ask_why(const JobSnapshot& snapshot) {
  const api::ObjectMeta& job = snapshot.job.meta;
  return "`pawl why " + job.name + " -n " + job.ns + "` says ";
}

// The API server answers for it with an empty log.
bool has_no_node(const Candidate& candidate) { return candidate.worker->pod.node.empty(); }

std::string no_node_text(const JobSnapshot& snapshot, const std::string& who) {
  return who + " no node yet, so there is no log; " + ask_why(snapshot) + "what it waits for";
}

// The pods are gone, or were never made.
Result<LogChoice> without_pods(const JobSnapshot& snapshot, std::int64_t attempt) {
  if (snapshot.job.status.attempt == 0) {
    return fail(Code::kNotFound, snapshot.job.meta.name + " has not started, so there is no log; " +
                                     ask_why(snapshot) + "what it waits for");
  }
  if (attempt <= 0) {
    return fail(Code::kNotFound, "there was no such attempt: attempts are numbered from 1 to " +
                                     std::to_string(snapshot.job.status.attempt));
  }
  const std::string gone = "the pods of " + attempt_text(attempt) + " are gone or were never made";
  const auto& failure = snapshot.job.status.last_failure;
  if (failure && failure->attempt == attempt && !failure->log_tail.empty()) {
    return LogChoice{{},
                     failure->log_tail,
                     gone + "; this is the end of the log that the last failure kept: " +
                         core::sentence(*failure)};
  }
  const bool is_present = attempt == snapshot.job.status.attempt;
  return fail(Code::kNotFound, is_present ? gone + ": " + ask_why(snapshot) + "more" : gone);
}

}  // namespace

Result<LogChoice> choose_logs(const JobSnapshot& snapshot, const LogOptions& options) {
  const std::int64_t attempt = wanted_attempt(snapshot, options);
  const std::vector<Candidate> candidates = candidates_of(snapshot, attempt);
  if (candidates.empty()) return without_pods(snapshot, attempt);
  const int processes = api::processes_per_worker(snapshot.job);
  LogChoice choice;
  bool is_by_slot = std::ranges::any_of(candidates, &Candidate::is_by_slot);
  if (!options.has_all_ranks) {
    const int rank = options.rank.value_or(0);
    const auto found = std::ranges::find_if(candidates, [&](const Candidate& candidate) {
      return rank >= candidate.first_rank && rank < candidate.first_rank + processes;
    });
    if (found == candidates.end()) {
      return fail(Code::kNotFound,
                  attempt_text(attempt) + " has no pod with rank " + std::to_string(rank) +
                      "; there are ranks " + std::to_string(candidates.front().first_rank) +
                      " to " + std::to_string(candidates.back().first_rank + processes - 1));
    }
    if (has_no_node(*found)) {
      return fail(Code::kNotFound,
                  no_node_text(snapshot, "pod " + found->worker->pod.meta.name + " has"));
    }
    is_by_slot = found->is_by_slot;
    const bool is_filtered = processes > 1 && options.rank;
    choice.sources.push_back({found->worker->pod.meta.name, found->worker->pod.worker_container, "",
                              is_filtered ? std::optional<int>{rank} : std::nullopt});
  } else {
    for (const Candidate& candidate : candidates) {
      if (has_no_node(candidate)) continue;
      const bool has_own_prefix = processes > 1;
      choice.sources.push_back(
          {candidate.worker->pod.meta.name, candidate.worker->pod.worker_container,
           has_own_prefix ? "" : "[" + std::to_string(candidate.first_rank) + "] ", std::nullopt});
    }
    if (choice.sources.empty()) {
      return fail(Code::kNotFound,
                  no_node_text(snapshot, "the pods of " + attempt_text(attempt) + " have"));
    }
  }
  const auto notice = [&](const std::string& text) {
    choice.notice += (choice.notice.empty() ? "" : "; ") + text;
  };
  if (attempt != snapshot.job.status.attempt) {
    notice("this is " + attempt_text(attempt) + "; the job is in " +
           attempt_text(snapshot.job.status.attempt));
  }
  if (is_by_slot) {
    notice("the gang's record does not name all of these pods: their place stands for the rank");
  }
  const auto waiting = std::ranges::count_if(candidates, has_no_node);
  if (options.has_all_ranks && waiting > 0) {
    notice(std::to_string(waiting) + " more " + (waiting == 1 ? "has" : "have") + " no node yet");
  }
  return choice;
}

bool is_line_of(const std::string& line, int only_rank) {
  if (line.empty() || line.front() != '[') return true;
  int rank = 0;
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data() + 1, end, rank);
  const bool is_prefix =
      error == std::errc{} && end - stop >= 2 && stop[0] == ']' && stop[1] == ' ';
  return !is_prefix || rank == only_rank;
}

}  // namespace pawl::cli
