// The CRDs on a real API server against their twin in C++: verdict and field must agree for every
// case. PAWL_TEST_KUBECONFIG names the server (e2e/cluster/cluster.py apiserver-only up); without
// it the tests are skipped. Their CustomResourceDefinitions are taken from crds/ and put there by
// the test itself.

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "common/api/validate.h"
#include "common/os/process.h"
#include "crd_cases.h"
#include "crd_server.h"

namespace pawl::conformance {
namespace {

using api::FieldError;
using nlohmann::json;

std::vector<FieldError> verdict_of_twin(const CrdCase& item) {
  if (item.resource == "trainingqueues") return api::validate_training_queue(item.after);
  const bool is_job = item.resource == "trainingjobs";
  std::vector<FieldError> errors =
      is_job ? api::validate_training_job(item.after) : api::validate_worker_group(item.after);
  if (item.write == Write::kCreate) return errors;
  const std::vector<FieldError> more =
      is_job ? api::validate_training_job_update(item.before, item.after)
             : api::validate_worker_group_update(item.before, item.after);
  errors.insert(errors.end(), more.begin(), more.end());
  return errors;
}

std::set<std::string> fields_of(const std::vector<FieldError>& errors) {
  std::set<std::string> fields;
  for (const FieldError& error : errors) fields.insert(error.field);
  return fields;
}

std::set<std::string> missing_in(const std::set<std::string>& whole,
                                 const std::set<std::string>& part) {
  std::set<std::string> missing;
  for (const std::string& field : part) {
    if (!whole.contains(field)) missing.insert(field);
  }
  return missing;
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// The API server's sentence holds ours.
bool says_the_same(const std::vector<FieldError>& ours, const std::vector<FieldError>& servers) {
  for (const FieldError& error : ours) {
    bool is_said = false;
    for (const FieldError& other : servers)
      is_said |= other.message.find(error.message) != std::string::npos;
    if (!is_said) return false;
  }
  return true;
}

struct Tally {
  int accepted = 0, refused = 0;
  std::string said;  // all that the server said
};

Tally compare(CrdServer& server, const std::vector<CrdCase>& cases) {
  Tally tally;
  for (const CrdCase& item : cases) {
    const std::vector<FieldError> servers = server.verdict(item);
    const std::vector<FieldError> ours = verdict_of_twin(item);
    INFO(item.resource << " " << item.name);
    INFO("API server: " << api::join_errors(servers));
    INFO("twin:       " << api::join_errors(ours));
    CHECK(ours.empty() == servers.empty());
    if (item.is_rule) {
      CHECK(joined(fields_of(ours)) == joined(fields_of(servers)));
      CHECK(says_the_same(ours, servers));
    } else {
      // The server goes on to rules that read the wrong field; the twin stops before them.
      CHECK(joined(missing_in(fields_of(servers), fields_of(ours))) == "");
    }
    tally.said += api::join_errors(servers) + "\n";
    (servers.empty() ? tally.accepted : tally.refused) += 1;
  }
  return tally;
}

TEST_CASE("crd: API server and twin agree on every single change of a full object",
          "[conformance]") {
  const std::optional<std::string> kubeconfig = os::env("PAWL_TEST_KUBECONFIG");
  if (!kubeconfig) SKIP("PAWL_TEST_KUBECONFIG is not set");
  CrdServer server(*kubeconfig);
  const Tally tally = compare(server, schema_cases());
  WARN(tally.refused << " refused, " << tally.accepted << " accepted");
  CHECK(tally.refused >= 200);
  CHECK(tally.accepted >= 100);
}

TEST_CASE("crd: API server and twin agree on the rules between fields, to the word",
          "[conformance]") {
  const std::optional<std::string> kubeconfig = os::env("PAWL_TEST_KUBECONFIG");
  if (!kubeconfig) SKIP("PAWL_TEST_KUBECONFIG is not set");
  CrdServer server(*kubeconfig);
  const Tally tally = compare(server, rule_cases());
  WARN(tally.refused << " refused, " << tally.accepted << " accepted");
  CHECK(tally.refused >= 40);
  CHECK(tally.accepted >= 30);
  for (const std::string& message : server.rule_messages()) {
    INFO("no case meets the rule: " << message);
    CHECK(tally.said.find(message) != std::string::npos);
  }
}

}  // namespace
}  // namespace pawl::conformance
