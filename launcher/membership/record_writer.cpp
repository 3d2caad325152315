#include "launcher/membership/record_writer.h"

#include <algorithm>
#include <utility>

namespace pawl::membership {

void RecordWriter::write(api::WorkerGroupStatus after) {
  in_flight_ = true;
  if (!unheard_since_) unheard_since_ = ctx_.now.steady;
  ctx_.act(WriteStatus{ctx_.record->meta.resource_version, ctx_.record->status, std::move(after)});
}

std::uint64_t RecordWriter::ask_for_record() {
  ctx_.act(ReadRecord{++last_read_});
  return last_read_;
}

void RecordWriter::on_done(const WriteDone& done) {
  in_flight_ = false;
  switch (done.outcome) {
    case WriteOutcome::kApplied:
      backoff_ = {};
      unheard_since_.reset();
      return;
    case WriteOutcome::kUnclear:
      ctx_.note("status_write_unclear", done.why);
      awaited_read_ = ask_for_record();
      return;
    case WriteOutcome::kRefused:
      // Not applied: the server is away, throttles, or says no. Trying the same again at once would
      // not help.
      backoff_ =
          std::clamp(backoff_ * 2, ctx_.timings.write_retry_first, ctx_.timings.write_retry_max);
      retry_at_ = ctx_.now.steady + backoff_;
      ctx_.note("status_write_refused", done.why, true);
      return;
  }
}

void RecordWriter::on_record(std::uint64_t read_id) {
  unheard_since_.reset();
  if (awaited_read_ && read_id >= *awaited_read_) awaited_read_.reset();
}

}  // namespace pawl::membership
