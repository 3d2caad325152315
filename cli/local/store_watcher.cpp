#include "cli/local/store_watcher.h"

#include <future>
#include <memory>
#include <utility>

#include "common/base/json.h"

namespace pawl::local {

struct StoreWatcher::Ended {
  std::promise<void> promise;
};

StoreWatcher::StoreWatcher(StoreTransport& transport, const kube::Resource& resource,
                           OnEvent on_event)
    : transport_(transport), ended_(std::make_shared<Ended>()) {
  kube::HttpRequest request;
  request.target = kube::path_of(resource, "") + "?watch=true&resourceVersion=0";
  handle_ = transport_.stream(
      std::move(request),
      [on_event = std::move(on_event)](std::string_view lines) {
        while (!lines.empty()) {  // the embedded API hands over whole lines
          const auto end = lines.find('\n');
          nlohmann::json event = parse_json(lines.substr(0, end));
          on_event(event.at("type"), std::move(event.at("object")));
          lines.remove_prefix(end + 1);
        }
      },
      [ended = ended_](const Result<kube::HttpResponse>&) { ended->promise.set_value(); });
}

StoreWatcher::~StoreWatcher() {
  transport_.cancel(handle_);
  ended_->promise.get_future().wait();
}

}  // namespace pawl::local
