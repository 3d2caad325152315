// One client of the server: reads a request, hands it to the handler, writes the answer, reads the
// next. Everything here runs on the server's thread, except Gate::post and what reply.cpp builds on
// it. A Connection is owned by the server's list; a handler that answers late holds only a weak
// pointer, which is locked on the server's thread alone, so that no socket outlives its io_context.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/http/server.h"

namespace pawl::http {

// The way onto the server's thread; after close() everything posted is dropped and post() says so.
// It keeps its own queue because Asio runs what its own thread posts after what other threads
// posted later, and a stream's first bytes must not overtake its start.
class Gate {
 public:
  explicit Gate(boost::asio::io_context& context) : context_(&context) {}
  bool post(std::function<void()> work);
  void close();
  // Runs what waits; on the server's thread.
  void drain();

 private:
  std::mutex mutex_;
  boost::asio::io_context* context_;
  std::vector<std::function<void()>> waiting_;
};

// What a streaming answer and its connection share. `unsent` bounds what a slow client may pile up.
struct StreamShared {
  std::atomic<bool> is_open{true};
  std::atomic<std::size_t> unsent{0};
};

class Connection;

struct ConnectionContext {
  ServerOptions options;
  Handler handler;
  std::shared_ptr<Gate> gate;
  std::function<void(const std::shared_ptr<Connection>&)> on_closed;
  std::uint64_t waits = 0;  // how often a connection began to wait for a request
};

// The Reply for the request that `connection` has just read.
Reply make_reply(std::shared_ptr<Gate> gate, std::weak_ptr<Connection> connection,
                 std::size_t stream_bytes_max);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, ConnectionContext& context);

  void start() { read_next(); }
  void close();
  // Orders connections by when they began to wait for a request; 0 while one is being answered.
  // Counts as waiting until the request has come whole.
  std::uint64_t waiting_since() const { return waiting_since_; }

  // The answer to the current request; each is called at most once per request.
  void respond(const Response& response);
  void start_stream(const Response& head, std::shared_ptr<StreamShared> shared);
  void write_chunk(const std::string& bytes);
  void finish_stream();

 private:
  using ErrorCode = boost::beast::error_code;
  using EmptyResponse = boost::beast::http::response<boost::beast::http::empty_body>;

  void read_next();
  void read_request();
  void on_header(ErrorCode error);
  void read_body();
  void on_request();
  void refuse(ErrorCode error);
  void send_full(const Response& response, bool keeps_alive);
  void on_sent(ErrorCode error, bool keeps_alive);
  void pump();
  void watch_for_close();
  void linger(int reads_left);
  bool is_closed() const { return !stream_.socket().is_open(); }

  ConnectionContext& context_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  // Of the current request.
  bool is_head_ = false;
  bool keeps_alive_ = false;
  unsigned version_ = 11;
  std::uint64_t turn_ = 0;
  std::uint64_t waiting_since_ = 0;
  // Of the current stream.
  std::shared_ptr<StreamShared> shared_;
  std::string waiting_;
  std::string in_flight_;
  bool is_writing_ = false;
  bool is_finishing_ = false;
};

}  // namespace pawl::http
