#include "common/api/codec_shared.h"
#include "common/api/json_fields.h"

namespace pawl::api {

using nlohmann::json;

void read_placement(Fields& fields, PlacementStatus& placement) {
  fields.read("attempt", placement.attempt);
  fields.read("domain", placement.domain);
  fields.read("level", placement.level);
  fields.each("nodes", [&](Fields& item) {
    PlacedNode node;
    item.read("name", node.name);
    item.read("workers", node.workers);
    placement.nodes.push_back(std::move(node));
  });
  fields.each("later", [&](Fields& item) {
    PlacedPod pod;
    item.read("slot", pod.slot);
    item.read("n", pod.n);
    item.read("node", pod.node);
    item.read("cause", pod.cause);
    place_later(placement, pod);
  });
}

json write_placement(const PlacementStatus& placement) {
  json object = {{"attempt", placement.attempt}, {"nodes", json::array()}};
  put(object, "domain", placement.domain);
  put(object, "level", placement.level);
  for (const PlacedNode& node : placement.nodes)
    object["nodes"].push_back({{"name", node.name}, {"workers", node.workers}});
  for (const PlacedPod& pod : placement.later) {
    json item{{"slot", pod.slot}, {"n", pod.n}, {"node", pod.node}};
    put(item, "cause", pod.cause);
    object["later"].push_back(std::move(item));
  }
  return object;
}

}  // namespace pawl::api
