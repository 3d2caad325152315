// Decisions with a long line: 50,000 gangs wait, one that runs ends, and the next ones are placed.
#pragma once

namespace pawl::placement {

struct LineTimes {
  double decision_ms_p99 = 0;   // from what has ended to who is next, one gang that comes included
  double admissions_per_s = 0;  // of gangs, from an empty cluster until the line is as long again
};
LineTimes time_line(int hosts, int waiting, int decisions);

}  // namespace pawl::placement
