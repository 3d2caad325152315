#include "launcher/membership/failure_log.h"

#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "common/api/report.h"

namespace pawl::membership {
namespace {

constexpr std::size_t kFailuresMax = 16, kEndsMax = 16;  // more would say the same

bool is_same(const api::Failure& a, const api::Failure& b) {
  return a.attempt == b.attempt && a.generation == b.generation && a.pod_uid == b.pod_uid &&
         a.rank == b.rank && a.cause == b.cause;
}

bool is_in(const std::vector<api::Failure>& known, const api::Failure& failure) {
  return std::ranges::any_of(known, [&](const auto& one) { return is_same(one, failure); });
}

bool is_victim(const api::Failure& failure) { return failure.cause == api::kCauseVictim; }

}  // namespace

void FailureLog::add(api::Failure failure, std::int64_t generation) {
  // Another launcher's words must not be able to make the record unwritable.
  if (std::cmp_greater(failure.message.size(), api::kMessageBytesMax))
    failure.message = "(message too long)";
  if (std::cmp_greater(failure.log_tail.size(), api::kLogTailBytesMax)) failure.log_tail.clear();
  failure.generation = generation;
  // The first ones tell what happened, and the record has room for so many.
  const auto alike = std::ranges::count_if(
      failures_, [&](const api::Failure& known) { return is_victim(known) == is_victim(failure); });
  if (std::cmp_less(alike, kFailuresMax)) failures_.push_back(std::move(failure));
}

// What stands in the record is not said again, however many have pushed it out since.
void FailureLog::forget_told(std::int64_t generation, const std::vector<api::Failure>& told) {
  std::erase_if(failures_, [&](const api::Failure& failure) {
    return failure.generation < generation && is_in(told, failure);
  });
}

void FailureLog::forget_silence(const std::string& pod_uid) {
  std::erase_if(failures_, [&](const api::Failure& failure) {
    return failure.pod_uid == pod_uid && api::is_silence(failure);
  });
}

void FailureLog::forget_victims(std::int64_t generation) {
  std::erase_if(failures_, [&](const api::Failure& failure) {
    return is_victim(failure) && failure.generation >= generation;
  });
}

bool FailureLog::has_failed(std::int64_t generation) const {
  return std::ranges::any_of(
      failures_, [&](const api::Failure& failure) { return failure.generation >= generation; });
}

bool FailureLog::has_culprit(std::int64_t generation) const {
  return std::ranges::any_of(failures_, [&](const api::Failure& failure) {
    return failure.generation >= generation && !is_victim(failure);
  });
}

void FailureLog::add_program_end(const api::Failure& failure) {
  if (program_ends_.size() < kEndsMax) program_ends_.push_back(failure);
}

void FailureLog::blame_programs(std::int64_t generation) {
  for (api::Failure& failure : std::exchange(program_ends_, {}))
    add(std::move(failure), generation);
}

void FailureLog::tell(std::vector<api::Failure>& told, bool with_victims,
                      const std::function<bool(const api::Failure&)>& is_wrong) const {
  std::erase_if(told, is_wrong);
  for (const api::Failure& failure : failures_) {
    const bool is_wanted = with_victims || !is_victim(failure);
    if (is_wanted && !is_wrong(failure) && !is_in(told, failure)) told.push_back(failure);
  }
  if (told.size() > kFailuresMax)
    told.erase(told.begin(), told.end() - static_cast<std::ptrdiff_t>(kFailuresMax));
}

}  // namespace pawl::membership
