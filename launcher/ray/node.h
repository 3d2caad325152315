// `pawl-launch --ray-node`: on every worker but rank 0's it is the job's program. It waits for who
// knows the key of the generation (`--ray-head`), is told by it which head its `ray start` is to
// join, says when it has, and ends with the connection. Where Ray ends before, that is this
// worker's failure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "launcher/loop/poller.h"
#include "launcher/loop/signals.h"
#include "launcher/mpi/wire.h"
#include "launcher/ray/child.h"
#include "launcher/ray/start.h"

namespace pawl::launcher::ray {

class RayNode {
 public:
  // `env`: of Ray.
  static Result<std::unique_ptr<RayNode>> create(Place place,
                                                 std::map<std::string, std::string> env,
                                                 const Clock& clock);
  ~RayNode();
  // Until the job has ended: 0 when it has ended well, the code of a failure that was here, 75 for
  // every other end.
  int run();

 private:
  struct Caller {
    mpi::Wire wire;
    SteadyPoint since;
    bool is_job = false;
  };
  using Id = std::uint64_t;

  RayNode(Place place, std::map<std::string, std::string> env, const Clock& clock);
  Status listen();
  void accept_all();
  void service(Id id);
  void on_frame(Id id, const mpi::Frame& frame);
  void join(const std::string& head, const std::string& folder);
  void on_text(std::string_view text);
  void on_signal(int signal);
  void on_ray_ended();
  void drop(Id id, const std::string& why);
  void on_tick();
  void answer();
  void tell(char type, const std::string& text);
  void finish(int code, const std::string& why);
  int verdict() const;

  Place place_;
  std::map<std::string, std::string> env_;
  const Clock& clock_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Signals> signals_;
  os::Fd listener_;
  Id last_id_ = 0;
  std::map<Id, Caller> callers_;
  std::unique_ptr<Child> ray_;
  StartScan scan_;
  std::string folder_;  // where Ray keeps its session
  std::int64_t oom_kills_;
  int own_code_ = 0;                   // with which Ray has ended here, though nobody told it to
  bool is_asked_ = false;              // for a verdict, that is not given yet
  std::optional<SteadyPoint> end_at_;  // told to terminate, while the driver may still save
  bool was_told_ = false;              // to terminate
  SteadyPoint ended_at_{};
  std::optional<int> code_;  // ending
};

// The whole of it, from main(): reads its place from the environment.
int run_node(std::map<std::string, std::string> env, const Clock& clock);

}  // namespace pawl::launcher::ray
