#include "operator/controller/watches.h"

#include <utility>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::controller {
namespace {

// Only what plans look at is kept in memory.
void slim(api::ObjectMeta& meta) {
  meta.annotations.clear();
  std::erase_if(meta.labels, [](const auto& label) {
    const std::string& key = label.first;
    return key != api::kLabelJobUid && key != api::kLabelJobName &&
           !key.starts_with(api::kKueuePrefix);
  });
}

template <typename T>
void slim_object(T& object) {
  slim(object.meta);
}

template <typename T>
Result<Object> as_object(Result<T> decoded) {
  if (!decoded) return tl::make_unexpected(decoded.error());
  slim_object(*decoded);
  return Object{std::make_shared<const T>(std::move(*decoded))};
}

Result<Object> decode(Kind kind, const nlohmann::json& object) {
  switch (kind) {
    case Kind::kJob:
      return as_object(api::decode_training_job(object));
    case Kind::kGroup:
      return as_object(api::decode_worker_group(object));
    case Kind::kPod:
      return as_object(api::decode_pod(object));
  }
  return fail(Code::kInvalid, "no such kind");
}

}  // namespace

const kube::Resource& resource_of(Kind kind) {
  switch (kind) {
    case Kind::kJob:
      return kube::resources::kTrainingJobs;
    case Kind::kGroup:
      return kube::resources::kWorkerGroups;
    case Kind::kPod:
      return kube::resources::kPods;
  }
  return kube::resources::kPods;
}

std::optional<Change> decode_change(Kind kind, const nlohmann::json& object, bool is_gone,
                                    Log& log) {
  const auto meta = api::decode_meta(object);
  if (!meta || meta->name.empty()) {
    log.error("object_without_name", {{"kind", resource_of(kind).kind}});
    return std::nullopt;
  }
  Change change{kind, meta->ns, meta->name, meta->uid, std::monostate{}};
  if (is_gone) return change;
  Result<Object> decoded = decode(kind, object);
  if (!decoded) {
    log.error("object_not_understood", {{"kind", resource_of(kind).kind},
                                        {"namespace", meta->ns},
                                        {"name", meta->name},
                                        {"message", decoded.error().message}});
    return std::nullopt;
  }
  change.object = std::move(*decoded);
  return change;
}

kube::InformerOptions informer_options(Kind kind, const std::string& ns) {
  kube::InformerOptions options;
  options.resource = resource_of(kind);
  options.ns = ns;
  if (kind == Kind::kPod) {
    options.label_selector = std::string(api::kLabelManagedBy) + "=" + api::kManagedBy;
  }
  return options;
}

kube::InformerEvents informer_events(Kind kind, Log& log, std::shared_ptr<Inbox> inbox) {
  kube::InformerEvents events;
  events.on_upsert = [kind, &log, inbox](const nlohmann::json& object) {
    if (auto change = decode_change(kind, object, false, log)) inbox->post(std::move(*change));
  };
  events.on_delete = [kind, &log, inbox](const nlohmann::json& object) {
    if (auto change = decode_change(kind, object, true, log)) inbox->post(std::move(*change));
  };
  events.on_synced = [kind, inbox](const std::string& rv) { inbox->post_synced(kind, rv); };
  events.on_progress = [kind, inbox](const std::string& rv) { inbox->post_view(kind, rv); };
  return events;
}

kube::InformerOptions node_informer_options() {
  kube::InformerOptions options;
  options.resource = kube::resources::kNodes;
  options.page_size = 100;  // with their lists of images they are large
  return options;
}

kube::InformerEvents node_informer_events(std::shared_ptr<const SignalTable> table,
                                          const Clock& clock, Log& log,
                                          std::shared_ptr<Inbox> inbox) {
  // An informer's callbacks come one after the other.
  const auto known = std::make_shared<core::NodeSignals>();
  const auto forget = [known, inbox, &log](const std::string& name) {
    if (known->erase(name) == 0) return;
    log.info("node_signal_over", {{"node", name}});
    inbox->post_signal(name, std::nullopt);
  };
  kube::InformerEvents events;
  events.on_upsert = [=, &clock, &log](const nlohmann::json& node) {
    const auto meta = api::decode_meta(node);
    if (!meta || meta->name.empty()) return;
    auto signal = table->read(node, clock.now());
    if (!signal) return forget(meta->name);
    const auto before = known->find(meta->name);
    // A notice that was counted from when it was seen first goes on from there.
    if (before != known->end() && before->second.what == signal->what) {
      const bool is_same = before->second.deadline == signal->deadline;
      if (is_same || (!signal->is_exact && before->second.deadline)) return;
      signal->seen_at = before->second.seen_at;
    }
    log.info("node_signal", {{"node", meta->name},
                             {"signal", signal->what},
                             {"deadline", signal->deadline ? format_time(*signal->deadline) : ""}});
    known->insert_or_assign(meta->name, *signal);
    inbox->post_signal(meta->name, std::move(signal));
  };
  events.on_delete = [forget](const nlohmann::json& node) {
    if (const auto meta = api::decode_meta(node)) forget(meta->name);
  };
  events.on_synced = [inbox](const std::string&) { inbox->post_nodes_listed(); };
  events.on_progress = [](const std::string&) {};
  return events;
}

Watches::Watches(kube::Transport& transport, const Clock& clock, Log& log, const std::string& ns,
                 std::shared_ptr<const SignalTable> table, std::shared_ptr<Inbox> inbox) {
  if (table && !table->is_empty()) {
    informers_.push_back(
        std::make_unique<kube::Informer>(transport, clock, log, node_informer_options(),
                                         node_informer_events(table, clock, log, inbox)));
  }
  for (const Kind kind : {Kind::kJob, Kind::kGroup, Kind::kPod}) {
    informers_.push_back(std::make_unique<kube::Informer>(
        transport, clock, log, informer_options(kind, ns), informer_events(kind, log, inbox)));
  }
}

void Watches::start() {
  for (const auto& informer : informers_) informer->start();
}

void Watches::stop() {
  for (const auto& informer : informers_) informer->stop();
}

}  // namespace pawl::controller
