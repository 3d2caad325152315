#include "tests/sim/link.h"

#include <algorithm>
#include <utility>

namespace pawl::sim {
namespace {

// A connection that dies with its process takes what it carries with it, after a moment.
constexpr milliseconds kLastWords{50};
constexpr milliseconds kBookmarkEvery{60'000};
constexpr milliseconds kCallTimeout{10'000};

kube::HttpResponse status_answer(int code, const char* reason) {
  kube::HttpResponse response{.status = code};
  response.body = R"({"kind":"Status","code":)" + std::to_string(code) + R"(,"reason":")" + reason +
                  R"(","message":"simulated"})";
  if (code == 429) response.retry_after = seconds{1};
  return response;
}

}  // namespace

Link::Link(Engine& engine, ApiServer& api, const Knobs& knobs, Actor actor,
           std::function<void()> on_activity)
    : engine_(engine),
      api_(api),
      knobs_(knobs),
      actor_(actor),
      on_activity_(std::move(on_activity)) {
  api_.observe(*this);
}

Link::~Link() {
  *died_at_ = engine_.elapsed();
  for (auto& [handle, stream] : streams_) stream->is_over = true;
  api_.forget(*this);
}

kube::RequestHandle Link::send(kube::HttpRequest request, Done done) {
  if (on_send) on_send(request);
  const kube::RequestHandle handle = next_++;
  waiting_[handle] = std::move(done);
  engine_.after(latency(), [this, &engine = engine_, &api = api_, actor = actor_, died = died_at_,
                            handle, request = std::move(request)] {
    const milliseconds now = engine.elapsed();
    if (now < *died) return answer(handle, request.timeout, apply(request));
    // What was on the wire when the process died.
    if (now < *died + kLastWords && engine.random().one_in(2)) api.handle(actor, request);
  });
  return handle;
}

// What stands between a request and its being applied.
std::optional<Result<kube::HttpResponse>> Link::refusal(bool is_write,
                                                        const kube::HttpRequest& request) {
  if (is_away()) return fail(Code::kUnavailable, "connection refused");
  if (before_apply && !before_apply(request)) {
    return fail(is_write ? Code::kOutcomeUnknown : Code::kUnavailable, "the process died");
  }
  if (!api_.is_faulty) return std::nullopt;
  if (engine_.chance(knobs_.lose_request)) {
    api_.count_fault("request lost");
    return fail(is_write ? Code::kOutcomeUnknown : Code::kUnavailable, "no answer");
  }
  if (engine_.chance(knobs_.answer_5xx)) {
    api_.count_fault("5xx");
    return status_answer(503, "ServiceUnavailable");
  }
  if (engine_.chance(knobs_.answer_429)) {
    api_.count_fault("429");
    return status_answer(429, "TooManyRequests");
  }
  if (request.method == kube::Method::kPatch && engine_.chance(knobs_.answer_409)) {
    api_.count_fault("409");
    return status_answer(409, "Conflict");
  }
  return std::nullopt;
}

// A list of a server whose cache is behind (etcd is not asked): as at a revision of the past.
kube::HttpRequest Link::maybe_stale(const kube::HttpRequest& request) {
  const Path path = path_of(request);
  const bool is_first_page = request.method == kube::Method::kGet && path.name.empty() &&
                             request.target.find("continue=") == std::string::npos;
  if (!may_list_stale || !is_first_page) return request;
  const int server =
      static_cast<int>(engine_.random().below(static_cast<std::uint64_t>(api_.servers())));
  const std::uint64_t revision = api_.visible(server, path.plural);
  const auto& history = api_.store().history();
  const bool is_known = !history.empty() && history.front().revision < revision;
  if (revision == api_.revision() || !is_known) return request;
  kube::HttpRequest stale = request;
  stale.target += "&continue=" + std::to_string(revision) + "%2F%2F";
  api_.count_fault("stale list");
  return stale;
}

Result<kube::HttpResponse> Link::apply(const kube::HttpRequest& request) {
  const bool is_write = request.method != kube::Method::kGet;
  if (auto refused = refusal(is_write, request)) return std::move(*refused);
  kube::HttpResponse response = api_.handle(actor_, maybe_stale(request));
  if (after_apply && is_write) after_apply(request);
  const bool is_lost = (loses_reply && loses_reply(request)) ||
                       (api_.is_faulty && engine_.chance(knobs_.lose_reply));
  if (!is_lost) return response;
  api_.count_fault("reply lost");
  if (is_write && engine_.random().one_in(4)) return status_answer(504, "Timeout");
  return fail(is_write ? Code::kOutcomeUnknown : Code::kUnavailable, "the connection was reset");
}

void Link::answer(kube::RequestHandle handle, milliseconds timeout,
                  Result<kube::HttpResponse> response) {
  // A reset is heard of at once, silence only when the call's time is over.
  const bool is_silent = !response && engine_.random().one_in(4);
  const milliseconds wait = is_silent ? std::min(kCallTimeout, timeout) : latency();
  if (is_silent && on_silence) on_silence(wait);
  engine_.after(wait,
                [this, &engine = engine_, died = died_at_, handle, response = std::move(response)] {
                  if (engine.elapsed() >= *died) return;
                  auto node = waiting_.extract(handle);
                  if (node.empty()) return;
                  node.mapped()(response);
                  on_activity_();
                });
}

void Link::cancel(kube::RequestHandle handle) {
  waiting_.erase(handle);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return;
  found->second->is_over = true;
  streams_.erase(found);
}

// ---- streams

kube::RequestHandle Link::stream(kube::HttpRequest request, OnBytes on_bytes, Done done) {
  const kube::RequestHandle handle = next_++;
  auto stream = std::make_shared<Stream>();
  stream->request = std::move(request);
  stream->on_bytes = std::move(on_bytes);
  stream->done = std::move(done);
  stream->server =
      static_cast<int>(engine_.random().below(static_cast<std::uint64_t>(api_.servers())));
  streams_[handle] = stream;
  engine_.after(latency(), [this, stream] {
    if (!stream->is_over) open(stream);
  });
  return handle;
}

void Link::open(const StreamPtr& stream) {
  if (is_away()) return end(stream, fail(Code::kUnavailable, "connection refused"));
  if (api_.is_faulty && knobs_.compact > 0 && engine_.chance(2'000)) {
    api_.count_fault("410");  // a server that has forgotten more than the others
    return end(stream, status_answer(410, "Expired"));
  }
  auto watch = api_.store().begin_watch(stream->request);
  if (!watch) return end(stream, local::response_of(watch.error()));
  stream->watch = std::move(*watch);
  stream->is_open = true;
  stream->heard = engine_.elapsed();
  watch_silence(stream);
  keep_alive(stream);
  if (stream->watch.timeout_seconds > 0) {
    engine_.after(seconds{stream->watch.timeout_seconds}, [this, stream] {
      if (!stream->is_over && !stream->is_frozen) end(stream, kube::HttpResponse{.status = 200});
    });
  }
  pump_later(stream);
}

void Link::on_change(Actor, const local::Change& change) {
  for (const auto& [handle, stream] : streams_) {
    if (stream->is_open && stream->watch.kind->plural == change.key.plural) pump_later(stream);
  }
}

void Link::pump_later(const StreamPtr& stream) {
  const milliseconds behind = api_.lag(stream->server, stream->watch.kind->plural);
  engine_.after(behind + latency(), [this, stream] {
    if (!stream->is_over) pump(stream);
  });
}

void Link::pump(const StreamPtr& stream) {
  if (stream->is_frozen || is_cut) return;
  const std::uint64_t until = api_.visible(stream->server, stream->watch.kind->plural);
  feed(stream, api_.store().read_watch(stream->watch, until));
}

void Link::feed(const StreamPtr& stream, const std::string& lines) {
  if (lines.empty()) return;
  stream->heard = engine_.elapsed();
  const std::string_view text = lines;
  const std::size_t chunk = knobs_.one_byte_chunks ? 1 : text.size();
  for (std::size_t at = 0; at < text.size() && !stream->is_over; at += chunk) {
    stream->on_bytes(text.substr(at, chunk));
  }
  on_activity_();
}

void Link::keep_alive(const StreamPtr& stream) {
  engine_.after(kBookmarkEvery, [this, stream] {
    if (stream->is_over) return;
    pump(stream);
    const bool can_speak = !stream->is_over && !stream->is_frozen && !is_cut;
    if (can_speak && !stream->watch.is_starting) feed(stream, api_.store().bookmark(stream->watch));
    if (!stream->is_over) keep_alive(stream);
  });
}

// The client's side: a stream that said nothing for the request's time-out is dead.
void Link::watch_silence(const StreamPtr& stream) {
  const milliseconds due = stream->heard + stream->request.timeout;
  engine_.after(due - engine_.elapsed(), [this, stream] {
    if (stream->is_over) return;
    if (engine_.elapsed() - stream->heard < stream->request.timeout) return watch_silence(stream);
    end(stream, fail(Code::kUnavailable, "nothing heard"));
  });
}

void Link::end(const StreamPtr& stream, Result<kube::HttpResponse> result) {
  stream->is_over = true;
  std::erase_if(streams_, [&](const auto& entry) { return entry.second == stream; });
  stream->done(std::move(result));
  on_activity_();
}

void Link::drop_streams() {
  const auto streams = streams_;
  for (const auto& [handle, stream] : streams) {
    if (stream->is_open && !stream->is_over) end(stream, fail(Code::kUnavailable, "reset"));
  }
}

void Link::freeze_streams() {
  for (const auto& [handle, stream] : streams_) stream->is_frozen = true;
}

}  // namespace pawl::sim
