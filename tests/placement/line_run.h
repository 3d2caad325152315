// Decisions with a long line: 50,000 gangs wait, one that runs ends, and the next ones are placed.
#pragma once

#include "tests/placement/stopwatch.h"

namespace pawl::placement {

struct LineTimes {
  Spent decision_p99;  // from what has ended to who is next, one gang that comes included
  // Of gangs, from an empty cluster until the line is as long again: by each kind of time.
  double admissions_per_s = 0, admissions_per_cpu_s = 0;
};
LineTimes time_line(int hosts, int waiting, int decisions);

}  // namespace pawl::placement
