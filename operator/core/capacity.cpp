// spec.capacity, where the pods themselves do not say it (api/pod_scheduling.h): spot machines that
// are taken back again and again are avoided for a while that doubles, and used again then. A gang
// that is rebuilt all the time costs more than the machines that it saves.
#include <algorithm>
#include <chrono>

#include "common/api/codec.h"
#include "common/api/pod_scheduling.h"
#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;
using std::chrono::seconds;

constexpr int kLostMin = 3, kLostMax = 32;  // the most: of the schema

int spot_places(const Pass& pass) {
  return std::max(pass.size() - pass.job.spec.capacity->on_demand_min, 0);
}

// A large gang loses some all the time; half of it at once, or a small one over and over, is
// another thing. Where each loss rebuilds the gang the few are too many, and of the others that go
// with them nobody hears any more.
std::size_t lost_that_suffice(const Pass& pass) {
  if (!has_successors(pass)) return kLostMin;
  return static_cast<std::size_t>(std::clamp(spot_places(pass) / 2, kLostMin, kLostMax));
}

void avoid_spot(Pass& pass) {
  CapacityStatus& status = pass.next.capacity;
  const bool is_in_a_row = status.until && pass.now < *status.until + pass.policy.spot_avoided_max;
  status.times = is_in_a_row ? status.times + 1 : 1;
  const Policy& policy = pass.policy;
  const std::size_t lost = status.lost_pods.size();
  status.is_spot_avoided = true;
  status.since = pass.now;
  status.until =
      pass.now + doubled(policy.spot_avoided_first, policy.spot_avoided_max, status.times);
  if (is_mutant(Mutant::kI41NeverReturns)) *status.until += std::chrono::hours{24};
  status.lost_pods.clear();
  status.lost_since.reset();
  pass.emit(true, "SpotAvoided",
            std::to_string(lost) + " workers that may be on spot were taken in " +
                std::to_string(pass.policy.spot_window.count() / 60) +
                " minutes: pods that are made prefer on-demand nodes until " +
                format_time(*status.until),
            format_time(*status.since));
}

}  // namespace

// By name, so that a loss that is judged again, after a conflict or a crash, counts once.
void count_spot_losses(Pass& pass, const Loss& loss) {
  CapacityStatus& status = pass.next.capacity;
  if (status.is_spot_avoided || is_mutant(Mutant::kI41SpotForEver)) return;
  // A clock that was set back makes no window longer.
  const bool is_old =
      status.lost_since &&
      (pass.now >= *status.lost_since + pass.policy.spot_window || pass.now < *status.lost_since);
  bool has_new = false;
  for (const std::string& pod : loss.taken) {
    const auto identity = parse_pod_name(pass.job.meta.name, pod);
    if (!identity || !may_be_on_spot(pass.job, identity->slot)) continue;
    if (std::ranges::find(status.lost_pods, pod) != status.lost_pods.end()) continue;
    if (is_old && status.lost_since != pass.now) status.lost_pods.clear();
    if (status.lost_pods.empty()) status.lost_since = pass.now;
    if (status.lost_pods.size() < kLostMax) status.lost_pods.push_back(pod);
    has_new = true;
  }
  if (has_new && status.lost_pods.size() >= lost_that_suffice(pass)) avoid_spot(pass);
}

void return_to_spot(Pass& pass) {
  CapacityStatus& status = pass.next.capacity;
  const auto& capacity = pass.job.spec.capacity;
  if (!capacity || capacity->spot == SpotUse::kNever) {
    status = {};
    return;
  }
  if (!status.is_spot_avoided || !status.until) return;
  const bool is_far = *status.until > pass.now_exact + pass.policy.spot_avoided_max;
  if (pass.now_exact < *status.until && !is_far) return pass.wake(*status.until);
  status.is_spot_avoided = false;
  pass.is_status_due = true;
  pass.emit(false, "SpotReturned", "pods that are made may go to spot nodes again",
            format_time(*status.since));
}

// A gang that may be on spot has its ranks in the order of slots, so that workers that are never
// there also come first when a leader is lost. Machines on demand may be slower to come: the others
// let them begin.
int order_of(const TrainingJob& job, int slot) {
  constexpr int kLater = 10;  // times the launchers' step of a claim (300 ms)
  const bool has_anchor = job.spec.capacity && job.spec.capacity->on_demand_min > 0;
  return has_anchor && may_be_on_spot(job, slot) ? slot + kLater : slot;
}

}  // namespace pawl::core
