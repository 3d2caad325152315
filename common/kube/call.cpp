#include "common/kube/call.h"

#include <boost/asio/post.hpp>

namespace pawl::kube {
namespace {

// A page of 500 large objects fits; a server that goes on for ever does not fill our memory.
constexpr std::size_t kBodyBytesMax = 256 * 1024 * 1024;
constexpr int kOk = 200;

}  // namespace

Call::Call(boost::asio::io_context& context, HttpRequest request, Transport::OnBytes on_bytes,
           Transport::Done done, std::function<void()> on_finished)
    : request_(std::move(request)),
      on_bytes_(std::move(on_bytes)),
      done_(std::move(done)),
      on_finished_(std::move(on_finished)),
      strand_(context.get_executor()),
      clock_(strand_) {}

void Call::post(std::function<void()> work) {
  boost::asio::post(strand_, [self = shared_from_this(), work = std::move(work)] {
    if (!self->is_finished_) work();
  });
}

void Call::start_clock() {
  post([this] { restart_clock(); });
}

void Call::restart_clock() {
  clock_.expires_after(request_.timeout);
  clock_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (error || self->is_finished_) return;
    // A piece may have moved the deadline when this was already on its way.
    if (self->clock_.expiry() > boost::asio::steady_timer::clock_type::now()) return;
    const std::string limit = std::to_string(self->request_.timeout.count()) + " ms";
    self->finish(tl::make_unexpected(
        self->lost(self->is_stream() ? "silent for " + limit : "no answer within " + limit)));
  });
}

void Call::set_abort(std::function<void()> abort) {
  boost::asio::post(strand_, [self = shared_from_this(), abort = std::move(abort)] {
    if (self->is_finished_) return abort();
    self->abort_ = abort;
  });
}

void Call::on_head(int status, std::chrono::seconds retry_after) {
  post([this, status, retry_after] {
    response_.status = status;
    response_.retry_after = retry_after;
    if (is_stream()) restart_clock();
    if (early_.consumed) take(std::exchange(early_, {}));
  });
}

void Call::on_piece(std::string_view bytes, std::function<void(bool)> consumed) {
  boost::asio::post(
      strand_, [self = shared_from_this(), piece = Piece{bytes, std::move(consumed)}]() mutable {
        if (self->is_finished_) return piece.consumed(false);
        if (self->response_.status != 0) return self->take(piece);
        self->early_ = std::move(piece);  // the server side of the wait holds the bytes
      });
}

void Call::take(const Piece& piece) {
  if (is_stream() && response_.status == kOk) {
    on_bytes_(piece.bytes);
    restart_clock();
  } else {
    response_.body.append(piece.bytes);
  }
  piece.consumed(true);
  if (response_.body.size() > kBodyBytesMax) {
    finish(tl::make_unexpected(lost("the answer is larger than " + std::to_string(kBodyBytesMax))));
  }
}

void Call::on_end() {
  post([this] {
    abort_ = nullptr;  // it would close a connection that may be used again
    finish(std::move(response_));
  });
}

void Call::on_lost(std::string why) {
  post([this, why = std::move(why)] {
    abort_ = nullptr;
    finish(tl::make_unexpected(lost(why)));
  });
}

void Call::fail_with(Error error) {
  post([this, error = std::move(error)] { finish(tl::make_unexpected(error)); });
}

Error Call::lost(std::string why) const {
  const bool may_be_applied = was_sent_ && request_.method != Method::kGet;
  return {
      may_be_applied ? Code::kOutcomeUnknown : Code::kUnavailable,
      std::string{method_name(request_.method)} + " " + request_.target + ": " + std::move(why)};
}

void Call::finish(Result<HttpResponse> result) {
  is_finished_ = true;
  clock_.cancel();
  if (early_.consumed) std::exchange(early_, {}).consumed(false);
  if (abort_) std::exchange(abort_, {})();
  on_bytes_ = nullptr;
  // Moved out first: what `done` captured must not outlive it.
  std::exchange(done_, {})(std::move(result));
  on_finished_();
}

}  // namespace pawl::kube
