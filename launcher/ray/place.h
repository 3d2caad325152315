// Where a Ray job's programs stand, and what a launcher starts for them. Rank 0's worker gets
// `pawl-launch --ray-head -- COMMAND` (head.h), each other one `pawl-launch --ray-node` (node.h):
// for the gang these are its programs, one a worker, like any framework's. The command, a driver
// that calls ray.init(), runs on rank 0's worker alone. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/membership/action.h"
#include "launcher/settings.h"

namespace pawl::launcher::ray {

inline constexpr char kHeadOption[] = "--ray-head";
inline constexpr char kNodeOption[] = "--ray-node";
inline constexpr char kPlaceVariable[] = "PAWL_RAY";

struct Place {
  int rank = 0;                        // of the worker
  std::vector<std::string> addresses;  // of the workers, by rank, where their programs listen
  int cpus = 0, gpus = 0;              // that a worker's node offers; 0: what Ray finds itself
  std::string key;                     // of this generation, hex
  bool is_pod = true;                  // not `pawl run`, whose workers share this machine
};

// For a program of ours, as the one variable kPlaceVariable.
std::string encode_place(const Place& place);
// Takes it out of the environment: the user's programs do not get the key by it.
Result<Place> take_place(std::map<std::string, std::string>& env);

Place place_of(const Settings& settings, const membership::Placement& at);
// What the launcher starts on this worker.
std::vector<std::string> program(const Settings& settings, const membership::Placement& at);

// What Ray's own processes know each other by, where its version can (2.52): it goes over the
// network as it is, so it is not the key.
std::string token_of(const Place& place);

}  // namespace pawl::launcher::ray
