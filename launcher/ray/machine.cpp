#include "launcher/ray/machine.h"

#include <sys/statvfs.h>
#include <algorithm>
#include <charconv>
#include <utility>

#include "common/api/contract.h"
#include "launcher/standby/memory_room.h"

namespace pawl::launcher::ray {
namespace {

constexpr int kSignalBase = 128;

std::int64_t shm_room() {
  struct statvfs volume{};
  if (::statvfs("/dev/shm", &volume) != 0) return 0;
  return static_cast<std::int64_t>(volume.f_bavail) * static_cast<std::int64_t>(volume.f_frsize);
}

}  // namespace

std::string host_of(const Place& place, std::size_t rank) {
  if (!place.addresses.front().starts_with("127.")) {
    const auto split = os::split_host_port(place.addresses[rank]);
    return split ? split->first : place.addresses[rank];
  }
  constexpr std::size_t kHostsInNet = 250, kNets = 250;
  std::size_t number = 0;
  std::from_chars(place.key.data(), place.key.data() + std::min<std::size_t>(place.key.size(), 6),
                  number, 16);
  return "127." + std::to_string(number / kNets % kNets + 1) + "." +
         std::to_string((number + rank / kHostsInNet) % kNets) + "." +
         std::to_string(rank % kHostsInNet + 1);
}

void prepare_for_ray(std::map<std::string, std::string>& env, const Place& place) {
  for (const char* name :
       {api::kEnvChannelFd, api::kEnvPulseFd, "TORCHELASTIC_ERROR_FILE", "RAY_ADDRESS"})
    env.erase(name);
  set_variables(env, place);
}

Result<std::uint16_t> free_port(const std::string& host) {
  PAWL_TRY(listener, os::listen_tcp(host, 0));
  return os::local_port(listener.get());
}

Result<std::unique_ptr<Child>> start_ray(Poller& poller, const Clock& clock, const Place& place,
                                         const std::map<std::string, std::string>& env,
                                         StartOptions options, Child::OnText on_text) {
  options.host = host_of(place, static_cast<std::size_t>(place.rank));
  options.cpus = place.cpus;
  options.gpus = place.gpus;
  const int sharers = place.is_pod ? 1 : static_cast<int>(place.addresses.size());
  options.object_bytes = object_bytes(memory_room(), shm_room(), sharers);
  PAWL_TRY(port, free_port(options.host));
  options.agent_port = port;
  auto child = Child::start(poller, clock, SpawnOptions{start_command(options), env, {}},
                            std::move(on_text));
  if (!child && child.error().code == Code::kInvalid)
    return fail(Code::kInvalid, child.error().message +
                                    ": the worker's image has to have Ray in its PATH (pip install "
                                    "ray)");
  return child;
}

// One that ends well has ended its worker's part all the same.
int code_of_ray(const Child& ray, const StartScan& scan) {
  if (scan.signal() != 0) return kSignalBase + scan.signal();
  return ray.code() == 0 ? api::kExitUser : ray.code();
}

std::string why_ray_ended(const Child& ray, const StartScan& scan) {
  const std::string what = scan.has_started() ? "Ray on this worker" : "ray start on this worker";
  if (scan.signal() != 0)
    return what + " has lost a process to signal " + std::to_string(scan.signal());
  if (ray.code() > kSignalBase)
    return what + " was killed by signal " + std::to_string(ray.code() - kSignalBase);
  return what + " ended with code " + std::to_string(ray.code());
}

}  // namespace pawl::launcher::ray
