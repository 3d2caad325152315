#include <algorithm>
#include <array>
#include <utility>

#include "common/api/codec_shared.h"
#include "common/api/json_fields.h"

namespace pawl::api {

using nlohmann::json;

namespace {

constexpr std::array<std::pair<SpotUse, const char*>, 3> kSpotNames{{
    {SpotUse::kNever, "Never"},
    {SpotUse::kAllow, "Allow"},
    {SpotUse::kPrefer, "Prefer"},
}};

}  // namespace

Capacity read_capacity(Fields& fields) {
  Capacity capacity;
  std::string word;
  fields.read("spot", word);
  const auto found =
      std::ranges::find_if(kSpotNames, [&](const auto& pair) { return word == pair.second; });
  if (found != kSpotNames.end()) {
    capacity.spot = found->first;
  } else {
    fields.set_error(fields.path_of("spot"), "must be Never, Allow or Prefer");
  }
  fields.read("onDemandMin", capacity.on_demand_min);
  return capacity;
}

json write_capacity(const Capacity& capacity) {
  const auto found =
      std::ranges::find(kSpotNames, capacity.spot, [](const auto& pair) { return pair.first; });
  return {{"spot", found->second}, {"onDemandMin", capacity.on_demand_min}};
}

void read_capacity_status(Fields& fields, CapacityStatus& capacity) {
  std::string spot;
  fields.read("spot", spot);
  capacity.is_spot_avoided = spot == "Avoided";
  fields.read("since", capacity.since);
  fields.read("until", capacity.until);
  fields.read("times", capacity.times);
  fields.read("lostSince", capacity.lost_since);
  fields.read("lostPods", capacity.lost_pods);
}

json write_capacity_status(const CapacityStatus& capacity) {
  json object = {{"spot", capacity.is_spot_avoided ? "Avoided" : "Used"}};
  put(object, "since", capacity.since);
  put(object, "until", capacity.until);
  if (capacity.times > 0) object["times"] = capacity.times;
  put(object, "lostSince", capacity.lost_since);
  if (!capacity.lost_pods.empty()) object["lostPods"] = capacity.lost_pods;
  return object;
}

}  // namespace pawl::api
