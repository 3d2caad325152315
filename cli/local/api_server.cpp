#include "cli/local/api_server.h"

#include <openssl/crypto.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "cli/local/api_request.h"
#include "cli/local/api_status.h"
#include "common/http/server.h"
#include "common/os/process.h"

namespace pawl::local {
namespace {

constexpr char kJwksPath[] = "/openid/v1/jwks";
constexpr std::string_view kBearer = "Bearer ";
// A watch is silent between bookmarks.
constexpr std::chrono::seconds kIdleTimeout{180};

http::Response http_response(const kube::HttpResponse& response) {
  return http::Response{response.status, "application/json", response.body};
}

std::optional<kube::Method> method_of(const std::string& name) {
  for (const kube::Method method : {kube::Method::kGet, kube::Method::kPost, kube::Method::kPut,
                                    kube::Method::kPatch, kube::Method::kDelete}) {
    if (name == kube::method_name(method)) return method;
  }
  return std::nullopt;
}

// The verb in RBAC's words.
std::string verb_of(kube::Method method, const ApiTarget& target) {
  switch (method) {
    case kube::Method::kGet:
      if (target.is_watch()) return "watch";
      return target.name.empty() ? "list" : "get";
    case kube::Method::kPost:
      return "create";
    case kube::Method::kPut:
      return "update";
    case kube::Method::kPatch:
      return "patch";
    case kube::Method::kDelete:
      return target.name.empty() ? "deletecollection" : "delete";
  }
  return "unknown";
}

// A watch names its object only through the field selector; a Role with resourceNames is matched by
// that.
std::string name_asked(const ApiTarget& target) {
  constexpr std::string_view kByName = "metadata.name=";
  if (!target.name.empty()) return target.name;
  const std::string fields = target.query_value("fieldSelector");
  const bool is_by_name = fields.rfind(kByName, 0) == 0 && fields.find(',') == std::string::npos;
  return is_by_name ? fields.substr(kByName.size()) : std::string{};
}

bool is_allowed(const PodIdentity& pod, const std::string& verb, const ApiTarget& target) {
  const bool is_own =
      target.kind->plural == "workergroups" && target.ns == pod.ns && name_asked(target) == pod.job;
  if (!is_own) return false;
  if (target.subresource.empty()) return verb == "get" || verb == "watch";
  return target.subresource == "status" && verb == "patch";
}

StatusError refusal(const PodIdentity& pod, const std::string& verb, const ApiTarget& target) {
  std::string resource{target.kind->plural};
  if (!target.subresource.empty()) resource += "/" + target.subresource;
  std::string message = "User \"system:serviceaccount:" + pod.ns + ":" + pod.service_account +
                        "\" cannot " + verb + " resource \"" + resource + "\" in API group \"" +
                        std::string{target.kind->group} + "\"";
  message +=
      target.ns.empty() ? " at the cluster scope" : " in the namespace \"" + target.ns + "\"";
  return forbidden(*target.kind, target.name, message);
}

}  // namespace

class ApiServer::Impl {
 public:
  Impl(StoreTransport& transport, const TokenAuthority& tokens, const Clock& clock)
      : transport_(transport), tokens_(tokens), clock_(clock) {}

  Status start() {
    http::ServerOptions options;
    options.idle_timeout = kIdleTimeout;
    PAWL_TRY(server, http::Server::start(options, [this](http::Request request, http::Reply reply) {
               handle(request, reply);
             }));
    server_ = std::move(server);
    return {};
  }

  std::uint16_t port() const { return server_->port(); }
  const std::string& user_token() const { return user_token_; }

  void handle(const http::Request& request, const http::Reply& reply) {
    const auto answer = [&](const StatusError& error) {
      reply.respond(http_response(response_of(error)));
    };
    if (request.target == kJwksPath && request.method == "GET") {
      return reply.respond(http::Response{200, "application/jwk-set+json", tokens_.jwks()});
    }
    if (is_user(request.authorization)) return serve_user(request, reply);
    const auto pod = authenticate(request.authorization);
    if (!pod) return answer(unauthorized());
    const auto target = parse_target(request.target);
    const auto method = method_of(request.method);
    if (!target || !method) {
      StatusError error = unknown_path();
      error.code = 403;
      error.reason = "Forbidden";
      error.message = "forbidden: User \"system:serviceaccount:" + pod->ns + ":" +
                      pod->service_account + "\" cannot reach path \"" + request.target + "\"";
      return answer(error);
    }
    const std::string verb = verb_of(*method, *target);
    if (!is_allowed(*pod, verb, *target)) return answer(refusal(*pod, verb, *target));
    forward(request, *method, reply);
  }

  void admit(const PodIdentity& pod) {
    const std::lock_guard lock{mutex_};
    pods_[pod.pod_uid] = pod;
  }

  void dismiss(const std::string& pod_uid) {
    const std::lock_guard lock{mutex_};
    pods_.erase(pod_uid);
  }

  void serve_logs(LogHandler handler) {
    const std::lock_guard lock{logs_mutex_};
    logs_ = std::move(handler);
  }

 private:
  bool is_user(const std::string& authorization) const {
    const std::string expected = std::string{kBearer} + user_token_;
    return authorization.size() == expected.size() &&
           ::CRYPTO_memcmp(authorization.data(), expected.data(), expected.size()) == 0;
  }

  void serve_user(const http::Request& request, const http::Reply& reply) {
    const auto method = method_of(request.method);
    if (!method) return reply.respond(http_response(response_of(unknown_path())));
    if (*method == kube::Method::kGet && serve_log(request.target, reply)) return;
    forward(request, *method, reply);
  }

  bool serve_log(const std::string& path, const http::Reply& reply) {
    const auto target = parse_target(path);
    if (!target || target->kind->plural != "pods" || target->subresource != "log") return false;
    const std::lock_guard lock{logs_mutex_};
    if (logs_) logs_(*target, reply);
    return static_cast<bool>(logs_);
  }

  void forward(const http::Request& request, kube::Method method, const http::Reply& reply) {
    kube::HttpRequest call;
    call.method = method;
    call.target = request.target;
    call.content_type = request.content_type;
    call.body = request.body;
    if (ApiStore::is_watch(call)) return serve_watch(std::move(call), reply);
    transport_.send(std::move(call),
                    [respond = reply.respond](Result<kube::HttpResponse> response) {
                      if (response) return respond(http_response(*response));
                      respond(http::Response{503, "text/plain", response.error().message});
                    });
  }

  // All of it runs on the transport's one thread, but for `handle`, which is set when open_stream
  // returns.
  struct WatchReply {
    std::shared_ptr<http::Stream> stream;
    std::atomic<kube::RequestHandle> handle{0};
  };

  std::optional<PodIdentity> authenticate(const std::string& authorization) {
    if (authorization.rfind(kBearer, 0) != 0) return std::nullopt;
    const auto claims = tokens_.verify(std::string_view{authorization}.substr(kBearer.size()),
                                       kApiAudience, clock_.now());
    if (!claims) return std::nullopt;
    const std::lock_guard lock{mutex_};
    const auto pod = pods_.find(claims->pod_uid);
    if (pod == pods_.end()) return std::nullopt;
    return pod->second;
  }

  void serve_watch(kube::HttpRequest call, const http::Reply& reply) {
    auto watch = std::make_shared<WatchReply>();
    const auto on_open = [watch, start = reply.start_stream] {
      watch->stream = start(http::Response{200, "application/json", {}});
    };
    const auto on_bytes = [transport = &transport_, watch](std::string_view bytes) {
      watch->stream->write(std::string{bytes});
      if (!watch->stream->is_open()) transport->cancel(watch->handle);
    };
    const auto done = [watch, respond = reply.respond](const Result<kube::HttpResponse>& response) {
      if (watch->stream) return watch->stream->close();
      if (response) return respond(http_response(*response));
      respond(http::Response{503, "text/plain", response.error().message});
    };
    watch->handle = transport_.open_stream(std::move(call), on_open, on_bytes, done);
  }

  StoreTransport& transport_;
  const TokenAuthority& tokens_;
  const Clock& clock_;
  std::mutex mutex_;  // guards pods_
  std::map<std::string, PodIdentity> pods_;
  std::mutex logs_mutex_;  // guards logs_, while it is called too
  LogHandler logs_;
  const std::string user_token_ = os::random_hex(32);
  std::unique_ptr<http::Server> server_;  // last: its thread uses the rest
};

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiServer::~ApiServer() = default;

Result<std::unique_ptr<ApiServer>> ApiServer::start(StoreTransport& transport,
                                                    const TokenAuthority& tokens,
                                                    const Clock& clock) {
  auto impl = std::make_unique<Impl>(transport, tokens, clock);
  PAWL_TRY_VOID(impl->start());
  return std::unique_ptr<ApiServer>{new ApiServer{std::move(impl)}};
}

std::string ApiServer::url() const { return "http://127.0.0.1:" + std::to_string(impl_->port()); }
const std::string& ApiServer::user_token() const { return impl_->user_token(); }
void ApiServer::admit(const PodIdentity& pod) { impl_->admit(pod); }
void ApiServer::dismiss(const std::string& pod_uid) { impl_->dismiss(pod_uid); }
void ApiServer::serve_logs(LogHandler handler) { impl_->serve_logs(std::move(handler)); }

}  // namespace pawl::local
