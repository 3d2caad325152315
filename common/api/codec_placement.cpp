#include "common/api/codec_shared.h"
#include "common/api/json_fields.h"

namespace pawl::api {

using nlohmann::json;

void read_placement(Fields& fields, PlacementStatus& placement) {
  fields.read("attempt", placement.attempt);
  fields.read("domain", placement.domain);
  fields.each("nodes", [&](Fields& item) {
    PlacedNode node;
    item.read("name", node.name);
    item.read("workers", node.workers);
    placement.nodes.push_back(std::move(node));
  });
}

json write_placement(const PlacementStatus& placement) {
  json object = {{"attempt", placement.attempt}, {"nodes", json::array()}};
  put(object, "domain", placement.domain);
  for (const PlacedNode& node : placement.nodes)
    object["nodes"].push_back({{"name", node.name}, {"workers", node.workers}});
  return object;
}

}  // namespace pawl::api
