#include "common/api/codec.h"
#include "common/api/codec_shared.h"
#include "common/api/contract.h"
#include "common/api/json_fields.h"

namespace pawl::api {

using nlohmann::json;

namespace {

TrainingQueueStatus read_status(Fields& fields) {
  TrainingQueueStatus status;
  fields.read("observedGeneration", status.observed_generation);
  fields.read("usage", status.usage);
  fields.read("running", status.running);
  fields.read("pending", status.pending);
  fields.read("sharePercent", status.share_percent);
  fields.each("quotas", [&](Fields& item) {
    ResourceUse use;
    item.read("resource", use.resource);
    item.read("flavor", use.flavor);
    item.read("used", use.used);
    item.read("borrowed", use.borrowed);
    status.quotas.push_back(std::move(use));
  });
  return status;
}

}  // namespace

Result<TrainingQueue> decode_training_queue(const json& object) {
  std::optional<Error> error;
  Fields fields(object, "", error);
  TrainingQueue queue;
  queue.meta = read_meta(fields);
  fields.child("spec", [&](Fields& spec) {
    std::string order = "Backfill";
    spec.read("order", order);
    spec.read("weight", queue.weight);
    queue.is_fifo = order == "FIFO";
    spec.read("minRuntimeSeconds", queue.min_runtime_seconds);
    spec.child("preemption", [&](Fields& preemption) {
      std::string within = "LowerPriority", reclaim = "Any";
      preemption.read("withinQueue", within);
      preemption.read("reclaim", reclaim);
      queue.preempts_within = within != "Never";
      if (reclaim == "LowerPriority") queue.reclaim = Reclaim::kLowerPriority;
      if (reclaim == "Never") queue.reclaim = Reclaim::kNever;
    });
    spec.each("quotas", [&](Fields& item) {
      ResourceQuota quota;
      item.read("resource", quota.resource);
      item.read("flavor", quota.flavor);
      item.read_quantity("nominal", quota.nominal);
      item.read_quantity("borrowingLimit", quota.borrowing_limit);
      item.read_quantity("lendingLimit", quota.lending_limit);
      queue.quotas.push_back(std::move(quota));
    });
  });
  fields.child("status", [&](Fields& status) { queue.status = read_status(status); });
  if (error) return tl::make_unexpected(*error);
  return queue;
}

json encode_status(const TrainingQueueStatus& status) {
  json object = {{"observedGeneration", status.observed_generation},
                 {"running", status.running},
                 {"pending", status.pending},
                 {"sharePercent", status.share_percent},
                 {"usage", status.usage},
                 {"quotas", json::array()}};
  for (const ResourceUse& use : status.quotas) {
    json item = {{"resource", use.resource}, {"flavor", use.flavor}, {"used", use.used}};
    put(item, "borrowed", use.borrowed);
    object["quotas"].push_back(std::move(item));
  }
  return object;
}

}  // namespace pawl::api
