// A machine as placement sees it, and what a pod demands of the machine it runs on: the answer is
// the one of kube-scheduler's NodeAffinity, TaintToleration and NodeUnschedulable. What the pod
// asks for besides (affinity to other pods, spread, host ports, volumes) is left to the scheduler,
// whose no is heard. Pure; values.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operator/placement/resources.h"

namespace pawl::placement {

struct Taint {
  std::string key, value, effect;
  bool operator==(const Taint&) const = default;
};

// Compared to see whether a change of the node changes anything here: heartbeats do not.
struct Host {
  std::string name;
  std::map<std::string, std::string> labels;
  Resources allocatable;
  std::vector<Taint> taints;  // that keep pods away: NoSchedule, NoExecute; a cordon is one
  bool is_ready = false;
  bool operator==(const Host&) const = default;
};
Host host_of(const nlohmann::json& node);

class Demands {
 public:
  // Of a pod's spec; what the API server would refuse matches nothing.
  static Demands of(const nlohmann::json& pod_spec);
  // Not on one that is not ready, whatever the pod tolerates.
  bool allow(const Host& host) const;
  // … once it is ready again, without cordon and without what Kubernetes itself says of its health.
  bool allow_one_day(const Host& host) const;
  // It goes on no other nodes than those with this label.
  bool has_label(const std::string& key, const std::string& value) const;
  auto operator<=>(const Demands&) const = default;

 private:
  struct Requirement {
    std::string key, op;
    std::vector<std::string> values;
    auto operator<=>(const Requirement&) const = default;
  };
  struct Term {
    std::vector<Requirement> labels, fields;
    auto operator<=>(const Term&) const = default;
  };
  struct Toleration {
    std::string key, op, value, effect;
    auto operator<=>(const Toleration&) const = default;
  };
  static Requirement requirement_of(const nlohmann::json& object);
  static bool matches(const Requirement& one, const std::string* value);
  static bool matches(const Term& term, const Host& host);
  static bool tolerates(const Toleration& one, const Taint& taint);
  bool tolerates(const Taint& taint) const;
  bool selects(const Host& host) const;

  std::map<std::string, std::string> selector_;
  bool has_terms_ = false;
  std::vector<Term> terms_;  // one of them
  std::vector<Toleration> tolerations_;
};

}  // namespace pawl::placement
