#include "operator/controller/queue_limits.h"

#include <algorithm>

#include "common/api/contract.h"
#include "common/api/json_fields.h"
#include "operator/controller/flavors.h"

namespace pawl::controller {
namespace {

// Less than a gang may ask for at most, so that it is refused, and does not pass for the limit. 32
// PiB of memory; the sum of what some hundred queues have is still an int64.
constexpr std::int64_t kQuantityMax = placement::kAmountMax / 2;

std::int64_t quantity_of(const std::string& resource, const std::string& text) {
  const int scale = resource == placement::kCpu ? 1'000 : 1;
  return std::min(placement::parse_quantity(text, scale).value_or(0), kQuantityMax);
}

}  // namespace

std::string queue_name(const api::TrainingJob& job) {
  return job.spec.scheduling ? job.spec.scheduling->queue_name : "";
}

admission::Queue limits_of(const api::TrainingQueue& queue) {
  admission::Queue limits{.weight = std::max(queue.weight, 1),
                          .is_fifo = queue.is_fifo,
                          .preempts_within = queue.preempts_within,
                          .reclaim = queue.reclaim,
                          .protected_for = std::chrono::seconds{queue.min_runtime_seconds}};
  for (const api::ResourceQuota& item : queue.quotas) {
    admission::Quota& quota = limits.quotas[quota_name(item)];
    quota.nominal = quantity_of(item.resource, item.nominal);
    if (!item.borrowing_limit.empty())
      quota.borrowing_max = quantity_of(item.resource, item.borrowing_limit);
    if (!item.lending_limit.empty())
      quota.lending_max = quantity_of(item.resource, item.lending_limit);
  }
  return limits;
}

api::TrainingQueueStatus status_of(const api::TrainingQueue& queue, const admission::Quotas& quotas,
                                   int pending) {
  const std::string& name = queue.meta.name;
  api::TrainingQueueStatus status{.observed_generation = queue.meta.generation,
                                  .running = quotas.running(name),
                                  .pending = pending,
                                  .share_percent = quotas.share_percent(name)};
  for (const api::ResourceQuota& item : queue.quotas) {
    const std::string& resource = item.resource;
    const std::int64_t used = quotas.used(name, quota_name(item));
    const std::int64_t nominal = quantity_of(resource, item.nominal);
    const std::string text = quantity_text(resource, used);
    api::ResourceUse use{.resource = resource, .used = text, .flavor = item.flavor};
    if (used > nominal) use.borrowed = quantity_text(resource, used - nominal);
    status.quotas.push_back(std::move(use));
    status.usage += (status.usage.empty() ? "" : ", ") + quota_name(item) + " " + text + "/" +
                    quantity_text(resource, nominal);
  }
  status.usage = api::clip_front(status.usage, api::kMessageBytesMax);
  return status;
}

std::string quantity_text(const std::string& name, std::int64_t quantity) {
  const std::string resource = name.substr(0, name.find('@'));
  if (resource == placement::kCpu) {
    return quantity % 1'000 == 0 ? std::to_string(quantity / 1'000)
                                 : std::to_string(quantity) + "m";
  }
  const bool is_bytes = resource == "memory" || resource == "ephemeral-storage";
  std::string unit;
  for (const char* larger : {"Ki", "Mi", "Gi", "Ti", "Pi"}) {
    if (!is_bytes || quantity < 1'024 || quantity % 1'024 != 0) break;
    quantity /= 1'024;
    unit = larger;
  }
  return std::to_string(quantity) + unit;
}

}  // namespace pawl::controller
