#include "common/http/server.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <set>
#include <thread>

#include "common/base/check.h"
#include "common/http/connection.h"

namespace pawl::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};

// Asio leaves its sockets open across exec; a training process must not inherit them.
void close_on_exec(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

Result<tcp::acceptor> listen(asio::io_context& context, const ServerOptions& options) {
  const std::string where = options.address + " port " + std::to_string(options.port);
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.address, error);
  if (error) return fail(Code::kInvalid, "not an IP address: " + options.address);
  tcp::acceptor acceptor(context);
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) close_on_exec(acceptor.native_handle());
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail(Code::kIo, "cannot listen on " + where + ": " + error.message());
  return acceptor;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, Handler handler)
      : acceptor_(io_), pause_(io_), gate_(std::make_shared<Gate>(io_)) {
    context_.options = options;
    context_.handler = std::move(handler);
    context_.gate = gate_;
    context_.on_closed = [this](const std::shared_ptr<Connection>& gone) {
      connections_.erase(gone);
    };
  }

  Status start() {
    PAWL_TRY(acceptor, listen(io_, context_.options));
    acceptor_ = std::move(acceptor);
    port_ = acceptor_.local_endpoint().port();
    accept();
    // Signals are for the threads of main.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return {};
  }

  ~Impl() {
    gate_->close();
    asio::post(io_, [this] { shut_down(); });
    if (thread_.joinable()) thread_.join();
  }

  std::uint16_t port() const { return port_; }

 private:
  void run() {
    try {
      io_.run();
    } catch (const std::exception& error) {
      check_failed(__FILE__, __LINE__, "the HTTP server's thread does not throw", error.what());
    }
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (is_stopping_) return;
      if (error) return pause_accepting();
      on_client(std::move(socket));
      accept();
    });
  }

  // Out of descriptors, most likely: try again when some may have been closed.
  void pause_accepting() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](error_code error) {
      if (!error && !is_stopping_) accept();
    });
  }

  void on_client(tcp::socket socket) {
    if (connections_.size() >= context_.options.connections_max && !make_room()) return;
    close_on_exec(socket.native_handle());
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    auto connection = std::make_shared<Connection>(std::move(socket), context_);
    connections_.insert(connection);
    connection->start();
  }

  // Idle clients must not keep the others out (the kubelet's probes above all): whoever has waited
  // longest goes. False when all are being answered.
  bool make_room() {
    std::shared_ptr<Connection> longest;
    for (const auto& connection : connections_) {
      const std::uint64_t since = connection->waiting_since();
      if (since > 0 && (!longest || since < longest->waiting_since())) longest = connection;
    }
    if (longest) longest->close();
    return longest != nullptr;
  }

  void shut_down() {
    is_stopping_ = true;
    gate_->drain();
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    const auto connections = connections_;  // close() erases
    for (const auto& connection : connections) connection->close();
  }

  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::shared_ptr<Gate> gate_;
  ConnectionContext context_;
  std::set<std::shared_ptr<Connection>> connections_;
  bool is_stopping_ = false;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Handler handler) {
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  PAWL_TRY_VOID(impl->start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::uint16_t Server::port() const { return impl_->port(); }

}  // namespace pawl::http
