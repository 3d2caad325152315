// How long it takes to find who has to leave for a gang: a full cluster, many that may be sent
// away.
#pragma once

#include "tests/placement/stopwatch.h"

namespace pawl::placement {

struct SearchTimes {
  Spent p99;
  double ms_max = 0;
  int runners = 0;   // gangs that may be sent away
  int searches = 0;  // that found somebody
};
SearchTimes time_search(int hosts, int runners, int searches);

}  // namespace pawl::placement
