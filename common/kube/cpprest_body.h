// How bodies go into cpprestsdk and come out of it; for cpprest_transport.cpp alone. The library's
// own buffers hold whole answers without a bound and replay requests; these do neither, and never
// throw where it would abort.
#pragma once

#include <cpprest/http_client.h>

#include <algorithm>
#include <memory>

#include "common/kube/call.h"

namespace pawl::kube {

using Buffer = concurrency::streams::details::streambuf_state_manager<std::uint8_t>;

// What the library asks of a stream buffer and we never use: seeking, peeking, block access.
class PlainBuffer : public Buffer {
 public:
  using Buffer::Buffer;
  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  std::size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(std::size_t, std::ios_base::openmode) override {}
  std::size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return pos_type(-1); }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return pos_type(-1); }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return pos_type(-1);
  }
  bool acquire(std::uint8_t*&, std::size_t&) override { return false; }
  void release(std::uint8_t*, std::size_t) override {}
  // Done when it returns. The library waits for it, on a thread of its pool, when a read or write
  // fails; its own version hands the work to the pool, so that as many failures at once as there
  // are threads would wait for ever.
  using Buffer::close;
  pplx::task<void> close(std::ios_base::openmode mode) override {
    if (mode & std::ios_base::in) m_stream_can_read = false;
    if (mode & std::ios_base::out) m_stream_can_write = false;
    return pplx::task_from_result();
  }

 protected:
  pplx::task<int_type> _putc(std::uint8_t) override { return no_character(); }
  pplx::task<std::size_t> _putn(const std::uint8_t*, std::size_t) override {
    return pplx::task_from_result<std::size_t>(0);
  }
  pplx::task<int_type> _bumpc() override { return no_character(); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return no_character(); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return no_character(); }
  pplx::task<int_type> _ungetc() override { return no_character(); }
  pplx::task<std::size_t> _getn(std::uint8_t*, std::size_t) override {
    return pplx::task_from_result<std::size_t>(0);
  }
  std::size_t _scopy(std::uint8_t*, std::size_t) override { return 0; }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  std::uint8_t* _alloc(std::size_t) override { return nullptr; }
  void _commit(std::size_t) override {}

 private:
  static pplx::task<int_type> no_character() {
    return pplx::task_from_result<int_type>(traits::eof());
  }
};

// Gives the request's body to the library.
class BodySource final : public PlainBuffer {
 public:
  explicit BodySource(std::shared_ptr<Call> call)
      : PlainBuffer(std::ios_base::in), call_(std::move(call)) {}

 protected:
  pplx::task<std::size_t> _getn(std::uint8_t* target, std::size_t count) override {
    const std::string& body = call_->request().body;
    const std::size_t taken = std::min(count, body.size() - position_);
    std::copy_n(body.data() + position_, taken, target);
    position_ += taken;
    return pplx::task_from_result(taken);
  }

 private:
  std::shared_ptr<Call> call_;
  std::size_t position_ = 0;
};

// Takes the answer's body: the library reads on when the call has consumed a piece.
class BodySink final : public PlainBuffer {
 public:
  explicit BodySink(std::shared_ptr<Call> call)
      : PlainBuffer(std::ios_base::out), call_(std::move(call)) {}

 protected:
  pplx::task<std::size_t> _putn(const std::uint8_t* bytes, std::size_t count) override {
    pplx::task_completion_event<std::size_t> taken;
    call_->on_piece({reinterpret_cast<const char*>(bytes), count}, [taken, count](bool wants_more) {
      if (wants_more) {
        taken.set(count);
      } else {
        taken.set_exception(std::runtime_error("nobody reads this answer any more"));
      }
    });
    return pplx::create_task(taken);
  }

 private:
  std::shared_ptr<Call> call_;
};

}  // namespace pawl::kube
