// What the answers to an action's requests mean, and what is asked next. Most actions are one
// request; what may be somebody else's is read first or read again. Decides nothing about the job.
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "common/kube/transport.h"
#include "operator/controller/action_request.h"
#include "operator/controller/inbox.h"

namespace pawl::controller {

// What the write gate has to wait for.
struct Written {
  Kind kind = Kind::kJob;
  std::string resource_version;  // of a write
  std::string deleted_uid;       // of a deletion
};
struct Done {
  std::optional<Written> written = std::nullopt;
  bool is_partial = false;  // the API server did not keep all of it
};
struct Again {
  kube::HttpRequest request;  // the action goes on with this
};
struct Failed {
  Error error;
  bool is_leftover = false;  // in the way is a child of a deleted job of the same name
  // Our view is behind this, and nothing may be decided before it has come so far.
  std::optional<Written> seen = std::nullopt;
};
using Outcome = std::variant<Done, Again, Failed>;

class Exchange {
 public:
  Exchange(const core::Action& action, const ExchangeContext& context)
      : action_(action), context_(context) {}
  // The first request, or why there is none.
  Outcome begin();
  Outcome on_answer(const Result<Reply>& answer);
  const kube::HttpRequest& request() const { return request_; }

 private:
  enum class Stage { kFirst, kVerify, kDelete, kChange, kRestore, kReread, kLearn };
  Outcome send(kube::HttpRequest request, Stage stage);
  Outcome on_created(const Result<Reply>& answer, std::optional<Kind> watched,
                     core::ObjectKind kind, const std::string& name);
  Outcome on_existing(const Result<Reply>& answer);
  Outcome on_old_child(const Result<Reply>& answer, const core::DeleteChild& action);
  std::string name_of_child(const core::CreateChild& action) const;
  Outcome on_deleted(const Result<Reply>& answer, const std::string& uid);
  Outcome on_orphan(const Result<Reply>& answer, const core::DeleteOrphan& action);
  Outcome on_confirmed(const Result<Reply>& answer, const core::ConfirmGone& action);
  Outcome on_record(const Result<Reply>& answer, const core::ConfirmRecord& action) const;
  bool is_as_planned(const Reply& now) const;
  std::optional<Outcome> after_conflict(const Result<Reply>& answer);
  Outcome learn(const Result<Reply>& answer, Kind kind);
  Outcome on_status(const Result<Reply>& answer, const core::PatchStatus& action);
  Outcome restore(const api::ObjectMeta& pod);
  bool is_orphan_in_the_way(const api::ObjectMeta& found) const;
  core::ObjectKind kind_of_child() const;

  const core::Action& action_;
  const ExchangeContext& context_;
  Stage stage_ = Stage::kFirst;
  kube::HttpRequest request_;
  std::string read_uid_;
  Error lost_;  // why a write is not known to have taken effect
  int rereads_ = 0;
};

}  // namespace pawl::controller
