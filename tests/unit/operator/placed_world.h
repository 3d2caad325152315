// A cluster where Pawl decides on the nodes, as the tests of that see it.
#pragma once

#include <initializer_list>
#include <string>

#include "tests/unit/operator/cluster.h"

namespace pawl::test {

struct PlacedWorld {
  // Each machine has 8 GPUs.
  explicit PlacedWorld(std::initializer_list<const char*> machines) {
    cluster.options.placement = placement::Levels{};
    cluster.start_operator();
    for (const char* name : machines) cluster.set_machine(name, 8);
  }
  std::string told(const std::string& job, const char* field) {
    return status_of(cluster, job).value(field, "");
  }
  std::string phase(const std::string& job) { return told(job, "phase"); }
  std::string reason(const std::string& job) { return told(job, "reason"); }
  std::string message(const std::string& job) { return told(job, "message"); }
  Cluster cluster;
};

}  // namespace pawl::test
