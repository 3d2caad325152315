// A real API server with our CRDs, asked for its verdict on a case. Failures of the server itself
// fail the test.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/api/validate.h"
#include "common/kube/transport.h"
#include "common/os/real_clock.h"
#include "crd_cases.h"

namespace pawl::conformance {

class CrdServer {
 public:
  // Puts the CRDs there, in a namespace of its own, and waits until they are served.
  explicit CrdServer(const std::string& kubeconfig);
  ~CrdServer();
  CrdServer(const CrdServer&) = delete;
  CrdServer& operator=(const CrdServer&) = delete;

  // Empty = accepted. Nothing is left behind on the server.
  std::vector<api::FieldError> verdict(const CrdCase& item);
  // The sentence of every CEL rule that the server holds for our kinds.
  std::set<std::string> rule_messages();

  struct Answer {
    int status = 0;
    nlohmann::json body;
  };
  Answer send(kube::Method method, const std::string& target, const nlohmann::json& body = nullptr);

 private:
  void put_crds();
  // Creates item.before with its status, once for a run of cases that share it.
  void stand(const CrdCase& item);
  void remove_standing();

  RealClock clock_;
  std::unique_ptr<kube::Transport> transport_;
  nlohmann::json standing_;  // what is on the server now; null: nothing
  std::string standing_collection_;
};

}  // namespace pawl::conformance
