// The embedded API as a kube::Transport: what the operator inside `pawl run` talks to instead of a
// network. One thread owns the ApiStore and runs every callback; any thread may call. After each
// burst of writes it runs the garbage collector and feeds the watches, so an event follows its
// write within microseconds. The request queue is bounded: beyond it a call is answered 429, as an
// overloaded server would.
#pragma once

#include <functional>
#include <memory>

#include "cli/local/api_store.h"
#include "common/base/clock.h"
#include "common/kube/transport.h"

namespace pawl::local {

struct StoreTransportOptions {
  ApiStoreOptions store;
  std::uint64_t seed = 0;  // of object UIDs and generated names
  std::size_t queue_max = 65'536;
  std::chrono::seconds bookmark_every{60};
};

class StoreTransport final : public kube::Transport {
 public:
  explicit StoreTransport(const Clock& clock, const StoreTransportOptions& options);
  ~StoreTransport() override;  // what is still open ends with Cancelled; then the thread ends

  kube::RequestHandle send(kube::HttpRequest request, Done done) override;
  kube::RequestHandle stream(kube::HttpRequest request, OnBytes on_bytes, Done done) override;
  void cancel(kube::RequestHandle handle) override;

  // stream(), and on_open as soon as the watch stands: a server sends its headers then.
  kube::RequestHandle open_stream(kube::HttpRequest request, std::function<void()> on_open,
                                  OnBytes on_bytes, Done done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::local
