// `ray start` on one worker: its arguments, its environment, how much memory its objects may take,
// and what its output tells. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/ray/place.h"

namespace pawl::launcher::ray {

struct StartOptions {
  std::string host;               // of this worker, as the others reach it
  std::string head;               // "10.0.0.1:40001", that it joins; "": it is the head
  std::uint16_t port = 0;         // of the head, that the others join
  std::string folder;             // of the head's session; the others learn it from it
  std::uint16_t agent_port = 0;   // that would be the same on all of one machine
  int cpus = 0, gpus = 0;         // 0: what Ray finds
  std::int64_t object_bytes = 0;  // of the object store; 0: Ray's own choice
};
std::vector<std::string> start_command(const StartOptions& options);

// Of the user's driver, and of everything of Ray's: the user's own choice stands.
void set_variables(std::map<std::string, std::string>& env, const Place& place);

// For the object store, three tenths of the memory as Ray does, but of what the container may have
// and what /dev/shm has room for, which by default is 64 MiB in a pod: then Ray keeps objects on
// disk, and says so. `sharers`: workers on this machine that each take so much.
std::int64_t object_bytes(std::int64_t memory_room, std::int64_t shm_room, int sharers);

// What `ray start --block` says, fed as it comes.
class StartScan {
 public:
  void feed(std::string_view text);
  bool has_started() const { return has_started_; }  // its node has joined, too
  // By which a process of Ray's own was ended, and `ray start` with it; 0: it does not say.
  int signal() const { return signal_; }

 private:
  void look_at(std::string_view line);

  std::string line_;  // unfinished, bounded
  bool has_started_ = false;
  int signal_ = 0;
};

}  // namespace pawl::launcher::ray
