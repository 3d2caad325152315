#include "cli/local/pod_setup.h"

#include "cli/local/api_objects.h"
#include "cli/local/node_files.h"
#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

std::string account_of(const nlohmann::json& pod) {
  return text_of(pod.at("spec"), "serviceAccountName");
}

}  // namespace

std::string PodSetup::log_file(const std::string& pod_name) const {
  return options_.run_folder + "/logs/" + pod_name + ".log";
}

Result<ProcessSpec> PodSetup::prepare(const nlohmann::json& pod, PodPlace& place) {
  const std::string name = meta_text(pod, "name");
  place.folder = options_.run_folder + "/pods/" + name;
  place.log = log_file(name);
  place.api_server = base_.server.url();
  place.environment = options_.environment;
  PAWL_TRY(port, find_free_port(ports_));
  place.health_port = port;
  PAWL_TRY(process, process_of(pod, place));
  PAWL_TRY_VOID(create_private_folder(place.folder));
  PAWL_TRY_VOID(create_private_folder(options_.run_folder + "/logs"));
  const auto& meta = pod.at("metadata");
  const std::string job =
      meta.contains("labels") ? text_of(meta.at("labels"), api::kLabelJobName) : std::string{};
  base_.server.admit(
      {meta_text(pod, "namespace"), name, meta_text(pod, "uid"), account_of(pod), job});
  PAWL_TRY_VOID(write_tokens(pod, place));
  return process;
}

Status PodSetup::write_tokens(const nlohmann::json& pod, const PodPlace& place) const {
  const TimePoint now = base_.clock.now();
  TokenClaims claims{kApiAudience,           meta_text(pod, "namespace"),
                     meta_text(pod, "name"), meta_text(pod, "uid"),
                     account_of(pod),        now + kTokenLife};
  PAWL_TRY(token, base_.tokens.mint(claims, now));
  PAWL_TRY_VOID(write_private_file(token_file(place), token));
  // The leader of a gang gets this one shown; it is no good at the API.
  claims.audience = api::kTokenAudience;
  PAWL_TRY(peer_token, base_.tokens.mint(claims, now));
  return write_private_file(peer_token_file(place), peer_token);
}

}  // namespace pawl::local
