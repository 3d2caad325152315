#include "common/kube/object_text.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/json.h"

using namespace pawl;
using kube::parse_object;
using nlohmann::json;

namespace {

// As a server has it: metadata, then the rest.
std::string object(const std::string& managed, const std::string& rest = R"("spec":{"a":[1]})") {
  return R"({"kind":"Pod","metadata":{"name":"p","labels":{"x":"}]\""},"managedFields":)" +
         managed + R"(,"uid":"u"},)" + rest + "}";
}

json without(json whole) {
  whole["metadata"]["managedFields"] = json::array();
  return whole;
}

}  // namespace

TEST_CASE("object text: managedFields are left out, whatever stands in them", "[kube]") {
  for (const std::string managed :
       {R"([])", R"([{"manager":"a","fieldsV1":{"f:metadata":{"f:x":{}}}}])",
        R"([{"manager":"] } \" \\","fieldsV1":{"k:{\"name\":\"w\"}":{".":{},"f:[":{}}}},{}])"}) {
    const std::string text = object(managed);
    INFO(text);
    CHECK(parse_object(text) == without(parse_json(text)));
    const std::string event = R"({"type":"ADDED","object":)" + text + "}";
    CHECK(parse_object(event)["object"] == without(parse_json(text)));
  }
}

TEST_CASE("object text: what a user wrote stays", "[kube]") {
  const std::string config =
      R"("spec":{"config":{"b":1,"managedFields":[{"manager":"mine"}]},"text":",\"managedFields\":["})";
  const std::string text = R"({"kind":"TrainingJob","metadata":{"name":"p"},)" + config + "}";
  CHECK(parse_object(text) == parse_json(text));
  const std::string both = object("[{}]", config);
  CHECK(parse_object(both) == without(parse_json(both)));
  const std::string note =
      R"({"metadata":{"annotations":{"a":"{\"x\":1,\"managedFields\":[{"},"name":"p"},"spec":{}})";
  CHECK(parse_object(note) == parse_json(note));
}

TEST_CASE("object text: what is cut off or no JSON is none", "[kube]") {
  const std::string text = object(R"([{"manager":"a"}])");
  for (std::size_t size = 0; size < text.size(); ++size) {
    INFO(text.substr(0, size));
    CHECK(parse_object(text.substr(0, size)).is_discarded());
  }
  CHECK(parse_object("not JSON").is_discarded());
  CHECK(parse_object(R"({"a":1,"managedFields":[}}]})").is_discarded());
}

TEST_CASE("object text: a list's items come one by one, each as an object", "[kube]") {
  const auto list = [](const std::string& items) {
    return R"({"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},"items":[)" +
           items + "]}";
  };
  const std::string one = object("[{}]"),
                    other = object(R"([{"a":"]}"}])", R"("spec":{"items":[{}]})");
  for (const auto& wanted : std::vector<std::vector<std::string>>{{}, {one}, {one, other, one}}) {
    std::string items;
    for (const std::string& item : wanted) items += (items.empty() ? "" : ",") + item;
    const std::string text = list(items);
    kube::ListText page = kube::split_list(text);
    CHECK(page.list["metadata"]["continue"] == "x");
    CHECK(page.list["items"].empty());
    std::vector<json> got;
    while (!page.items.empty()) got.push_back(kube::next_item(page.items));
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == without(parse_json(wanted[i])));
  }
  for (const char* blank : {" ", "\n  "}) {  // as a proxy may write it
    const std::string spaced = list(one + blank);
    kube::ListText page = kube::split_list(spaced);
    CHECK_FALSE(kube::next_item(page.items).is_discarded());
    CHECK(page.items.empty());
    const std::string none = list(blank);
    CHECK(kube::split_list(none).items.empty());
  }
  // What is cut off is no list, or one whose last item is none.
  const std::string text = list(one + "," + other);
  for (std::size_t size = 0; size < text.size(); ++size) {
    INFO(text.substr(0, size));
    CHECK(kube::split_list(std::string_view(text).substr(0, size)).list.is_discarded());
  }
  const std::string broken_text = list(one + ",{\"a\":}");
  kube::ListText broken = kube::split_list(broken_text);
  CHECK_FALSE(kube::next_item(broken.items).is_discarded());
  CHECK(kube::next_item(broken.items).is_discarded());
  CHECK(broken.items.empty());
}
