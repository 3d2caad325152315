// Why a job is where it is, and what to do next, in one paragraph: from its status, its gang's
// record, its pods and the events about them. What the operator wrote is believed first; the rest
// explains it or fills its silence. Pure.
#pragma once

#include <string>

#include "cli/cluster/snapshot.h"

namespace pawl::cli {

struct Answer {
  std::string because;  // begins in lower case, without a full stop
  std::string next;     // what the reader does now, with the command where there is one
};

Answer answer_why(const JobSnapshot& snapshot);
// "gpt-text is Starting: 1 of 2 workers … . Next: …."
std::string why_paragraph(const JobSnapshot& snapshot);

}  // namespace pawl::cli
