#include "common/kube/transport.h"

#include <future>
#include <memory>

namespace pawl::kube {

const char* method_name(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      return "DELETE";
  }
  return "GET";
}

Result<HttpResponse> send_and_wait(Transport& transport, HttpRequest request) {
  // Shared, because the transport's thread may still be inside set_value() when the waiter returns.
  auto answer = std::make_shared<std::promise<Result<HttpResponse>>>();
  std::future<Result<HttpResponse>> future = answer->get_future();
  transport.send(std::move(request),
                 [answer](Result<HttpResponse> result) { answer->set_value(std::move(result)); });
  return future.get();
}

}  // namespace pawl::kube
