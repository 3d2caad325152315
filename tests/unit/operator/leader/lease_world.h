// Candidates for one Lease above the embedded API store, in virtual time: machines without a
// thread, requests and answers that are delayed, lost or late, nodes that stop and go on, wall
// clocks that step. At each instant it checks that at most one candidate leads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/local/api_store.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/kube/requests.h"
#include "operator/leader/lease.h"

namespace pawl::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What the network does with one request; each delay is of one way.
struct Passage {
  milliseconds there{5}, back{5};
  bool is_lost_there = false, is_lost_back = false;
  bool is_refused = false;  // connection refused: surely not applied
};

class LeaseWorld {
 public:
  struct Candidate {
    std::string identity;
    std::unique_ptr<leader::LeaseMachine> machine;
    local::Watch watch;
    bool is_watching = true;
    std::uint64_t asked = 0;  // number of the request under way; answers to others are too late
    SteadyPoint times_out = SteadyPoint::max();
    bool is_write = false;
    SteadyPoint stopped_until = SteadyPoint::min();
    seconds wall_offset{0};
    int reads = 0, writes = 0;
  };

  explicit LeaseWorld(int count, std::uint64_t seed = 1)
      : random_(seed), store_(clock, Random{seed}) {
    for (int i = 0; i < count; ++i) add();
  }

  // A process starts; also the next life of one that was killed.
  Candidate& add() {
    auto candidate = std::make_unique<Candidate>();
    candidate->identity = "operator-" + std::to_string(next_name_++);
    leader::LeaseOptions options;
    options.ns = "pawl-system";
    options.name = "pawl-operator";
    options.identity = candidate->identity;
    options.version = "1";
    candidate->machine = std::make_unique<leader::LeaseMachine>(options, Random{random_.next()});
    const auto watch = store_.begin_watch(kube::watch_request(kube::resources::kLeases, "", {}));
    PAWL_CHECK(watch.has_value(), "the store refuses a watch");
    candidate->watch = *watch;
    candidates.push_back(std::move(candidate));
    return *candidates.back();
  }

  // Its requests may still arrive.
  void kill(std::size_t index) { candidates.erase(candidates.begin() + static_cast<long>(index)); }

  void run(milliseconds time, milliseconds tick = milliseconds{10}) {
    const SteadyPoint end = clock.steady_now() + time;
    while (clock.steady_now() < end) {
      step();
      clock.advance(tick);
    }
  }

  // Runs until `claim` holds; how long that took. At most `most`.
  milliseconds run_until(const std::function<bool()>& claim, seconds most = seconds{60}) {
    const SteadyPoint begin = clock.steady_now();
    while (!claim()) {
      PAWL_CHECK(clock.steady_now() - begin < most, "it never came true");
      run(milliseconds{10});
    }
    return std::chrono::duration_cast<milliseconds>(clock.steady_now() - begin);
  }

  Candidate* leader() {
    Candidate* found = nullptr;
    for (const auto& candidate : candidates) {
      if (clock.steady_now() >= candidate->machine->leads_until()) continue;
      PAWL_CHECK(found == nullptr, "two leaders");
      found = candidate.get();
    }
    return found;
  }
  std::size_t index_of(const Candidate& wanted) const {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].get() == &wanted) return i;
    }
    PAWL_CHECK(false, "not a candidate");
    return 0;
  }
  // The lease as it is stored, empty if there is none.
  nlohmann::json lease() {
    const auto response =
        store_.handle(kube::get_request(kube::resources::kLeases, "pawl-system", "pawl-operator"));
    return response.status == 200 ? parse_json(response.body) : nlohmann::json{};
  }
  void patch_lease(const nlohmann::json& patch) {
    handle(
        kube::merge_patch_request(kube::resources::kLeases, "pawl-system", "pawl-operator", patch));
  }
  kube::HttpResponse handle(const kube::HttpRequest& request) { return store_.handle(request); }

  std::function<Passage(const Candidate&, const kube::HttpRequest&)> passage;
  FakeClock clock;
  std::vector<std::unique_ptr<Candidate>> candidates;
  std::vector<int> statuses;  // of the answers, in the order of the store

 private:
  struct Travelling {
    std::uint64_t number = 0;
    SteadyPoint arrives;
    milliseconds back{0};
    bool is_answered = true;
    kube::HttpRequest request;
  };
  struct Returning {
    std::uint64_t number = 0;
    SteadyPoint arrives;
    Result<kube::HttpResponse> answer;
  };

  void step() {
    deliver();
    for (const auto& candidate : candidates) {
      if (clock.steady_now() >= candidate->stopped_until) turn(*candidate);
    }
    (void)leader();
  }

  void deliver() {
    const SteadyPoint now = clock.steady_now();
    for (std::size_t i = 0; i < there_.size();) {
      if (there_[i].arrives > now) {
        ++i;
        continue;
      }
      const Travelling item = there_[i];
      there_.erase(there_.begin() + static_cast<long>(i));
      const auto response = store_.handle(item.request);
      statuses.push_back(response.status);
      if (item.is_answered) back_.push_back({item.number, now + item.back, response});
    }
  }

  void turn(Candidate& candidate) {
    const SteadyPoint now = clock.steady_now();
    if (candidate.is_watching) show(candidate);
    for (std::size_t i = 0; i < back_.size(); ++i) {
      if (back_[i].number != candidate.asked || back_[i].arrives > now) continue;
      const auto answer = back_[i].answer;
      back_.erase(back_.begin() + static_cast<long>(i));
      end(candidate, answer);
      break;
    }
    if (candidate.asked != 0 && now >= candidate.times_out) {
      end(candidate,
          fail(candidate.is_write ? Code::kOutcomeUnknown : Code::kUnavailable, "no answer"));
    }
    const TimePoint wall = clock.now() + candidate.wall_offset;
    if (auto request = candidate.machine->next(wall, now)) send(candidate, std::move(*request));
  }

  void end(Candidate& candidate, const Result<kube::HttpResponse>& answer) {
    candidate.asked = 0;
    candidate.times_out = SteadyPoint::max();
    candidate.machine->on_answer(answer, clock.steady_now());
  }

  void send(Candidate& candidate, kube::HttpRequest request) {
    const SteadyPoint now = clock.steady_now();
    const Passage way = passage ? passage(candidate, request) : Passage{};
    candidate.is_write = request.method != kube::Method::kGet;
    ++(candidate.is_write ? candidate.writes : candidate.reads);
    candidate.asked = next_number_++;
    candidate.times_out = now + request.timeout;
    if (way.is_refused) {
      back_.push_back({candidate.asked, now + way.back, fail(Code::kUnavailable, "refused")});
    } else if (!way.is_lost_there) {
      there_.push_back(
          {candidate.asked, now + way.there, way.back, !way.is_lost_back, std::move(request)});
    }
  }

  void show(Candidate& candidate) {
    const std::string lines = store_.read_watch(candidate.watch);
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = lines.find('\n', begin);
      const auto event = parse_json(lines.substr(begin, end - begin));
      begin = end + 1;
      const leader::LeaseRecord record = leader::decode_lease(event["object"]);
      if (event["type"] == "DELETED") {
        candidate.machine->on_gone(record.uid, clock.steady_now());
      } else if (event["type"] != "BOOKMARK") {
        candidate.machine->on_seen(record, clock.steady_now());
      }
    }
  }

  Random random_;
  local::ApiStore store_;
  int next_name_ = 0;
  std::uint64_t next_number_ = 1;
  std::vector<Travelling> there_;
  std::vector<Returning> back_;
};

}  // namespace pawl::test
