// One write to the record at a time, and none on an old view: after an unclear answer (conflict, or
// no answer at all) the record is read again before anything else is decided. Pure; owned by
// Membership.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/membership/context.h"

namespace pawl::membership {

class RecordWriter {
 public:
  explicit RecordWriter(Context& ctx) : ctx_(ctx) {}

  bool is_free() const {
    return !in_flight_ && !awaited_read_ && ctx_.record && ctx_.now.steady >= retry_at_;
  }
  // From the newest record to `after`; only while is_free().
  void write(api::WorkerGroupStatus after);
  void on_done(const WriteDone& done);
  void on_record(std::uint64_t read_id);
  // Since when a write is tried, and nothing of the record was heard.
  std::optional<SteadyPoint> unheard_since() const { return unheard_since_; }
  // A read of the caller's own; on_record() gets its id back.
  std::uint64_t ask_for_record();

 private:
  Context& ctx_;
  bool in_flight_ = false;
  std::optional<std::uint64_t> awaited_read_;
  std::uint64_t last_read_ = 0;
  std::chrono::milliseconds backoff_{0};
  SteadyPoint retry_at_{};
  std::optional<SteadyPoint> unheard_since_;
};

}  // namespace pawl::membership
