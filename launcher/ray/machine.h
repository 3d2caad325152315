// Ray on this machine: what both programs of ours need to start it, and to say how it ended. Owner
// thread only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "launcher/ray/child.h"
#include "launcher/ray/start.h"

namespace pawl::launcher::ray {

// The address of a worker's node. The workers of `pawl run` share 127.0.0.1, in place of which Ray
// would use the machine's own, open to the network: each gets a loopback address of its own, in a
// net of this generation's, so that ports that Ray never changes are free for every job.
std::string host_of(const Place& place, std::size_t rank);

// Makes an environment that of Ray's processes: ours, without what is one program's own.
void prepare_for_ray(std::map<std::string, std::string>& env, const Place& place);

// A port that is free there now.
Result<std::uint16_t> free_port(const std::string& host);

// `ray start`; of the options what the machine says (host, ports, memory) is filled in. Invalid
// where the image has no Ray.
Result<std::unique_ptr<Child>> start_ray(Poller& poller, const Clock& clock, const Place& place,
                                         const std::map<std::string, std::string>& env,
                                         StartOptions options, Child::OnText on_text);

// Of a Ray that has ended by itself: the code of its worker's failure, and the reason.
int code_of_ray(const Child& ray, const StartScan& scan);
std::string why_ray_ended(const Child& ray, const StartScan& scan);

}  // namespace pawl::launcher::ray
