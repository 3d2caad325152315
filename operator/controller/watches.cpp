#include "operator/controller/watches.h"

#include <utility>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/api/provisioning.h"
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

kube::InformerEvents informer_events(Kind kind, Log& log, std::shared_ptr<Inbox> inbox,
                                     bool books) {
  kube::InformerEvents events;
  if (books && kind == Kind::kPod) events = booking_informer_events(Booked::kAll, inbox);
  events.on_upsert = [kind, &log, inbox, book = std::move(events.on_upsert)](const auto& object) {
    if (book) book(object);
    if (auto change = decode_change(kind, object, false, log)) inbox->post(std::move(*change));
  };
  events.on_delete = [kind, &log, inbox, book = std::move(events.on_delete)](const auto& object) {
    if (book) book(object);
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

kube::InformerEvents host_informer_events(std::shared_ptr<Inbox> inbox) {
  kube::InformerEvents events;
  events.on_upsert = [inbox](const nlohmann::json& node) {
    placement::Host host = placement::host_of(node);
    const std::string name = host.name;
    inbox->post_host(name, std::move(host));
  };
  events.on_delete = [inbox](const nlohmann::json& node) {
    if (const auto meta = api::decode_meta(node)) inbox->post_host(meta->name, std::nullopt);
  };
  events.on_synced = [inbox](const std::string&) { inbox->post_hosts_listed(); };
  events.on_progress = [](const std::string&) {};
  return events;
}

kube::InformerOptions booking_informer_options(Booked who) {
  kube::InformerOptions options;
  options.resource = kube::resources::kPods;
  options.field_selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
  if (who == Booked::kOthers)
    options.label_selector = std::string(api::kLabelManagedBy) + "!=" + api::kManagedBy;
  return options;
}

kube::InformerEvents booking_informer_events(Booked who, std::shared_ptr<Inbox> inbox) {
  const auto name_of = [who](const api::ObjectMeta& pod) {
    return (who == Booked::kOthers ? "of others: " : "") + pod.ns + "/" + pod.name;
  };
  kube::InformerEvents events;
  events.on_upsert = [inbox, name_of](const nlohmann::json& pod) {
    if (const auto meta = api::decode_meta(pod))
      inbox->post_booking(name_of(*meta), placement::booking_of(pod));
  };
  events.on_delete = [inbox, name_of](const nlohmann::json& pod) {
    if (const auto meta = api::decode_meta(pod)) inbox->post_booking(name_of(*meta), std::nullopt);
  };
  events.on_synced = [inbox](const std::string&) { inbox->post_bookings_listed(); };
  events.on_progress = [](const std::string&) {};
  return events;
}

kube::InformerOptions class_informer_options() {
  kube::InformerOptions options;
  options.resource = kube::resources::kPriorityClasses;
  return options;
}

kube::InformerEvents class_informer_events(std::shared_ptr<Inbox> inbox) {
  kube::InformerEvents events;
  events.on_upsert = [inbox](const nlohmann::json& object) {
    const auto meta = api::decode_meta(object);
    if (!meta) return;
    const nlohmann::json& value = member_of(object, "value");
    inbox->post_class(meta->name,
                      PriorityClass{value.is_number_integer() ? value.get<std::int64_t>() : 0,
                                    member_of(object, "globalDefault") == true,
                                    text_at(object, "preemptionPolicy") != "Never"});
  };
  events.on_delete = [inbox](const nlohmann::json& object) {
    if (const auto meta = api::decode_meta(object)) inbox->post_class(meta->name, std::nullopt);
  };
  events.on_synced = [inbox](const std::string&) { inbox->post_classes_listed(); };
  events.on_progress = [](const std::string&) {};
  return events;
}

kube::InformerOptions queue_informer_options() {
  kube::InformerOptions options;
  options.resource = kube::resources::kTrainingQueues;
  // Helm does not update what stands in crds/, and without a queue no job names one.
  options.may_be_absent = true;
  return options;
}

kube::InformerEvents queue_informer_events(Log& log, std::shared_ptr<Inbox> inbox) {
  kube::InformerEvents events;
  events.on_upsert = [inbox, &log](const nlohmann::json& object) {
    auto queue = api::decode_training_queue(object);
    if (queue) {
      const std::string name = queue->meta.name;
      inbox->post_queue(name, std::move(*queue));
    } else {
      log.error("object_not_understood",
                {{"kind", "TrainingQueue"}, {"message", queue.error().message}});
    }
  };
  events.on_delete = [inbox](const nlohmann::json& object) {
    if (const auto meta = api::decode_meta(object)) inbox->post_queue(meta->name, std::nullopt);
  };
  events.on_synced = [inbox](const std::string&) { inbox->post_queues_listed(); };
  events.on_progress = [](const std::string&) {};
  return events;
}

kube::InformerOptions node_request_informer_options(const std::string& ns) {
  kube::InformerOptions options;
  options.resource = kube::resources::kProvisioningRequests;
  options.ns = ns;
  options.label_selector = std::string(api::kLabelManagedBy) + "=" + api::kManagedBy;
  options.may_be_absent = true;  // then nobody is asked for nodes
  return options;
}

kube::InformerEvents node_request_informer_events(std::shared_ptr<Inbox> inbox) {
  kube::InformerEvents events;
  events.on_upsert = [inbox](const nlohmann::json& object) {
    const auto meta = api::decode_meta(object);
    auto request = api::decode_node_request(object);
    if (!meta || !request) return;  // somebody else's
    const auto job = meta->labels.find(api::kLabelJobName);
    if (job == meta->labels.end()) return;
    inbox->post_node_request(meta->ns + "/" + meta->name,
                             SeenRequest{job->second, std::move(*request)});
  };
  events.on_delete = [inbox](const nlohmann::json& object) {
    if (const auto meta = api::decode_meta(object))
      inbox->post_node_request(meta->ns + "/" + meta->name, std::nullopt);
  };
  events.on_synced = [inbox](const std::string&) { inbox->post_node_requests_listed(); };
  events.on_progress = [](const std::string&) {};
  return events;
}

namespace {

// One after the other, of one informer.
kube::InformerEvents both(kube::InformerEvents first, kube::InformerEvents second) {
  const auto pair = [](auto one, auto other) {
    return [one, other](const auto& what) {
      one(what);
      other(what);
    };
  };
  return {pair(first.on_upsert, second.on_upsert), pair(first.on_delete, second.on_delete),
          pair(first.on_synced, second.on_synced), pair(first.on_progress, second.on_progress)};
}

}  // namespace

Watches::Watches(kube::Transport& transport, const Clock& clock, Log& log,
                 const WatchOptions& options, std::shared_ptr<Inbox> inbox) {
  const auto watch = [&](const kube::InformerOptions& what, kube::InformerEvents events) {
    informers_.push_back(
        std::make_unique<kube::Informer>(transport, clock, log, what, std::move(events)));
  };
  const bool has_signals = options.signals && !options.signals->is_empty();
  if (has_signals && options.has_placement) {
    watch(node_informer_options(), both(node_informer_events(options.signals, clock, log, inbox),
                                        host_informer_events(inbox)));
  } else if (has_signals) {
    watch(node_informer_options(), node_informer_events(options.signals, clock, log, inbox));
  } else if (options.has_placement) {
    watch(node_informer_options(), host_informer_events(inbox));
  }
  const bool books = options.has_placement && options.ns.empty();  // then all of ours are seen
  if (options.has_placement) {
    const Booked who = books ? Booked::kOthers : Booked::kAll;
    watch(booking_informer_options(who), booking_informer_events(who, inbox));
    watch(class_informer_options(), class_informer_events(inbox));
    watch(queue_informer_options(), queue_informer_events(log, inbox));
  }
  if (options.has_placement && options.has_node_requests)
    watch(node_request_informer_options(options.ns), node_request_informer_events(inbox));
  for (const Kind kind : {Kind::kJob, Kind::kGroup, Kind::kPod})
    watch(informer_options(kind, options.ns), informer_events(kind, log, inbox, books));
}

void Watches::start() {
  for (const auto& informer : informers_) informer->start();
}

void Watches::stop() {
  for (const auto& informer : informers_) informer->stop();
}

}  // namespace pawl::controller
