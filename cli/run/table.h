// The live table of `pawl run` as text: what a job looks like on one line. Pure.
#pragma once

#include <string>

#include "common/api/types.h"

namespace pawl::cli {

// What the table shows; progress comes from the gang itself where it is newer than the job's
// status.
struct JobView {
  std::string phase, ready;
  api::Progress progress;
  bool has_progress = false;
  int restarts = 0;
  std::optional<TimePoint> created;
};

JobView view_of(const api::TrainingJob& job, const std::optional<api::Progress>& gang_progress);

std::string table_header();
std::string table_row(const JobView& view, TimePoint now);
// Equal for two views that differ only in what moves by itself (age, ETA, rate): then no new line
// is worth it.
std::string change_key(const JobView& view);

}  // namespace pawl::cli
