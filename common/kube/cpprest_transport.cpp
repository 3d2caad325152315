// The only file (with cpprest_body.h, its own) that includes cpprestsdk. The library is in
// maintenance; what is written around here, and why:
//   1. Its thread pool has 40 threads unless it is sized before its first use (initialise_http).
//   2. Each new connection would load the system's CA bundle; SSL_CERT_FILE=/dev/null stops that,
//   and the store is
//      replaced by the cluster's CA in any case (TlsIdentity).
//   3. Its time-out is per step and none covers a whole call: Call keeps the deadlines; the
//   library's
//      own is a backstop far beyond them.
//   4. It replays a request, writes too, when a reused connection closes without an answer. Bodies
//   are given as
//      a stream that cannot seek, which turns the replay into an error: a write is sent once.
//   5. A failed task that nobody looks at ends the process: every chain ends in a task-based
//   continuation.
//   6. Redirects would be followed with our token: none are.
//   7. Its own response stream piles up without bound and a throwing sink aborts: BodySink does
//   neither.
//   8. Its pool hands out connections that the server has closed, and, after a replay that failed,
//   some that
//      were never opened: such a request was surely not sent, and goes out again (is_stale).
//   9. It has no keepalive option and no limit on connections: see tune_socket and Core::launch.
#include "common/kube/cpprest_transport.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pplx/threadpool.h>
#include <pthread.h>
#include <signal.h>

#include <deque>
#include <future>
#include <map>

#include "common/base/check.h"
#include "common/kube/call.h"
#include "common/kube/cpprest_body.h"
#include "common/kube/tls_identity.h"
#include "common/kube/token_source.h"
#include "common/os/process.h"

namespace pawl::kube {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kPoolThreads = 2;  // they hand work to each other, and each hand-over costs
constexpr std::chrono::minutes kBackstop{10};
constexpr std::size_t kQueueMax = 10'000;
constexpr std::chrono::seconds kDrainMax{2};
constexpr int kAttemptsMax = 64;  // each takes one stale connection out of the pool

constexpr char kStale[] = "the server has closed this pooled connection";

// Whether a request failed before a byte of it left, for no other reason than the connection's age.
bool is_stale(const std::string& what) {
  return what == kStale || what == "Failed to write request headers";
}

// A cut link shows after 25 s without an answer to probes or data, on streams that are quiet too.
// Called before each request; throws what becomes its error.
void tune_socket(tcp::socket& socket, bool is_ipv4) {
  if (socket.is_open()) {
    pollfd pooled{socket.native_handle(), POLLRDHUP, 0};
    if (::poll(&pooled, 1, 0) == 1) throw std::runtime_error(kStale);
  }
  boost::system::error_code ignored;
  // Only an IPv4 address tells the family before the library resolves and connects.
  if (!socket.is_open() && is_ipv4) socket.open(tcp::v4(), ignored);
  if (!socket.is_open()) return;
  const int fd = socket.native_handle();
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

web::http::client::http_client_config client_config(const std::string& host,
                                                    std::shared_ptr<TlsIdentity> identity) {
  web::http::client::http_client_config config;
  config.set_timeout(kBackstop);
  config.set_max_redirects(0);
  boost::system::error_code not_an_address;
  const auto address = asio::ip::make_address_v4(host, not_an_address);
  const bool is_ipv4 = !not_an_address && !address.is_unspecified();
  const bool is_tls = identity != nullptr;
  config.set_nativehandle_options([is_ipv4, is_tls](web::http::client::native_handle handle) {
    using TlsStream = asio::ssl::stream<tcp::socket&>;
    tune_socket(
        is_tls ? static_cast<TlsStream*>(handle)->next_layer() : *static_cast<tcp::socket*>(handle),
        is_ipv4);
  });
  if (is_tls) {
    config.set_ssl_context_callback([identity](asio::ssl::context& context) {
      if (!identity->apply(context.native_handle())) {
        throw std::runtime_error("OpenSSL refuses the cluster's certificates");
      }
    });
  }
  return config;
}

std::chrono::seconds retry_after_of(const web::http::http_response& response) {
  int seconds = 0;
  response.headers().match("Retry-After", seconds);  // a date does not match: 0
  return std::chrono::seconds{std::clamp(seconds, 0, 3600)};
}

// The transport's state, on its own strand. Shared, so that the library's late answers find it.
class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(const ClusterConfig& config, const Clock& clock, TransportOptions options,
       std::shared_ptr<TlsIdentity> identity, const web::uri& server)
      : options_(std::move(options)),
        identity_(std::move(identity)),
        client_(server, client_config(server.host(), identity_)),
        token_(config, clock),
        pool_(crossplat::threadpool::shared_instance().service()),
        strand_(pool_.get_executor()) {}

  RequestHandle submit(HttpRequest request, Transport::OnBytes on_bytes, Transport::Done done) {
    const RequestHandle handle = ++last_handle_;
    auto call =
        std::make_shared<Call>(pool_, std::move(request), std::move(on_bytes), std::move(done),
                               [core = shared_from_this(), handle] { core->forget(handle); });
    call->start_clock();
    post([this, handle, call = std::move(call)] { admit(handle, call); });
    return handle;
  }

  void cancel(RequestHandle handle) {
    post([this, handle] {
      const auto found = calls_.find(handle);
      if (found != calls_.end())
        found->second->fail_with({Code::kCancelled, "cancelled", std::nullopt});
    });
  }

  // Cancels everything; returns when no callback will run any more.
  void shut_down() {
    post([this] {
      is_closed_ = true;
      for (auto& [handle, call] : calls_) call->fail_with(closed());
      settle();
    });
    all_told_.get_future().wait();
    all_gone_.get_future().wait_for(kDrainMax);  // the library does not interrupt name resolution
  }

 private:
  static Error closed() { return {Code::kCancelled, "the transport is closed", std::nullopt}; }

  void post(std::function<void()> work) {
    asio::post(strand_, [self = shared_from_this(), work = std::move(work)] { work(); });
  }

  void admit(RequestHandle handle, const std::shared_ptr<Call>& call) {
    if (call->is_finished()) return;
    calls_[handle] = call;
    if (is_closed_) return call->fail_with(closed());
    if (call->is_stream() || active_ < options_.concurrency_max) return launch(call);
    if (queue_.size() < kQueueMax) return queue_.push_back(call);
    call->on_lost("more than " + std::to_string(kQueueMax) + " requests wait");
  }

  void launch(const std::shared_ptr<Call>& call) {
    ++on_wire_;
    if (!call->is_stream()) ++active_;
    send(call, 1);
  }

  void send(const std::shared_ptr<Call>& call, int attempt) {
    // Before the request: a call that has ended meanwhile is never sent.
    pplx::cancellation_token_source abort;
    call->set_abort([abort] { abort.cancel(); });
    try {
      start(build(call), abort.get_token(), call, attempt);
    } catch (const std::exception& error) {
      call->fail_with({Code::kInvalid, call->request().target + ": " + error.what(), std::nullopt});
      released(call);
    }
  }

  void start(const web::http::http_request& request, const pplx::cancellation_token& abort,
             const std::shared_ptr<Call>& call, int attempt) {
    const auto self = shared_from_this();
    client_.request(request, abort)
        .then([self, call](pplx::task<web::http::http_response> head) {
          const web::http::http_response response = head.get();  // the next step catches
          if (response.status_code() == web::http::status_codes::Unauthorized)
            self->token_refused();
          call->on_head(response.status_code(), retry_after_of(response));
          return response.content_ready();
        })
        .then([self, call, attempt](pplx::task<web::http::http_response> whole) {
          std::string why;
          try {
            whole.get();
            call->on_end();
          } catch (const std::exception& error) {
            why = error.what();
          } catch (...) {
            why = "failed without a reason";
          }
          self->post([self, call, attempt, why] { self->ended(call, attempt, why); });
        });
  }

  // The network side has ended; `why` is empty if it ended well.
  void ended(const std::shared_ptr<Call>& call, int attempt, const std::string& why) {
    const bool may_go_again = !call->is_finished() && !call->was_sent() && attempt < kAttemptsMax;
    if (may_go_again && is_stale(why)) return send(call, attempt + 1);
    if (!why.empty()) call->on_lost(explain(why));
    released(call);
  }

  web::http::http_request build(const std::shared_ptr<Call>& call) {
    const HttpRequest& wanted = call->request();
    if (!wanted.target.starts_with('/')) throw std::runtime_error("not a path on the server");
    web::http::http_request request(method_name(wanted.method));
    request.set_request_uri(web::uri(wanted.target));
    // The second: key sets and health answers have media types of their own.
    request.headers().add("Accept", "application/json, */*;q=0.5");
    request.headers().add("User-Agent", options_.user_agent);
    const std::string authorization = token_.authorization();
    if (!authorization.empty()) request.headers().add("Authorization", authorization);
    if (!wanted.body.empty()) {
      const concurrency::streams::streambuf<std::uint8_t> source(
          std::make_shared<BodySource>(call));
      request.set_body(source.create_istream(), wanted.body.size(), wanted.content_type);
    }
    const concurrency::streams::streambuf<std::uint8_t> sink(std::make_shared<BodySink>(call));
    request.set_response_stream(sink.create_ostream());
    // The library reports progress first when the head of the request has been written.
    request.set_progress_handler(
        [call](web::http::message_direction::direction direction, utility::size64_t) {
          if (direction == web::http::message_direction::upload) call->mark_sent();
        });
    return request;
  }

  std::string explain(const std::string& what) const {
    const bool is_handshake = what.find("SSL handshake") != std::string::npos;
    const std::string why = is_handshake && identity_ ? identity_->last_refusal() : "";
    return why.empty() ? what : what + ": the server's certificate was refused (" + why + ")";
  }

  void token_refused() {
    post([this] { token_.refused(); });
  }

  // The network side of a call has ended; its place is free.
  void released(const std::shared_ptr<Call>& call) {
    --on_wire_;
    if (!call->is_stream()) --active_;
    while (!queue_.empty() && active_ < options_.concurrency_max) {
      const std::shared_ptr<Call> next = std::move(queue_.front());
      queue_.pop_front();
      if (!next->is_finished()) launch(next);
    }
    settle();
  }

  void forget(RequestHandle handle) {
    post([this, handle] {
      calls_.erase(handle);
      settle();
    });
  }

  void settle() {
    if (!is_closed_) return;
    if (calls_.empty() && !std::exchange(is_told_, true)) all_told_.set_value();
    if (calls_.empty() && on_wire_ == 0 && !std::exchange(is_gone_, true)) all_gone_.set_value();
  }

  const TransportOptions options_;
  const std::shared_ptr<TlsIdentity> identity_;
  web::http::client::http_client client_;
  TokenSource token_;
  asio::io_context& pool_;
  asio::strand<asio::io_context::executor_type> strand_;
  std::atomic<RequestHandle> last_handle_{0};
  std::map<RequestHandle, std::shared_ptr<Call>> calls_;
  std::deque<std::shared_ptr<Call>> queue_;
  int active_ = 0;   // without streams
  int on_wire_ = 0;  // with them, and with those that have been given up
  bool is_closed_ = false;
  bool is_told_ = false;
  bool is_gone_ = false;
  std::promise<void> all_told_;
  std::promise<void> all_gone_;
};

class CpprestTransport final : public Transport {
 public:
  explicit CpprestTransport(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~CpprestTransport() override { core_->shut_down(); }
  CpprestTransport(const CpprestTransport&) = delete;
  CpprestTransport& operator=(const CpprestTransport&) = delete;

  RequestHandle send(HttpRequest request, Done done) override {
    return core_->submit(std::move(request), nullptr, std::move(done));
  }
  RequestHandle stream(HttpRequest request, OnBytes on_bytes, Done done) override {
    PAWL_CHECK(on_bytes != nullptr, "a stream needs a reader");
    return core_->submit(std::move(request), std::move(on_bytes), std::move(done));
  }
  void cancel(RequestHandle handle) override { core_->cancel(handle); }

 private:
  std::shared_ptr<Core> core_;
};

bool is_loopback(const std::string& host) {
  boost::system::error_code not_an_address;
  const auto address = asio::ip::make_address_v4(host, not_an_address);
  return host == "localhost" || (!not_an_address && address.is_loopback());
}

Status check_server(const web::uri& server) {
  const std::string text = server.to_string();
  if (server.host().empty() || server.host().front() == '[') {
    return fail(Code::kInvalid,
                "cannot connect to " + text + ": give the server by name or IPv4 address");
  }
  if (server.scheme() == "https") return {};
  if (server.scheme() == "http" && is_loopback(server.host())) return {};
  return fail(Code::kInvalid,
              "the API server " + text + " must be https (http only on the loopback address)");
}

bool size_pool() {
  // Private: a training process that inherited it could reach no HTTPS server.
  os::set_private_env("SSL_CERT_FILE", "/dev/null");
  // First, so that it is torn down last: after the pool's threads, which hold some of its state.
  ::OPENSSL_init_ssl(0, nullptr);
  // Signals are for the threads of main, not for the pool's.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool is_first = true;
  try {
    crossplat::threadpool::initialize_with_threads(kPoolThreads);
  } catch (const std::exception&) {
    is_first = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_first;
}

}  // namespace

void initialise_http() {
  static const bool is_sized = size_pool();
  PAWL_CHECK(is_sized, "initialise_http() must run before anything else uses cpprestsdk");
}

Result<std::unique_ptr<Transport>> make_transport(const ClusterConfig& config, const Clock& clock,
                                                  const TransportOptions& options) {
  initialise_http();
  try {
    const web::uri server(config.server);
    PAWL_TRY_VOID(check_server(server));
    std::shared_ptr<TlsIdentity> identity;
    if (server.scheme() == "https") {
      PAWL_TRY(made, TlsIdentity::make(config, server.host()));
      identity = std::move(made);
    }
    auto core = std::make_shared<Core>(config, clock, options, std::move(identity), server);
    return std::make_unique<CpprestTransport>(std::move(core));
  } catch (const std::exception& error) {
    return fail(Code::kInvalid,
                "the API server's address \"" + config.server + "\": " + error.what());
  }
}

}  // namespace pawl::kube
