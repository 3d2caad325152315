#include "common/http/connection.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>

namespace pawl::http {

namespace asio = boost::asio;
namespace beast = boost::beast;

namespace {

constexpr std::size_t kReadBytes = 16 * 1024;
constexpr int kLingerReadsMax = 256;

template <typename Message>
void set_head(Message& message, const Response& response, unsigned version, bool keeps_alive) {
  message.version(version);
  message.result(static_cast<unsigned>(response.status));
  if (!response.content_type.empty()) {
    message.set(beast::http::field::content_type, response.content_type);
  }
  message.keep_alive(keeps_alive);
}

}  // namespace

bool Gate::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (context_ == nullptr) return false;
  waiting_.push_back(std::move(work));
  // The context outlives the gate's being open, so `this` is alive when the drain runs.
  if (waiting_.size() == 1) asio::post(*context_, [this] { drain(); });
  return true;
}

void Gate::drain() {
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(mutex_);
    ready.swap(waiting_);
  }
  for (auto& work : ready) work();
}

void Gate::close() {
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
}

Connection::Connection(asio::ip::tcp::socket socket, ConnectionContext& context)
    : context_(context),
      stream_(std::move(socket)),
      buffer_(context.options.header_bytes_max + 4 * kReadBytes) {}

void Connection::close() {
  if (shared_) shared_->is_open = false;
  if (!is_closed()) {
    ErrorCode ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    stream_.close();
  }
  context_.on_closed(shared_from_this());
}

void Connection::read_next() {
  if (is_closed()) return close();
  ++turn_;
  waiting_since_ = ++context_.waits;
  is_head_ = false;
  version_ = 11;
  parser_.emplace();
  // The parser's limit counts the header alone; one byte more is refused.
  parser_->header_limit(static_cast<std::uint32_t>(context_.options.header_bytes_max));
  parser_->body_limit(context_.options.body_bytes_max);
  if (buffer_.size() > 0) return read_request();  // the client has sent it already
  stream_.expires_after(context_.options.idle_timeout);
  stream_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode error, std::size_t bytes) {
                            if (error) return self->close();
                            self->buffer_.commit(bytes);
                            self->read_request();
                          });
}

void Connection::read_request() {
  // Set once: header and body together must arrive in this time, however slowly the bytes drip.
  stream_.expires_after(context_.options.request_timeout);
  beast::http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode error, std::size_t) { self->on_header(error); });
}

void Connection::on_header(ErrorCode error) {
  if (error) return refuse(error);
  const auto& head = parser_->get();
  version_ = head.version();
  if (!beast::iequals(head[beast::http::field::expect], "100-continue")) return read_body();
  auto go_on = std::make_shared<EmptyResponse>(beast::http::status::continue_, version_);
  beast::http::async_write(stream_, *go_on,
                           [self = shared_from_this(), go_on](ErrorCode failed, std::size_t) {
                             if (failed) return self->close();
                             self->read_body();
                           });
}

void Connection::read_body() {
  beast::http::async_read(stream_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, std::size_t) {
                            if (error) return self->refuse(error);
                            self->on_request();
                          });
}

void Connection::on_request() {
  waiting_since_ = 0;
  auto message = parser_->release();
  is_head_ = message.method() == beast::http::verb::head;
  keeps_alive_ = message.keep_alive();
  Request request;
  request.method = std::string{message.method_string()};
  request.target = std::string{message.target()};
  request.authorization = std::string{message[beast::http::field::authorization]};
  request.content_type = std::string{message[beast::http::field::content_type]};
  request.body = std::move(message.body());
  stream_.expires_never();
  context_.handler(std::move(request),
                   make_reply(context_.gate, weak_from_this(), context_.options.stream_bytes_max));
}

// A request that cannot be read is answered where HTTP has an answer, then the connection ends.
void Connection::refuse(ErrorCode error) {
  using Reason = beast::http::error;
  const bool is_http =
      error.category() == beast::http::make_error_code(Reason::bad_value).category();
  const bool is_gone = error == Reason::end_of_stream || error == Reason::partial_message;
  if (!is_http || is_gone) return close();
  Response response;
  response.status = 400;
  if (error == Reason::header_limit || error == Reason::buffer_overflow) response.status = 431;
  if (error == Reason::body_limit) response.status = 413;
  response.body = error.message() + "\n";
  send_full(response, false);
}

void Connection::respond(const Response& response) {
  if (is_closed()) return close();
  send_full(response, keeps_alive_);
}

void Connection::send_full(const Response& response, bool keeps_alive) {
  stream_.expires_after(context_.options.idle_timeout);
  const auto on_done = [self = shared_from_this(), keeps_alive](ErrorCode error) {
    self->on_sent(error, keeps_alive);
  };
  if (is_head_) {
    auto message = std::make_shared<EmptyResponse>();
    set_head(*message, response, version_, keeps_alive);
    message->content_length(response.body.size());
    auto serializer =
        std::make_shared<beast::http::response_serializer<beast::http::empty_body>>(*message);
    beast::http::async_write_header(
        stream_, *serializer,
        [message, serializer, on_done](ErrorCode error, std::size_t) { on_done(error); });
    return;
  }
  auto message = std::make_shared<beast::http::response<beast::http::string_body>>();
  set_head(*message, response, version_, keeps_alive);
  message->body() = response.body;
  message->prepare_payload();
  beast::http::async_write(stream_, *message,
                           [message, on_done](ErrorCode error, std::size_t) { on_done(error); });
}

void Connection::on_sent(ErrorCode error, bool keeps_alive) {
  if (error || is_closed()) return close();
  if (keeps_alive) return read_next();
  // Closing while the client still sends would reset the connection and may destroy the answer on
  // its way.
  ErrorCode ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(
      std::min(context_.options.request_timeout, std::chrono::milliseconds{2'000}));
  buffer_.clear();
  linger(kLingerReadsMax);
}

void Connection::linger(int reads_left) {
  if (reads_left == 0) return close();
  stream_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this(), reads_left](ErrorCode error, std::size_t) {
                            if (error) return self->close();
                            self->linger(reads_left - 1);
                          });
}

void Connection::start_stream(const Response& head, std::shared_ptr<StreamShared> shared) {
  if (is_closed() || is_head_ || version_ < 11) {
    // HTTP/1.0 has no chunks and HEAD no body: say so, or answer with the head alone.
    shared->is_open = false;
    Response instead = head;
    instead.body.clear();
    if (!is_head_) instead.status = 505;
    return respond(instead);
  }
  shared_ = std::move(shared);
  is_finishing_ = false;
  is_writing_ = true;
  auto message = std::make_shared<EmptyResponse>();
  set_head(*message, head, version_, keeps_alive_);
  message->chunked(true);
  auto serializer =
      std::make_shared<beast::http::response_serializer<beast::http::empty_body>>(*message);
  stream_.expires_after(context_.options.idle_timeout);
  beast::http::async_write_header(
      stream_, *serializer,
      [self = shared_from_this(), message, serializer](ErrorCode error, std::size_t) {
        if (error) return self->close();
        self->is_writing_ = false;
        self->watch_for_close();
        self->pump();
      });
}

void Connection::write_chunk(const std::string& bytes) {
  if (!shared_ || is_closed()) return;
  waiting_ += bytes;
  pump();
}

void Connection::finish_stream() {
  if (!shared_ || is_closed()) return;
  is_finishing_ = true;
  pump();
}

// Writes what waits as one chunk; after the last, ends the body and reads the next request.
void Connection::pump() {
  if (is_writing_ || !shared_) return;
  if (waiting_.empty() && !is_finishing_) return stream_.expires_never();
  is_writing_ = true;
  stream_.expires_after(context_.options.idle_timeout);
  if (!waiting_.empty()) {
    in_flight_ = std::exchange(waiting_, {});
    asio::async_write(stream_, beast::http::make_chunk(asio::buffer(in_flight_)),
                      [self = shared_from_this()](ErrorCode error, std::size_t) {
                        if (error) return self->close();
                        self->shared_->unsent -= self->in_flight_.size();
                        self->is_writing_ = false;
                        self->pump();
                      });
    return;
  }
  asio::async_write(stream_, beast::http::make_chunk_last(),
                    [self = shared_from_this()](ErrorCode error, std::size_t) {
                      self->is_writing_ = false;
                      self->shared_.reset();
                      ErrorCode ignored;
                      if (!error) self->stream_.socket().cancel(ignored);  // ends watch_for_close
                      self->on_sent(error, self->keeps_alive_);
                    });
}

// A client that leaves in the middle of a quiet stream shows only as a readable socket with nothing
// in it.
void Connection::watch_for_close() {
  stream_.socket().async_wait(
      asio::ip::tcp::socket::wait_read, [self = shared_from_this(), turn = turn_](ErrorCode error) {
        if (error || self->turn_ != turn || self->is_closed()) return;
        char probe = 0;
        const ssize_t bytes =
            ::recv(self->stream_.socket().native_handle(), &probe, 1, MSG_PEEK | MSG_DONTWAIT);
        const bool is_gone = bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR);
        if (is_gone) return self->close();
        // Bytes of a next request: they wait, and a later end shows when we write.
        if (bytes < 0) self->watch_for_close();
      });
}

}  // namespace pawl::http
