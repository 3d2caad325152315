// Whether the cluster serves PodGroups (scheduling.k8s.io/v1beta1): asked at the start, until there
// is an answer, and now and then, because a control plane may be another one tomorrow. Owner thread
// of the controller only; answers come by the inbox.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/kube/transport.h"
#include "operator/controller/inbox.h"
#include "operator/core/plan.h"

namespace pawl::controller {

class PodGroupApi {
 public:
  static constexpr std::chrono::seconds kAskAgainAfter{60}, kRetryAfter{5};

  PodGroupApi(kube::Transport& transport, Log& log, std::shared_ptr<Inbox> inbox, bool is_wanted)
      : transport_(transport), log_(log), inbox_(std::move(inbox)), is_wanted_(is_wanted) {}
  ~PodGroupApi() { cancel(); }
  PodGroupApi(const PodGroupApi&) = delete;
  PodGroupApi& operator=(const PodGroupApi&) = delete;

  void receive(const Mail& mail, SteadyPoint now);
  // When to call again; nothing: it is not asked for.
  std::optional<SteadyPoint> turn(SteadyPoint now);
  void cancel();
  bool is_known() const { return !is_wanted_ || is_served_; }
  core::PodGroups pod_groups() const;

 private:
  kube::Transport& transport_;
  Log& log_;
  const std::shared_ptr<Inbox> inbox_;
  const bool is_wanted_;
  std::optional<bool> is_served_;
  std::optional<kube::RequestHandle> asked_;  // on its way
  SteadyPoint due_{};
};

}  // namespace pawl::controller
