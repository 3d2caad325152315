#include "launcher/reporter/record_json.h"

#include "common/api/codec.h"
#include "common/base/json.h"
#include "common/base/mutant.h"
#include "common/kube/requests.h"

namespace pawl::launcher {

using nlohmann::json;

namespace {

constexpr std::chrono::milliseconds kReadTimeout{5'000};
// A lost write is decided again after a read, which never harms; and the operator waits five
// seconds for the word of who failed first.
constexpr std::chrono::milliseconds kWriteTimeout{2'000};

}  // namespace

kube::HttpRequest record_request(const std::string& ns, const std::string& name) {
  kube::HttpRequest request = kube::get_request(kube::resources::kWorkerGroups, ns, name);
  request.timeout = kReadTimeout;
  return request;
}

kube::HttpRequest status_patch(const std::string& ns, const std::string& name,
                               const membership::WriteStatus& write) {
  json status =
      api::merge_patch_between(api::encode_status(write.before), api::encode_status(write.after));
  status["attempt"] = write.after.attempt;
  status["term"] = write.after.term;
  status["generation"] = write.after.generation;
  json patch = {{"metadata", {{"resourceVersion", write.resource_version}}},
                {"status", std::move(status)}};
  if (is_mutant(Mutant::kB17RecordWithoutLock)) patch.erase("metadata");
  kube::HttpRequest request =
      kube::merge_patch_request(kube::resources::kWorkerGroups, ns, name, patch, "status");
  request.timeout = kWriteTimeout;
  return request;
}

Result<api::WorkerGroup> read_group(const kube::HttpRequest& request,
                                    const kube::HttpResponse& response) {
  PAWL_TRY(object, kube::read_response(request, response));
  return api::decode_worker_group(object);
}

Result<api::WorkerGroup> read_group(const json& object) { return api::decode_worker_group(object); }

}  // namespace pawl::launcher
