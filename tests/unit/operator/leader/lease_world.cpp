#include "tests/unit/operator/leader/lease_world.h"

#include <utility>

#include "common/base/check.h"
#include "common/kube/requests.h"

namespace pawl::test {

LeaseWorld::Candidate& LeaseWorld::add() {
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

void LeaseWorld::run(milliseconds time, milliseconds tick) {
  const SteadyPoint end = clock.steady_now() + time;
  while (clock.steady_now() < end) {
    step();
    clock.advance(tick);
  }
}

milliseconds LeaseWorld::run_until(const std::function<bool()>& claim, seconds most) {
  const SteadyPoint begin = clock.steady_now();
  while (!claim()) {
    PAWL_CHECK(clock.steady_now() - begin < most, "it never came true");
    run(milliseconds{10});
  }
  return std::chrono::duration_cast<milliseconds>(clock.steady_now() - begin);
}

LeaseWorld::Candidate* LeaseWorld::leader() {
  Candidate* found = nullptr;
  for (const auto& candidate : candidates) {
    if (clock.steady_now() >= candidate->machine->leads_until()) continue;
    PAWL_CHECK(found == nullptr, "two leaders");
    found = candidate.get();
  }
  return found;
}

std::size_t LeaseWorld::index_of(const Candidate& wanted) const {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].get() == &wanted) return i;
  }
  PAWL_CHECK(false, "not a candidate");
  return 0;
}

nlohmann::json LeaseWorld::lease() {
  const auto response =
      store_.handle(kube::get_request(kube::resources::kLeases, "pawl-system", "pawl-operator"));
  return response.status == 200 ? parse_json(response.body) : nlohmann::json{};
}

void LeaseWorld::patch_lease(const nlohmann::json& patch) {
  handle(
      kube::merge_patch_request(kube::resources::kLeases, "pawl-system", "pawl-operator", patch));
}

void LeaseWorld::step() {
  deliver();
  for (const auto& candidate : candidates) {
    if (clock.steady_now() >= candidate->stopped_until) turn(*candidate);
  }
  (void)leader();
}

void LeaseWorld::deliver() {
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

void LeaseWorld::turn(Candidate& candidate) {
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

void LeaseWorld::end(Candidate& candidate, const Result<kube::HttpResponse>& answer) {
  candidate.asked = 0;
  candidate.times_out = SteadyPoint::max();
  candidate.machine->on_answer(answer, clock.steady_now());
}

void LeaseWorld::send(Candidate& candidate, kube::HttpRequest request) {
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

void LeaseWorld::show(Candidate& candidate) {
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

}  // namespace pawl::test
