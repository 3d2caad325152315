// One process's way to the API servers: a kube::Transport with latency, lost requests and replies,
// refusals, and streams that lag, break, freeze and fall silent. What the process sent before it
// died may still arrive, for a moment. One thread: the event queue's.
#pragma once

#include <map>
#include <memory>

#include "common/kube/transport.h"
#include "tests/sim/api_server.h"

namespace pawl::sim {

class Link final : public kube::Transport, private ApiObserver {
 public:
  // `on_activity` runs after each callback.
  Link(Engine& engine, ApiServer& api, const Knobs& knobs, Actor actor,
       std::function<void()> on_activity);
  ~Link() override;  // the process dies

  kube::RequestHandle send(kube::HttpRequest request, Done done) override;
  kube::RequestHandle stream(kube::HttpRequest request, OnBytes on_bytes, Done done) override;
  void cancel(kube::RequestHandle handle) override;

  void drop_streams();
  void freeze_streams();        // half-open: nothing arrives any more, and nobody says so
  bool is_cut = false;          // no way to the API (a node without network)
  bool may_list_stale = false;  // lists come from a watch cache
  std::function<void(const kube::HttpRequest&)> on_send;
  std::function<bool(const kube::HttpRequest&)> before_apply;  // false: it is lost instead
  std::function<void(const kube::HttpRequest&)> after_apply;
  std::function<bool(const kube::HttpRequest&)> loses_reply;
  std::function<void(milliseconds)> on_silence;  // a call has no answer for so long

 private:
  struct Stream {
    kube::HttpRequest request;
    OnBytes on_bytes;
    Done done;
    local::Watch watch;
    int server = 0;
    milliseconds heard{0};
    bool is_open = false, is_frozen = false, is_over = false;
  };
  using StreamPtr = std::shared_ptr<Stream>;

  void on_change(Actor, const local::Change& change) override;
  milliseconds latency() { return engine_.between(milliseconds{1}, knobs_.latency_max); }
  bool is_away() const { return is_cut || engine_.elapsed() < api_.outage_until; }
  std::optional<Result<kube::HttpResponse>> refusal(bool is_write,
                                                    const kube::HttpRequest& request);
  Result<kube::HttpResponse> apply(const kube::HttpRequest& request);
  kube::HttpRequest maybe_stale(const kube::HttpRequest& request);
  void answer(kube::RequestHandle handle, milliseconds timeout,
              Result<kube::HttpResponse> response);
  void open(const StreamPtr& stream);
  void pump(const StreamPtr& stream);
  void pump_later(const StreamPtr& stream);
  void feed(const StreamPtr& stream, const std::string& lines);
  void watch_silence(const StreamPtr& stream);
  void keep_alive(const StreamPtr& stream);
  void end(const StreamPtr& stream, Result<kube::HttpResponse> result);

  Engine& engine_;
  ApiServer& api_;
  const Knobs& knobs_;
  const Actor actor_;
  const std::function<void()> on_activity_;
  std::map<kube::RequestHandle, Done> waiting_;
  std::map<kube::RequestHandle, StreamPtr> streams_;
  kube::RequestHandle next_ = 1;
  // Events outlive the process: they look here first.
  std::shared_ptr<milliseconds> died_at_ = std::make_shared<milliseconds>(milliseconds::max());
};

}  // namespace pawl::sim
