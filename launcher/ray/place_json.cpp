#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/json.h"
#include "launcher/mpi/proof.h"
#include "launcher/ray/place.h"

namespace pawl::launcher::ray {

using nlohmann::json;

std::string encode_place(const Place& place) {
  return json{{"rank", place.rank}, {"addresses", place.addresses},
              {"cpus", place.cpus}, {"gpus", place.gpus},
              {"key", place.key},   {"isPod", place.is_pod}}
      .dump();
}

Result<Place> take_place(std::map<std::string, std::string>& env) {
  const auto found = env.find(kPlaceVariable);
  const json object = found == env.end() ? json{} : parse_json(found->second);
  if (found != env.end()) env.erase(found);
  try {
    Place place{
        object.at("rank").get<int>(),        object.at("addresses").get<std::vector<std::string>>(),
        object.at("cpus").get<int>(),        object.at("gpus").get<int>(),
        object.at("key").get<std::string>(), object.at("isPod").get<bool>()};
    const bool is_whole =
        place.rank >= 0 && std::cmp_less(place.rank, place.addresses.size()) && !place.key.empty();
    if (is_whole) return place;
  } catch (const json::exception&) {
  }
  return fail(Code::kInvalid, std::string{kPlaceVariable} +
                                  " does not say where this program stands: it is started by the "
                                  "launcher of a job with spec.runtime.kind Ray, not by hand");
}

// As for MPI: a program of an older generation that wakes up must not get in.
Place place_of(const Settings& settings, const membership::Placement& at) {
  const std::string generation =
      "ray " + std::to_string(at.attempt) + " " + std::to_string(at.generation);
  return {at.member_rank,
          at.addresses,
          settings.worker.cpus,
          settings.worker.gpus,
          mpi::hex(mpi::mac(at.key, generation)),
          !settings.is_local()};
}

std::vector<std::string> program(const Settings& settings, const membership::Placement& at) {
  std::vector<std::string> words = settings.launcher;
  if (at.member_rank != 0) {
    words.emplace_back(kNodeOption);
    return words;
  }
  words.emplace_back(kHeadOption);
  words.emplace_back("--");
  words.insert(words.end(), settings.command.begin(), settings.command.end());
  return words;
}

std::string token_of(const Place& place) { return mpi::hex(mpi::mac(place.key, "ray token")); }

}  // namespace pawl::launcher::ray
