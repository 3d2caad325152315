// The Operator as `pawl run` and main.cpp use it: its own thread and the real informers, above the
// store's transport.
#include "operator/controller/operator.h"
#include "common/base/json.h"

#include <catch2/catch_test_macros.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "cli/local/store_transport.h"
#include "common/kube/requests.h"
#include "common/os/real_clock.h"

using namespace pawl;
using nlohmann::json;

namespace {

// Waits for a line of the operator's log, so that no test has to sleep.
class Lines {
 public:
  void add(std::string_view line) {
    const std::lock_guard lock(mutex_);
    lines_.append(line);
    added_.notify_all();
  }
  bool wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    return added_.wait_for(lock, std::chrono::seconds{30},
                           [&] { return lines_.find(text) != std::string::npos; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::string lines_;
};

json call(kube::Transport& transport, const kube::HttpRequest& request) {
  const auto response = kube::send_and_wait(transport, request);
  REQUIRE(response.has_value());
  INFO(response->body);
  REQUIRE(response->status < 300);
  return parse_json(response->body);
}

json tiny_job() {
  const json container = {
      {"name", "worker"}, {"image", "example/train:1"}, {"command", {"/train"}}};
  return {
      {"apiVersion", "pawl.dev/v1alpha1"},
      {"kind", "TrainingJob"},
      {"metadata", {{"name", "gpt"}, {"namespace", "team"}}},
      {"spec",
       {{"replicas", 2}, {"template", {{"spec", {{"containers", json::array({container})}}}}}}}};
}

}  // namespace

TEST_CASE("operator: started above the embedded API, it syncs, makes a gang, and stops at once",
          "[controller]") {
  const RealClock clock;
  Lines lines;
  Log log(clock, [&](std::string_view line) { lines.add(line); });
  local::StoreTransport transport(clock, {});
  controller::Operator running(transport, clock, Random{1}, log, {});
  CHECK_FALSE(running.is_synced());
  running.start();
  call(transport, kube::create_request(kube::resources::kTrainingJobs, "team", tiny_job()));
  // The third plan records the UIDs of the pods: everything before it has happened.
  REQUIRE(lines.wait_for("\"first\":\"create ServiceAccount\""));
  REQUIRE(lines.wait_for("\"actions\":2,\"first\":\"patch TrainingJob status\""));
  CHECK(running.is_synced());
  CHECK(running.is_alive());
  const json pods = call(transport, kube::list_request(kube::resources::kPods, "team", {}));
  CHECK(pods["items"].size() == 2);
  const json job =
      call(transport, kube::get_request(kube::resources::kTrainingJobs, "team", "gpt"));
  CHECK(job["status"]["attempt"] == 1);
  CHECK(job["status"]["selector"].get<std::string>().starts_with("pawl.dev/job-uid="));
  CHECK(running.metrics().find("pawl_plans_total") != std::string::npos);
  running.stop();
  running.stop();
}
