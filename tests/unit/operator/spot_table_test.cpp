#include "operator/controller/spot_table.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>

using namespace pawl;
using namespace pawl::controller;

TEST_CASE("spot_table: the rows of the chart name each cloud's label and taint", "[spot][I41]") {
  std::ifstream file(PAWL_SOURCE_DIR "/charts/pawl/spot.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto table = parse_spot_table(text.str());
  REQUIRE(table.has_value());
  const auto has = [&](const api::SpotRow& row) {
    return std::ranges::find(*table, row) != table->end();
  };
  CHECK(has({"cloud.google.com/gke-spot", "true", "cloud.google.com/gke-spot"}));
  CHECK(has({"eks.amazonaws.com/capacityType", "SPOT", ""}));
  CHECK(has({"karpenter.sh/capacity-type", "spot", "karpenter.sh/capacity-type"}));
  CHECK(has(
      {"kubernetes.azure.com/scalesetpriority", "spot", "kubernetes.azure.com/scalesetpriority"}));
}

TEST_CASE("spot_table: a bad row is refused with its number and what it needs", "[spot][I41]") {
  const auto message = [](const std::string& text) {
    const auto table = parse_spot_table(text);
    return table ? std::string("accepted") : table.error().message;
  };
  CHECK(message("{}").find("must be a JSON array") != std::string::npos);
  CHECK(message("no").find("must be a JSON array") != std::string::npos);
  const std::string good = R"({"label":"a","value":"b"})";
  CHECK(message("[" + good + "]") == "accepted");
  CHECK(message("[" + good + R"(,{"label":"a"}])").starts_with("row 2 of the spot labels needs"));
  CHECK(message(R"([{"value":"a"}])").find("needs label and value") != std::string::npos);
  CHECK(message(R"([{"label":"a","value":true}])").find("value must be a text") !=
        std::string::npos);
  CHECK(message(R"([{"label":"a","value":"b","key":"c"}])").find("unknown field key") !=
        std::string::npos);
  CHECK(message("[1]").find("is no object") != std::string::npos);
}
