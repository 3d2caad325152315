// Keeps one kind of object in view: lists in pages, then watches, re-lists after 410, reconnects
// with back-off after a lost or silent stream, never goes back in time. The machine that decides
// this is pure (watch_machine.h); the Informer drives it on a Transport. Callbacks run on transport
// or timer threads: decode and post to your own queue there, nothing else.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/kube/requests.h"
#include "common/kube/transport.h"

namespace pawl::kube {

struct InformerEvents {
  // Added or modified; also every object of a (re)list.
  std::function<void(const nlohmann::json& object)> on_upsert;
  // The last known object of a DELETED event; for an object that vanished during a re-list only
  // {metadata:{namespace,name,uid}} is there.
  std::function<void(const nlohmann::json& object)> on_delete;
  // A full list has been delivered (again); resource_version is that of the list.
  std::function<void(const std::string& resource_version)> on_synced;
  // How far the view has come (bookmarks too).
  std::function<void(const std::string& resource_version)> on_progress;
};

struct InformerOptions {
  Resource resource;
  std::string ns;  // empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  bool can_list = true;  // false: GET by field_selector's name, then watch from its resourceVersion
  // The kind itself: as long as nothing of it was seen its list counts as empty.
  bool may_be_absent = false;
  int page_size = 500;
  std::chrono::milliseconds silence_max{
      90'000};  // bookmarks come each minute; beyond this the stream is dead
  std::chrono::milliseconds backoff_first{200};
  std::chrono::milliseconds backoff_max{15'000};
};

class Informer {
 public:
  Informer(Transport& transport, const Clock& clock, Log& log, InformerOptions options,
           InformerEvents events);
  ~Informer();  // stops; no callback runs after it has returned
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  void start();
  void stop();  // no callback runs after it has returned; not from a callback

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // a cancelled request may still report to it
};

}  // namespace pawl::kube
