#include "launcher/health.h"

#include <utility>

namespace pawl::launcher {
namespace {
constexpr std::chrono::seconds kTurnMax{20};
}  // namespace

Result<std::unique_ptr<Health>> Health::start(const Clock& clock, const std::string& address,
                                              std::uint16_t port) {
  auto health = std::unique_ptr<Health>(new Health(clock));
  health->on_turn();
  http::ServerOptions options;
  options.address = address;
  options.port = port;
  options.connections_max = 32;
  PAWL_TRY(server, http::Server::start(options, [raw = health.get()](http::Request request,
                                                                     const http::Reply& reply) {
             reply.respond(raw->answer(request.target));
           }));
  health->server_ = std::move(server);
  return health;
}

void Health::on_turn() { last_turn_ns_ = clock_.steady_now().time_since_epoch().count(); }

http::Response Health::answer(const std::string& target) const {
  if (target == "/healthz") {
    const std::chrono::nanoseconds since{clock_.steady_now().time_since_epoch().count() -
                                         last_turn_ns_};
    const bool is_alive = since < kTurnMax;
    return {.status = is_alive ? 200 : 503, .body = is_alive ? "ok\n" : "the loop does not turn\n"};
  }
  if (target == "/readyz") {
    return {.status = is_ready_ ? 200 : 503,
            .body = is_ready_ ? "ok\n" : "not a member of a committed generation\n"};
  }
  return {.status = 404, .body = "only /healthz and /readyz\n"};
}

}  // namespace pawl::launcher
