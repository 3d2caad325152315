// Follows one kind of object in the embedded API: every object that is there, then every change.
// Simple because the API is in this process: its streams end only when we end them, so there is no
// re-list and no back-off. Callbacks run on the transport's thread: post to your own thread there.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/local/store_transport.h"
#include "common/kube/requests.h"

namespace pawl::local {

class StoreWatcher {
 public:
  // `type`: ADDED, MODIFIED or DELETED.
  using OnEvent = std::function<void(const std::string& type, nlohmann::json object)>;

  StoreWatcher(StoreTransport& transport, const kube::Resource& resource, OnEvent on_event);
  ~StoreWatcher();  // no callback runs after it has returned
  StoreWatcher(const StoreWatcher&) = delete;
  StoreWatcher& operator=(const StoreWatcher&) = delete;

 private:
  struct Ended;
  StoreTransport& transport_;
  std::shared_ptr<Ended> ended_;
  kube::RequestHandle handle_ = 0;
};

}  // namespace pawl::local
