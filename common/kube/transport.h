// The HTTP seam: everything that talks to an API server does it through a Transport. Production:
// CpprestTransport (the only file that includes cpprestsdk); `pawl run`: the embedded store in
// process; tests: a scripted one. All calls are asynchronous and thread-safe; callbacks run on a
// thread of the transport, must not block, and are never called after cancel() has returned for a
// handle whose `done` has run. `done` runs exactly once per call.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace pawl::kube {

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

struct HttpRequest {
  Method method = Method::kGet;
  std::string
      target;  // path and query, e.g. "/api/v1/namespaces/x/pods?limit=500", already encoded
  std::string content_type;  // empty when there is no body
  std::string body;
  std::chrono::milliseconds timeout{
      15'000};  // of the whole call; for a stream: the longest silence
};

struct HttpResponse {
  int status = 0;  // as the server gave it; a 4xx or 5xx is a response, not an Error
  std::string body;
  std::chrono::seconds retry_after{0};
};

using RequestHandle = std::uint64_t;

class Transport {
 public:
  using Done = std::function<void(Result<HttpResponse>)>;
  using OnBytes = std::function<void(std::string_view)>;

  virtual ~Transport() = default;

  // Errors: Unavailable (surely not applied), OutcomeUnknown (a write that may have been),
  // Cancelled.
  virtual RequestHandle send(HttpRequest request, Done done) = 0;

  // A long response: on_bytes for each piece of a 200 body, the next piece only after it returned.
  // `done` gets the response (body empty if it was 200 and streamed) when the server ended it, or
  // the Error.
  virtual RequestHandle stream(HttpRequest request, OnBytes on_bytes, Done done) = 0;

  // Prompt; `done` then gets Cancelled unless it ran before. Unknown handles are ignored.
  virtual void cancel(RequestHandle handle) = 0;
};

const char* method_name(Method method);

// send() and wait, for threads of our own (tests, CLI, never a callback).
Result<HttpResponse> send_and_wait(Transport& transport, HttpRequest request);

}  // namespace pawl::kube
