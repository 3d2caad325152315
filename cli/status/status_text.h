// What `pawl status` shows: a table of jobs, or a page about one. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/snapshot.h"

namespace pawl::cli {

struct TableOptions {
  bool has_namespace = false, is_wide = false;
};

// One line for each job, by namespace and name; with a header.
std::string status_table(const std::vector<api::TrainingJob>& jobs, const TableOptions& options,
                         TimePoint now);
std::string status_page(const JobSnapshot& snapshot);

// The phase as people read it: "Pending" where no operator has written one.
std::string phase_text(const api::TrainingJob& job);
// "step 400/800 (50%), loss 2.1234, …"; "" without progress.
std::string progress_text(const api::Progress& progress);

}  // namespace pawl::cli
