// A production transport to a TestServer, and answers that a test waits for.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "common/kube/cpprest_transport.h"
#include "common/os/real_clock.h"
#include "tests/unit/kube/test_server.h"

namespace pawl::kube {

constexpr std::chrono::milliseconds kPatience{10'000};

inline std::unique_ptr<Transport> transport_to(const ClusterConfig& config, const Clock& clock,
                                               int concurrency_max = 32) {
  auto transport = make_transport(config, clock, {"pawl-test/1", concurrency_max});
  if (!transport) FAIL(transport.error().message);
  return std::move(*transport);
}

inline HttpRequest get(const std::string& target, std::chrono::milliseconds timeout = kPatience) {
  return {Method::kGet, target, "", "", timeout};
}

inline HttpRequest post(const std::string& target, std::chrono::milliseconds timeout = kPatience) {
  return {Method::kPost, target, "application/json", "{\"a\":1}", timeout};
}

// Counts what a call did; thread-safe.
class Outcome {
 public:
  Transport::OnBytes bytes() {
    return [this](std::string_view piece) {
      const std::lock_guard lock(mutex_);
      if (result_) ++late_;
      received_ += piece;
      changed_.notify_all();
    };
  }
  Transport::Done done() {
    return [this](Result<HttpResponse> result) {
      const std::lock_guard lock(mutex_);
      ++times_;
      result_ = std::move(result);
      changed_.notify_all();
    };
  }
  Result<HttpResponse> wait() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, 2 * kPatience, [this] { return result_.has_value(); }));
    return *result_;
  }
  void wait_for_bytes(const std::string& text) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, 2 * kPatience,
                              [&] { return received_.find(text) != std::string::npos; }));
  }
  std::string received() {
    const std::lock_guard lock(mutex_);
    return received_;
  }
  int times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  int late() {
    const std::lock_guard lock(mutex_);
    return late_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<HttpResponse>> result_;
  std::string received_;
  int times_ = 0;
  int late_ = 0;
};

// A server on the loopback address that runs `script` for each connection, and a transport to it.
struct Loop {
  explicit Loop(TestServer::Script script, int concurrency_max = 32)
      : server(std::move(script)),
        transport(transport_to({.server = server.url()}, clock, concurrency_max)) {}

  Result<HttpResponse> call(HttpRequest request) {
    return send_and_wait(*transport, std::move(request));
  }

  RealClock clock;
  TestServer server;
  std::unique_ptr<Transport> transport;
};

inline std::chrono::milliseconds since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin);
}

inline Code code_of(const Result<HttpResponse>& result) {
  REQUIRE(!result);
  return result.error().code;
}

}  // namespace pawl::kube
