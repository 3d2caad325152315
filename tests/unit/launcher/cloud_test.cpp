// What clouds say of a machine's end, by scripted metadata services that answer as documented: with
// the headers that each of them demands.
#include "launcher/notice/cloud.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::launcher;

namespace {

std::string header(const MetadataRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

struct Aws {
  std::string action, state = "InService", token = "t-1";
  int tokens = 0;
  Result<MetadataReply> operator()(const MetadataRequest& request) {
    if (request.method == "PUT" && request.target == "/latest/api/token") {
      if (header(request, "X-aws-ec2-metadata-token-ttl-seconds").empty())
        return MetadataReply{400, "", ""};
      ++tokens;
      return MetadataReply{200, token, ""};
    }
    if (header(request, "X-aws-ec2-metadata-token") != token) return MetadataReply{401, "", ""};
    if (request.target == "/latest/meta-data/spot/instance-action" && !action.empty())
      return MetadataReply{200, action, ""};
    if (request.target == "/latest/meta-data/autoscaling/target-lifecycle-state")
      return MetadataReply{200, state + "\n", ""};
    return MetadataReply{404, "<html>Not Found</html>", ""};
  }
};

struct Google {
  std::string preempted = "FALSE", maintenance = "NONE";
  Result<MetadataReply> operator()(const MetadataRequest& request) const {
    if (header(request, "Metadata-Flavor") != "Google")
      return MetadataReply{403, "<html>Missing Metadata-Flavor:Google header.</html>", "Google"};
    const std::string root = "/computeMetadata/v1/instance/";
    if (request.target == root + "preempted") return MetadataReply{200, preempted, "Google"};
    if (request.target == root + "maintenance-event")
      return MetadataReply{200, maintenance, "Google"};
    return MetadataReply{404, "", "Google"};
  }
};

struct Azure {
  std::string events = R"({"DocumentIncarnation":1,"Events":[]})";
  Result<MetadataReply> operator()(const MetadataRequest& request) const {
    if (header(request, "Metadata") != "true")
      return MetadataReply{400, R"({"error":"Bad request. Required metadata header"})", ""};
    if (request.target == "/metadata/instance/compute/name?api-version=2021-02-01&format=text")
      return MetadataReply{200, "vmss_7", ""};
    if (request.target == "/metadata/scheduledevents?api-version=2020-07-01")
      return MetadataReply{200, events, ""};
    return MetadataReply{404, "", ""};
  }
};

// All state stays with the script.
template <typename T>
std::unique_ptr<Cloud> find_at(T& script) {
  return find_cloud([&script](const MetadataRequest& request) { return script(request); });
}

}  // namespace

TEST_CASE("cloud: AWS announces a spot interruption, and the end by a scaling group",
          "[launcher][interruption]") {
  Aws aws;
  const auto cloud = find_at(aws);
  REQUIRE(cloud);
  CHECK(std::string(cloud->name()) == "AWS");
  CHECK_FALSE(cloud->notice().has_value());
  aws.token = "t-2";  // the first one has expired
  CHECK_FALSE(cloud->notice().has_value());
  CHECK(aws.tokens == 2);
  SECTION("spot") {
    aws.action = R"({"action":"terminate","time":"2027-01-15T08:02:00Z"})";
    CHECK(cloud->notice() ==
          "AWS takes the spot instance back (terminate at 2027-01-15T08:02:00Z)");
  }
  SECTION("group") {
    aws.state = "Terminated";
    CHECK(cloud->notice() == "its auto-scaling group ends the instance");
  }
  SECTION("nonsense says nothing") {
    aws.action = "<html>";
    CHECK_FALSE(cloud->notice().has_value());
  }
}

TEST_CASE("cloud: Google announces preemption and maintenance", "[launcher][interruption]") {
  Google google;
  const auto cloud = find_at(google);
  REQUIRE(cloud);
  CHECK(std::string(cloud->name()) == "Google Cloud");
  google.maintenance = "MIGRATE_ON_HOST_MAINTENANCE";
  CHECK_FALSE(cloud->notice().has_value());
  SECTION("preempted") { google.preempted = "TRUE"; }
  SECTION("host maintenance") { google.maintenance = "TERMINATE_ON_HOST_MAINTENANCE"; }
  CHECK(cloud->notice().has_value());
}

TEST_CASE("cloud: of Azure's events those count that end this machine",
          "[launcher][interruption]") {
  Azure azure;
  const auto cloud = find_at(azure);
  REQUIRE(cloud);
  CHECK(std::string(cloud->name()) == "Azure");
  CHECK_FALSE(cloud->notice().has_value());
  const auto event = [](const char* type, const char* machine) {
    return std::string(R"({"EventId":"e","EventType":")") + type +
           R"(","ResourceType":"VirtualMachine","Resources":["vmss_1",")" + machine +
           R"("],"EventStatus":"Scheduled","NotBefore":"Fri, 15 Jan 2027 08:00:40 GMT"})";
  };
  const auto events = [&](const std::string& list) {
    azure.events = R"({"Events":[)" + list + "]}";
  };
  events(event("Preempt", "vmss_8"));
  CHECK_FALSE(cloud->notice().has_value());
  events(event("Freeze", "vmss_7"));
  CHECK_FALSE(cloud->notice().has_value());
  events(event("Freeze", "vmss_7") + "," + event("Preempt", "vmss_7"));
  CHECK(cloud->notice() ==
        "Azure takes the machine away (Preempt, not before Fri, 15 Jan 2027 08:00:40 GMT)");
  azure.events = "[]";
  CHECK_FALSE(cloud->notice().has_value());
}

TEST_CASE("cloud: nobody is taken for a cloud who does not answer like one",
          "[launcher][interruption]") {
  const auto answers = [](int status, const std::string& body) {
    return find_cloud([=](const MetadataRequest&) { return MetadataReply{status, body, ""}; });
  };
  CHECK_FALSE(answers(404, ""));
  CHECK_FALSE(answers(200, ""));
  CHECK_FALSE(answers(200, "<html>captive portal</html>"));
  CHECK_FALSE(find_cloud([](const MetadataRequest&) -> Result<MetadataReply> {
    return fail(Code::kUnavailable, "no route");
  }));
}
