#include "operator/placement/booking.h"

#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::placement {
namespace {

// By its own deadline, which counts from when the kubelet took it.
std::optional<TimePoint> end_of(const nlohmann::json& pod) {
  const nlohmann::json& seconds = member_of(member_of(pod, "spec"), "activeDeadlineSeconds");
  const auto start = parse_time(text_at(member_of(pod, "status"), "startTime"));
  if (!seconds.is_number_integer() || !start) return std::nullopt;
  return *start + std::chrono::seconds{seconds.get<std::int64_t>()};
}

}  // namespace

std::optional<Booking> booking_of(const nlohmann::json& pod) {
  Booking booking{.host = text_at(member_of(pod, "spec"), "nodeName")};
  const std::string phase = text_at(member_of(pod, "status"), "phase");
  if (booking.host.empty() || phase == "Succeeded" || phase == "Failed") return std::nullopt;
  booking.requests = requests_of(pod);
  const nlohmann::json& meta = member_of(pod, "metadata");
  const std::string job = text_at(member_of(meta, "labels"), api::kLabelJobName);
  if (!job.empty()) booking.owner = text_at(meta, "namespace") + "/" + job;
  booking.end = end_of(pod);
  const std::string restarts = text_at(member_of(pod, "spec"), "restartPolicy");
  booking.is_lasting = job.empty() && !booking.end && (restarts.empty() || restarts == "Always");
  booking.is_fixture = member_of(meta, "annotations").contains("kubernetes.io/config.mirror");
  for (const nlohmann::json& owner : member_of(meta, "ownerReferences"))
    booking.is_fixture = booking.is_fixture || text_at(owner, "kind") == "DaemonSet";
  return booking;
}

}  // namespace pawl::placement
