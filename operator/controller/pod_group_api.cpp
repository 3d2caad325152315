#include "operator/controller/pod_group_api.h"

#include <algorithm>
#include <utility>

#include "common/base/json.h"
#include "common/kube/requests.h"

namespace pawl::controller {
namespace {

// A cluster that has nothing of that group and version says 404; and who may not ask cannot know.
Result<bool> is_served(const kube::HttpRequest& request,
                       const Result<kube::HttpResponse>& response) {
  if (!response) return tl::make_unexpected(response.error());
  const auto body = kube::read_response(request, *response);
  if (!body && (body.error().code == Code::kNotFound || body.error().code == Code::kForbidden))
    return false;
  if (!body) return tl::make_unexpected(body.error());
  return std::ranges::any_of(member_of(*body, "resources"), [](const nlohmann::json& resource) {
    return text_at(resource, "name") == kube::resources::kPodGroups.plural;
  });
}

}  // namespace

core::PodGroups PodGroupApi::pod_groups() const {
  if (!is_wanted_) return core::PodGroups::kOff;
  return is_served_.value_or(false) ? core::PodGroups::kServed : core::PodGroups::kMissing;
}

void PodGroupApi::receive(const Mail& mail, SteadyPoint now) {
  if (!mail.serves_pod_groups) return;
  asked_.reset();
  const Result<bool>& answer = *mail.serves_pod_groups;
  due_ = now + (answer ? kAskAgainAfter : kRetryAfter);
  if (!answer) {
    log_.warning("pod_groups_unknown", {{"message", answer.error().message}});
    return;
  }
  if (is_served_ == *answer) return;
  is_served_ = *answer;
  log_.info("pod_groups", {{"served", *answer}});
}

std::optional<SteadyPoint> PodGroupApi::turn(SteadyPoint now) {
  if (!is_wanted_ || asked_) return std::nullopt;
  if (now < due_) return due_;
  kube::HttpRequest request = kube::discovery_request(kube::resources::kPodGroups);
  // The callback may outlive this object: it holds on to the inbox alone.
  auto done = [inbox = inbox_, request](const Result<kube::HttpResponse>& response) {
    inbox->post_pod_groups(is_served(request, response));
  };
  asked_ = transport_.send(std::move(request), std::move(done));
  return std::nullopt;
}

void PodGroupApi::cancel() {
  if (asked_) transport_.cancel(*std::exchange(asked_, std::nullopt));
}

}  // namespace pawl::controller
