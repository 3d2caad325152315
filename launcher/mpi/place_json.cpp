#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/json.h"
#include "common/os/process.h"
#include "launcher/mpi/place.h"
#include "launcher/mpi/proof.h"

namespace pawl::launcher::mpi {

using nlohmann::json;

std::string encode_place(const Place& place) {
  return json{{"rank", place.rank},
              {"addresses", place.addresses},
              {"slots", place.slots},
              {"key", place.key},
              {"isPod", place.is_pod}}
      .dump();
}

Result<Place> take_place(std::map<std::string, std::string>& env) {
  const auto found = env.find(kPlaceVariable);
  const json object = found == env.end() ? json{} : parse_json(found->second);
  if (found != env.end()) env.erase(found);
  try {
    Place place{object.at("rank").get<int>(),
                object.at("addresses").get<std::vector<std::string>>(),
                object.at("slots").get<int>(), object.at("key").get<std::string>(),
                object.at("isPod").get<bool>()};
    const bool is_whole = place.rank >= 0 && std::cmp_less(place.rank, place.addresses.size()) &&
                          place.slots > 0 && !place.key.empty();
    if (is_whole) return place;
  } catch (const json::exception&) {
  }
  return fail(Code::kInvalid, std::string{kPlaceVariable} +
                                  " does not say where this program stands: it is started by the "
                                  "launcher of a job with spec.runtime.kind MPI, not by hand");
}

// The key that members hear may last as long as their leader; a program of an older generation that
// wakes up must not get in.
Place place_of(const Settings& settings, const membership::Placement& at) {
  const std::string generation =
      "mpi " + std::to_string(at.attempt) + " " + std::to_string(at.generation);
  return {at.member_rank, at.addresses, settings.worker.slots, hex(mac(at.key, generation)),
          !settings.is_local()};
}

std::vector<std::string> program(const Settings& settings, const membership::Placement& at) {
  std::vector<std::string> words = settings.launcher;
  if (at.member_rank != 0) {
    words.emplace_back(kAgentOption);
    return words;
  }
  words.emplace_back(kRunOption);
  words.emplace_back("--");
  words.insert(words.end(), settings.command.begin(), settings.command.end());
  return words;
}

std::vector<std::string> own_command(int argument_count) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  std::vector<std::string> words;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\0', start), text.size());
    words.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  const auto arguments = static_cast<std::size_t>(argument_count);
  words.resize(words.size() > arguments ? words.size() - arguments : 1);
  // The loader, where there is one; else this program, wherever PATH had it.
  words.front() = os::executable_path();
  return words;
}

}  // namespace pawl::launcher::mpi
