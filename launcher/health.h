// /healthz: the owner thread's loop turns. /readyz: this launcher is a member of the committed
// generation. The answers are given on the HTTP server's thread from two atomics.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "common/http/server.h"

namespace pawl::launcher {

class Health {
 public:
  // port 0: any. `address`: where to listen.
  static Result<std::unique_ptr<Health>> start(const Clock& clock, const std::string& address,
                                               std::uint16_t port);
  void on_turn();
  void set_ready(bool is_ready) { is_ready_ = is_ready; }
  std::uint16_t port() const { return server_->port(); }

 private:
  explicit Health(const Clock& clock) : clock_(clock) {}
  http::Response answer(const std::string& target) const;

  const Clock& clock_;
  std::atomic<std::int64_t> last_turn_ns_ = 0;
  std::atomic<bool> is_ready_ = false;
  std::unique_ptr<http::Server> server_;  // last: its thread uses the others
};

}  // namespace pawl::launcher
