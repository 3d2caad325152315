#include "launcher/notice/cloud.h"

#include <algorithm>
#include <array>

#include "common/base/json.h"

namespace pawl::launcher {
namespace {

using nlohmann::json;

constexpr int kOk = 200, kUnauthorized = 401;

std::string trimmed(std::string text) {
  constexpr char kSpaces[] = " \t\r\n";
  text.erase(text.find_last_not_of(kSpaces) + 1);
  return text.erase(0, text.find_first_not_of(kSpaces));
}

// ---- AWS: a token first (IMDSv2); 404 as long as nothing is announced.

class Aws final : public Cloud {
 public:
  explicit Aws(MetadataCall call) : call_(std::move(call)) {}

  bool find() {
    const auto reply = call_(
        {"PUT", "/latest/api/token", {{"X-aws-ec2-metadata-token-ttl-seconds", kTokenSeconds}}});
    const bool is_token = reply && reply->status == kOk && reply->flavor.empty() &&
                          !reply->body.empty() && reply->body.find('<') == std::string::npos;
    if (is_token) token_ = trimmed(reply->body);
    return is_token;
  }

  const char* name() const override { return "AWS"; }

  std::optional<std::string> notice() override {
    if (const auto text = get("/latest/meta-data/spot/instance-action")) {
      const json action = parse_json(*text);
      const std::string what = text_at(action, "action"), time = text_at(action, "time");
      if (!what.empty())
        return "AWS takes the spot instance back (" + what + (time.empty() ? "" : " at " + time) +
               ")";
    }
    // An instance that its auto-scaling group ends; another state says nothing.
    const auto state = get("/latest/meta-data/autoscaling/target-lifecycle-state");
    if (state && trimmed(*state) == "Terminated") return "its auto-scaling group ends the instance";
    return std::nullopt;
  }

 private:
  static constexpr char kTokenSeconds[] = "21600";

  std::optional<std::string> get(const std::string& target) {
    for (int i = 0; i < 2; ++i) {
      const auto reply = call_({"GET", target, {{"X-aws-ec2-metadata-token", token_}}});
      if (reply && reply->status == kOk) return reply->body;
      const bool is_expired = reply && reply->status == kUnauthorized;
      if (!is_expired || !find()) return std::nullopt;
    }
    return std::nullopt;
  }

  MetadataCall call_;
  std::string token_;
};

// ---- Google Cloud

class Google final : public Cloud {
 public:
  explicit Google(MetadataCall call) : call_(std::move(call)) {}

  bool find() { return get("preempted").has_value(); }
  const char* name() const override { return "Google Cloud"; }

  std::optional<std::string> notice() override {
    if (get("preempted") == "TRUE") return "Google Cloud takes the machine back (preempted)";
    if (get("maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE")
      return "Google Cloud ends the machine for maintenance of its host";
    return std::nullopt;
  }

 private:
  std::optional<std::string> get(const std::string& what) {
    const auto reply =
        call_({"GET", "/computeMetadata/v1/instance/" + what, {{"Metadata-Flavor", "Google"}}});
    if (!reply || reply->status != kOk || reply->flavor != "Google") return std::nullopt;
    return trimmed(reply->body);
  }

  MetadataCall call_;
};

// ---- Azure: events of the whole scale set; ours are those that name this machine.

class Azure final : public Cloud {
 public:
  explicit Azure(MetadataCall call) : call_(std::move(call)) {}

  bool find() {
    const auto reply = get("/metadata/instance/compute/name?api-version=2021-02-01&format=text");
    if (!reply || reply->empty() || reply->find('<') != std::string::npos) return false;
    machine_ = trimmed(*reply);
    return true;
  }
  const char* name() const override { return "Azure"; }

  std::optional<std::string> notice() override {
    const auto text = get("/metadata/scheduledevents?api-version=2020-07-01");
    const json document = text ? parse_json(*text) : json();
    if (!document.is_object() || !document.contains("Events") || !document["Events"].is_array())
      return std::nullopt;
    for (const json& event : document["Events"]) {
      const std::string type = text_at(event, "EventType");
      if (!ends_machine(type) || !is_ours(event)) continue;
      const std::string time = text_at(event, "NotBefore");
      return "Azure takes the machine away (" + type +
             (time.empty() ? "" : ", not before " + time) + ")";
    }
    return std::nullopt;
  }

 private:
  // Freeze is a pause of a few seconds. After the others nothing in memory is left.
  static bool ends_machine(const std::string& type) {
    constexpr std::array kEnds{"Preempt", "Terminate", "Redeploy", "Reboot"};
    return std::ranges::any_of(kEnds, [&](const char* known) { return type == known; });
  }

  bool is_ours(const json& event) const {
    if (!event.contains("Resources") || !event["Resources"].is_array()) return false;
    return std::ranges::any_of(event["Resources"],
                               [&](const json& one) { return one.is_string() && one == machine_; });
  }

  std::optional<std::string> get(const std::string& target) {
    const auto reply = call_({"GET", target, {{"Metadata", "true"}}});
    if (!reply || reply->status != kOk || !reply->flavor.empty()) return std::nullopt;
    return reply->body;
  }

  MetadataCall call_;
  std::string machine_;
};

template <typename T>
std::unique_ptr<Cloud> find_one(const MetadataCall& call) {
  auto cloud = std::make_unique<T>(call);
  return cloud->find() ? std::move(cloud) : nullptr;
}

}  // namespace

std::unique_ptr<Cloud> find_cloud(const MetadataCall& call) {
  for (const auto& find : {find_one<Google>, find_one<Aws>, find_one<Azure>}) {
    if (auto cloud = find(call)) return cloud;
  }
  return nullptr;
}

}  // namespace pawl::launcher
