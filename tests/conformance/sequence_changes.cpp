#include "sequence_changes.h"

namespace pawl::conformance {

using nlohmann::json;

json one_in_range(Random& random) {
  const json values[] = {0, 1, 3, 2048, 2049, "3", nullptr};
  return values[random.below(std::size(values))];
}

json job_change(Random& random) {
  switch (random.below(9)) {
    case 0:
      return {{"suspend", true}};
    case 1:
      return {{"suspend", nullptr}};
    case 2:
      return {{"replicas", one_in_range(random)}};
    case 3:
      return {{"template", {{"spec", {{"hostNetwork", true}}}}}};
    case 4:
      return {{"runtime", {{"kind", "Torch"}}}};
    case 5:
      return {{"failurePolicy", nullptr}};
    case 6:
      return {{"failurePolicy", {{"maxRestarts", random.below(3)}}}};
    case 7:
      return {{"unknown", {{"a", 1}}}};
    default:
      return {{"processesPerWorker", random.one_in(2) ? json(2) : json("auto")}};
  }
}

json group_change(Random& random) {
  switch (random.below(6)) {
    case 0:
      return {{"attempt", random.below(4)}};
    case 1:
      return {{"attempt", 2}, {"targetMembers", random.below(4)}};
    case 2:
      return {{"pods", {{{"slot", 0}, {"name", "p"}, {"uid", nullptr}}}}};
    case 3:
      return {{"reportSeconds", nullptr}};
    case 4:
      return {{"stopping", true}};
    default:
      return {{"minMembers", "two"}};
  }
}

json job_status(Random& random) {
  switch (random.below(8)) {
    case 0:
      return nullptr;
    case 1:
      return {{"phase", 3}};
    case 2:
      return {{"unknown", 1}};
    case 3:
      return {{"attempt", random.below(3)}};
    case 4:
      return {{"conditions",
               {{{"type", random.one_in(2) ? "Complete" : "Running"},
                 {"status", random.one_in(3) ? "False" : "True"}}}}};
    case 5:
      return json::object();
    default:
      return {{"phase", "Running"}, {"replicas", random.below(3)}, {"selector", "a=b"}};
  }
}

json group_status(Random& random) {
  switch (random.below(6)) {
    case 0:
      return nullptr;
    case 1:
      return {{"attempt", random.below(4)}};
    case 2:
      return {{"term", random.below(3)}};
    case 3:
      return {{"unknown", true}};
    default:
      return {{"attempt", 1}, {"generation", random.below(4)}};
  }
}

}  // namespace pawl::conformance
