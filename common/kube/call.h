// One request on its way, whatever carries it: its deadline, what has arrived of the answer, and
// `done`, which runs exactly once. The public functions may be called from any thread; the work and
// all callbacks run one after the other on the call's strand, so nothing here locks. The network
// side feeds it (head, pieces, end or failure) and is told by `abort` when nobody waits for it any
// more.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <memory>
#include <string>

#include "common/kube/transport.h"

namespace pawl::kube {

class Call : public std::enable_shared_from_this<Call> {
 public:
  // `on_bytes` empty: the body is collected. `on_finished` runs after `done`, last of all.
  Call(boost::asio::io_context& context, HttpRequest request, Transport::OnBytes on_bytes,
       Transport::Done done, std::function<void()> on_finished);

  const HttpRequest& request() const { return request_; }
  bool is_stream() const { return static_cast<bool>(on_bytes_); }
  bool is_finished() const { return is_finished_; }

  void start_clock();
  // From here on a write may have been applied.
  void mark_sent() { was_sent_ = true; }
  bool was_sent() const { return was_sent_; }
  // Runs when the call ends before the network side does; at once if it has ended already.
  void set_abort(std::function<void()> abort);

  void on_head(int status, std::chrono::seconds retry_after);
  // `bytes` must stay valid until `consumed` has run; false means that nobody wants more.
  void on_piece(std::string_view bytes, std::function<void(bool)> consumed);
  void on_end();
  // Lost on the way: OutcomeUnknown for a write that was sent, else Unavailable.
  void on_lost(std::string why);
  void fail_with(Error error);

 private:
  struct Piece {
    std::string_view bytes;
    std::function<void(bool)> consumed;
  };

  void post(std::function<void()> work);
  void restart_clock();
  void take(const Piece& piece);
  void finish(Result<HttpResponse> result);
  Error lost(std::string why) const;

  HttpRequest request_;
  Transport::OnBytes on_bytes_;
  Transport::Done done_;
  std::function<void()> on_finished_;
  std::function<void()> abort_;
  boost::asio::strand<boost::asio::io_context::executor_type> strand_;
  boost::asio::steady_timer clock_;
  std::atomic<bool> was_sent_{false};
  std::atomic<bool> is_finished_{false};
  HttpResponse response_;  // status 0: the head is not here yet
  Piece early_;            // a piece that came before the head
};

}  // namespace pawl::kube
