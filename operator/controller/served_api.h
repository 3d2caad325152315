// Whether the cluster serves a kind of object that not every one does (PodGroups, say): asked at
// the start, until there is an answer, and now and then, because a control plane may be another one
// tomorrow. Owner thread of the controller only; answers come by the inbox.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/kube/requests.h"
#include "common/kube/transport.h"
#include "operator/controller/inbox.h"
#include "operator/core/plan.h"

namespace pawl::controller {

class ServedApi {
 public:
  static constexpr std::chrono::seconds kAskAgainAfter{60}, kRetryAfter{5};

  // By whom and how it is asked for.
  struct Way {
    kube::Transport& transport;
    Log& log;
    std::shared_ptr<Inbox> inbox;
  };
  ServedApi(Way way, const kube::Resource& resource, bool is_wanted)
      : way_(std::move(way)), resource_(resource), is_wanted_(is_wanted) {}
  ~ServedApi() { cancel(); }
  ServedApi(const ServedApi&) = delete;
  ServedApi& operator=(const ServedApi&) = delete;

  void receive(const Mail& mail, SteadyPoint now);
  // When to call again; nothing: it is not asked for.
  std::optional<SteadyPoint> turn(SteadyPoint now);
  void cancel();
  bool is_known() const { return !is_wanted_ || is_served_; }
  bool is_served() const { return is_wanted_ && is_served_.value_or(false); }
  core::OptionalApi outcome() const;

 private:
  const Way way_;
  const kube::Resource& resource_;
  const bool is_wanted_;
  std::optional<bool> is_served_;
  std::optional<kube::RequestHandle> asked_;  // on its way
  SteadyPoint due_{};
};

}  // namespace pawl::controller
