#include "operator/controller/served_api.h"

#include <algorithm>
#include <utility>

#include "common/base/json.h"

namespace pawl::controller {
namespace {

// A cluster that has nothing of that group and version says 404; and who may not ask cannot know.
Result<bool> has_kind(const kube::HttpRequest& request, const Result<kube::HttpResponse>& response,
                      const std::string& plural) {
  if (!response) return tl::make_unexpected(response.error());
  const auto body = kube::read_response(request, *response);
  if (!body && (body.error().code == Code::kNotFound || body.error().code == Code::kForbidden))
    return false;
  if (!body) return tl::make_unexpected(body.error());
  return std::ranges::any_of(member_of(*body, "resources"), [&](const nlohmann::json& resource) {
    return text_at(resource, "name") == plural;
  });
}

}  // namespace

core::OptionalApi ServedApi::outcome() const {
  if (!is_wanted_) return core::OptionalApi::kOff;
  return is_served_.value_or(false) ? core::OptionalApi::kServed : core::OptionalApi::kMissing;
}

void ServedApi::receive(const Mail& mail, SteadyPoint now) {
  const auto found = mail.served.find(resource_.plural);
  if (found == mail.served.end()) return;
  asked_.reset();
  const Result<bool>& answer = found->second;
  due_ = now + (answer ? kAskAgainAfter : kRetryAfter);
  if (!answer) {
    way_.log.warning("api_unknown",
                     {{"kind", resource_.kind}, {"message", answer.error().message}});
    return;
  }
  if (is_served_ == *answer) return;
  is_served_ = *answer;
  way_.log.info("api", {{"kind", resource_.kind}, {"served", *answer}});
}

std::optional<SteadyPoint> ServedApi::turn(SteadyPoint now) {
  if (!is_wanted_ || asked_) return std::nullopt;
  if (now < due_) return due_;
  kube::HttpRequest request = kube::discovery_request(resource_);
  // The callback may outlive this object: it holds on to the inbox alone.
  auto done = [inbox = way_.inbox, request,
               plural = resource_.plural](const Result<kube::HttpResponse>& response) {
    inbox->post_served(plural, has_kind(request, response, plural));
  };
  asked_ = way_.transport.send(std::move(request), std::move(done));
  return std::nullopt;
}

void ServedApi::cancel() {
  if (asked_) way_.transport.cancel(*std::exchange(asked_, std::nullopt));
}

}  // namespace pawl::controller
