// An API server that answers what the test wrote down, and 404 to everything else. Answers at once,
// on the caller's thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/kube/transport.h"

namespace pawl::cli {

class ScriptedApi : public kube::Transport {
 public:
  void answer(const std::string& target, const nlohmann::json& body, int status = 200) {
    answers_[target] = {status, body.is_string() ? body.get<std::string>() : body.dump(), {}};
  }
  void answer_list(const std::string& target, const std::vector<nlohmann::json>& items) {
    answer(target, {{"kind", "List"}, {"metadata", nlohmann::json::object()}, {"items", items}});
  }
  void refuse(const std::string& target, int status, const std::string& message) {
    answer(target, {{"kind", "Status"}, {"message", message}}, status);
  }
  const std::vector<std::string>& asked() const { return asked_; }

  kube::RequestHandle send(kube::HttpRequest request, Done done) override {
    asked_.push_back(request.target);
    const auto found = answers_.find(request.target);
    if (found != answers_.end()) {
      done(found->second);
    } else {
      done(kube::HttpResponse{
          404, R"({"kind":"Status","message":"\")" + request.target + R"(\" not found"})", {}});
    }
    return asked_.size();
  }
  kube::RequestHandle stream(kube::HttpRequest request, OnBytes, Done done) override {
    return send(std::move(request), std::move(done));
  }
  void cancel(kube::RequestHandle) override {}

 private:
  std::map<std::string, kube::HttpResponse> answers_;
  std::vector<std::string> asked_;
};

}  // namespace pawl::cli
