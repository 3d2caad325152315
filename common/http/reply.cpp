#include "common/base/check.h"
#include "common/http/connection.h"

namespace pawl::http {
namespace {

// Runs `work` with the connection on the server's thread; false if the server is gone.
bool on_connection(const std::shared_ptr<Gate>& gate, const std::weak_ptr<Connection>& connection,
                   std::function<void(Connection&)> work) {
  return gate->post([connection, work = std::move(work)] {
    if (const auto alive = connection.lock()) work(*alive);
  });
}

class ChunkedStream final : public Stream {
 public:
  ChunkedStream(std::shared_ptr<Gate> gate, std::weak_ptr<Connection> connection,
                std::shared_ptr<StreamShared> shared, std::size_t bytes_max)
      : gate_(std::move(gate)),
        connection_(std::move(connection)),
        shared_(std::move(shared)),
        bytes_max_(bytes_max) {}
  ~ChunkedStream() override { finish(); }

  void write(std::string bytes) override {
    if (bytes.empty() || !shared_->is_open) return;
    const std::size_t unsent = shared_->unsent.fetch_add(bytes.size()) + bytes.size();
    if (unsent > bytes_max_) {
      // A watcher that cannot follow is cut off; it lists again, which costs less than this memory.
      shared_->is_open = false;
      on_connection(gate_, connection_, [](Connection& client) { client.close(); });
      return;
    }
    const bool is_served = on_connection(
        gate_, connection_,
        [bytes = std::move(bytes)](Connection& client) { client.write_chunk(bytes); });
    if (!is_served) shared_->is_open = false;
  }

  void close() override { finish(); }
  bool is_open() const override { return shared_->is_open; }

 private:
  void finish() {
    if (!shared_->is_open.exchange(false)) return;
    on_connection(gate_, connection_, [](Connection& client) { client.finish_stream(); });
  }

  std::shared_ptr<Gate> gate_;
  std::weak_ptr<Connection> connection_;
  std::shared_ptr<StreamShared> shared_;
  std::size_t bytes_max_;
};

// Both functions of a Reply share one of these: it lets one answer through, and answers for a
// handler that forgot to.
class Answer {
 public:
  Answer(std::shared_ptr<Gate> gate, std::weak_ptr<Connection> connection,
         std::size_t stream_bytes_max)
      : gate_(std::move(gate)),
        connection_(std::move(connection)),
        stream_bytes_max_(stream_bytes_max) {}
  ~Answer() {
    if (is_given_) return;
    respond({.status = 500, .body = "the handler gave no answer\n"});
  }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  void respond(Response response) {
    if (is_given_.exchange(true)) return PAWL_BUG("a request was answered twice");
    on_connection(gate_, connection_, [response = std::move(response)](Connection& client) {
      client.respond(response);
    });
  }

  std::shared_ptr<Stream> start_stream(Response head) {
    auto shared = std::make_shared<StreamShared>();
    auto stream = std::make_shared<ChunkedStream>(gate_, connection_, shared, stream_bytes_max_);
    if (is_given_.exchange(true)) {
      shared->is_open = false;
      PAWL_BUG("a request was answered twice");
      return stream;
    }
    const bool is_served = gate_->post([connection = connection_, head = std::move(head), shared] {
      const auto alive = connection.lock();
      if (alive) return alive->start_stream(head, shared);
      shared->is_open = false;
    });
    if (!is_served) shared->is_open = false;
    return stream;
  }

 private:
  std::shared_ptr<Gate> gate_;
  std::weak_ptr<Connection> connection_;
  std::size_t stream_bytes_max_;
  std::atomic<bool> is_given_{false};
};

}  // namespace

Reply make_reply(std::shared_ptr<Gate> gate, std::weak_ptr<Connection> connection,
                 std::size_t stream_bytes_max) {
  auto answer = std::make_shared<Answer>(std::move(gate), std::move(connection), stream_bytes_max);
  return {[answer](Response response) { answer->respond(std::move(response)); },
          [answer](Response head) { return answer->start_stream(std::move(head)); }};
}

}  // namespace pawl::http
