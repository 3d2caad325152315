// What the placer's files share: names in the ledger, and when a job that has been placed will have
// ended. Pure.
#pragma once

#include <optional>
#include <string>

#include "common/api/types.h"
#include "operator/controller/cache.h"

namespace pawl::controller {

// For so many gangs an autoscaler is asked at one time.
inline constexpr int kAskersMax = 16;

// Of a gang, from its id.
inline JobKey key_of(const std::string& id) {
  const auto slash = id.find('/');
  return {id.substr(0, slash), id.substr(slash + 1)};
}

// Of one of the job's pods.
inline std::string ledger_key(const JobKey& key, const std::string& pod) {
  return key.ns + "/" + pod;
}
inline std::string pod_of(const std::string& ledger_key) {
  return ledger_key.substr(ledger_key.find('/') + 1);
}

// "nvidia.com/gpu 8, cpu 32"; without what every pod takes.
std::string requests_text(const placement::Resources& requests);
std::string counted(int count, const char* what);  // "1 node", "2 nodes"

// When its pods will have ended, if its time began then; nothing: it may run for ever.
std::optional<TimePoint> end_after(const api::TrainingJob& job, std::optional<TimePoint> start);

}  // namespace pawl::controller
