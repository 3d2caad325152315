// The embedded API with its HTTP front and, where a test wants it, the process node: all real, in
// this process.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>

#include "cli/local/api_server.h"
#include "cli/local/process_node.h"
#include "cli/local/store_watcher.h"
#include "common/base/json.h"
#include "common/os/process.h"
#include "common/os/real_clock.h"

namespace pawl::local {

inline constexpr char kPods[] = "/api/v1/namespaces/default/pods";

struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("pawl-" + os::random_hex(8))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return path / name; }
  std::filesystem::path path;
};

struct LocalApi {
  LocalApi() : transport(clock, {}), tokens(TokenAuthority::create().value()) {
    server = ApiServer::start(transport, *tokens, clock).value();
  }

  kube::HttpResponse call(kube::Method method, const std::string& target,
                          const nlohmann::json& body = nullptr) {
    kube::HttpRequest request;
    request.method = method;
    request.target = target;
    request.content_type =
        method == kube::Method::kPatch ? "application/merge-patch+json" : "application/json";
    if (!body.is_null()) request.body = body.dump();
    return kube::send_and_wait(transport, request).value();
  }

  RealClock clock;
  StoreTransport transport;
  std::unique_ptr<TokenAuthority> tokens;
  std::unique_ptr<ApiServer> server;
};

// The newest version of every pod, and a way to wait for something to become true of one.
class PodView {
 public:
  explicit PodView(StoreTransport& transport)
      : watcher_(transport, kube::resources::kPods,
                 [this](const std::string& type, nlohmann::json pod) {
                   const std::lock_guard lock{mutex_};
                   const std::string name = pod["metadata"]["name"];
                   if (type == "DELETED") {
                     pods_.erase(name);
                   } else {
                     pods_[name] = std::move(pod);
                   }
                   changed_.notify_all();
                 }) {}

  // The pod (null when it is gone) once `is_right` says yes; the last one seen after 20 s.
  nlohmann::json wait(const std::string& name,
                      const std::function<bool(const nlohmann::json&)>& is_right) {
    std::unique_lock lock{mutex_};
    const auto pod = [&] { return pods_.count(name) > 0 ? pods_[name] : nlohmann::json(nullptr); };
    changed_.wait_for(lock, std::chrono::seconds{20}, [&] { return is_right(pod()); });
    return pod();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, nlohmann::json> pods_;
  StoreWatcher watcher_;  // last: it uses the rest
};

}  // namespace pawl::local
