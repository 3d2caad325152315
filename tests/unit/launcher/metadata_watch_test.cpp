// The metadata service over HTTP.
#include "launcher/notice/metadata_watch.h"

#include <catch2/catch_test_macros.hpp>

#include "common/base/clock.h"
#include "common/http/server.h"
#include "common/os/fd.h"
#include "common/os/process.h"

using namespace pawl;
using namespace pawl::launcher;
using std::chrono::milliseconds;

namespace {

Result<MetadataReply> ask(const std::string& url,
                          const MetadataRequest& request = {"GET", "/x", {}}) {
  return call_metadata({.url = url, .call_max = milliseconds{300}}, request);
}

// Says that the instance ends as soon as it is told to, with AWS's words.
class Service {
 public:
  Service() {
    auto server = http::Server::start({}, [this](http::Request request, http::Reply reply) {
      ++requests;
      if (request.method == "PUT") return reply.respond({.status = 200, .body = "token"});
      const bool is_asked_for = request.target == "/latest/meta-data/spot/instance-action";
      if (is_asked_for && is_over) return reply.respond({.body = R"({"action":"stop"})"});
      reply.respond({.status = 404});
    });
    REQUIRE(server.has_value());
    server_ = std::move(*server);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  std::atomic<bool> is_over{false};
  std::atomic<int> requests{0};

 private:
  std::unique_ptr<http::Server> server_;
};

}  // namespace

TEST_CASE("metadata: one call, its answer or why there is none", "[launcher][interruption]") {
  Service service;
  const auto found = ask(service.url(), {"PUT", "/latest/api/token", {{"X", "y"}}});
  REQUIRE(found.has_value());
  CHECK(found->status == 200);
  CHECK(found->body == "token");
  CHECK(ask(service.url())->status == 404);

  for (const char* wrong :
       {"", "169.254.169.254", "https://1.2.3.4", "http://", "http://name", "http://1.2.3.4:0",
        "http://1.2.3.4:65536", "http://[::1", "http://1.2.3.4:x"}) {
    INFO(wrong);
    const auto reply = ask(wrong);
    REQUIRE_FALSE(reply.has_value());
    CHECK(reply.error().code == Code::kInvalid);
  }
  // Nobody listens; somebody listens and says nothing.
  CHECK(ask("http://127.0.0.1:1").error().code == Code::kUnavailable);
  CHECK(ask("http://[::1]:1").error().code == Code::kUnavailable);
  auto silent = os::listen_tcp("127.0.0.1", 0);
  REQUIRE(silent.has_value());
  const auto port = os::local_port(silent->get());
  REQUIRE(port.has_value());
  CHECK(ask("http://127.0.0.1:" + std::to_string(*port)).error().code == Code::kUnavailable);
}

TEST_CASE("metadata: the watch tells once, and ends when it is told to",
          "[launcher][interruption]") {
  Service service;
  const FakeClock clock;
  Log log(clock, [](std::string_view) {});
  std::atomic<int> notices{0};
  const auto wait_for = [](const auto& is_true) {
    for (int i = 0; i < 500 && !is_true(); ++i) std::this_thread::sleep_for(milliseconds{10});
    return is_true();
  };
  {
    const MetadataWatch watch({.url = service.url(), .every = milliseconds{10}}, log,
                              [&](const std::string&) { ++notices; });
    CHECK(wait_for([&] { return service.requests > 5; }));
    CHECK(notices == 0);
    service.is_over = true;
    CHECK(wait_for([&] { return notices == 1; }));
    std::this_thread::sleep_for(milliseconds{50});
  }
  CHECK(notices == 1);
  // Nobody is there: it waits for long, and ends at once all the same.
  const MetadataWatch idle({.url = "http://127.0.0.1:1"}, log,
                           [&](const std::string&) { ++notices; });
  std::this_thread::sleep_for(milliseconds{50});
}
