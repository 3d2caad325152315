// The process that keeps all worker processes of one `pawl run`: a small single-threaded child that
// starts them, reaps them, and outlives its parent just long enough to kill every one of them, also
// after `kill -9` of `pawl`. It is the subreaper of all it starts, so nothing below it can escape
// by daemonizing. When a main process ends, what is left of its pod is killed, as the end of a
// container's PID 1 would.
//
// Protocol over a SEQPACKET socket, JSON: {start, id, command, environment, folder, log}, {signal,
// id, number} → {started, id, pid}, {refused, id, message}, {exited, id, code, signal}. The
// socket's end is the order to kill all. Keeper::start forks: call it while the process has one
// thread. The rest is for one thread.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/os/fd.h"

namespace pawl::local {

struct ProcessSpec {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // all of it
  std::string folder;                              // working directory, "" : ours
  std::string log;                                 // standard output and error are appended here
};

struct KeeperEvent {
  enum class Kind { kStarted, kRefused, kExited };
  Kind kind = Kind::kStarted;
  std::string id;
  pid_t pid = 0;        // started
  std::string message;  // refused: why it could not be started
  int exit_code = 0;    // exited; 128 + signal when it was killed
  std::optional<int> signal;
};

class Keeper {
 public:
  static Result<std::unique_ptr<Keeper>> start();
  ~Keeper();  // kills everything and waits until it is gone

  // `id` is the pod's UID: strays are recognised by PAWL_POD_UID in their environment and by their
  // session.
  Status spawn(const std::string& id, const ProcessSpec& spec);
  // To the main process alone, as a container runtime does; SIGKILL goes to everything of the pod.
  Status signal(const std::string& id, int number);

  int event_fd() const { return socket_.get(); }  // readable when receive() has something
  // Empty when there is nothing now; Unavailable when the keeper is gone, and with it every
  // process.
  Result<std::optional<KeeperEvent>> receive(std::chrono::milliseconds timeout);

 private:
  Keeper(os::Fd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  os::Fd socket_;
  pid_t pid_;
};

}  // namespace pawl::local
