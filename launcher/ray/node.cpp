#include "launcher/ray/node.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/api/contract.h"
#include "launcher/mpi/report.h"
#include "launcher/ray/machine.h"
#include "launcher/supervisor/oom.h"

namespace pawl::launcher::ray {

using mpi::print_error;
using mpi::report;

namespace {

constexpr std::chrono::milliseconds kNodeTurn{50};
constexpr std::chrono::milliseconds kRayGrace{3000}, kLostRayGrace{500};
// For who is to blame to be heard of first; then the launcher ends us.
constexpr std::chrono::milliseconds kBlameWait{1000};
constexpr std::chrono::seconds kStrangerMax{5};
constexpr std::chrono::seconds kOrderlyEnd{15};  // the launcher may kill us before
constexpr std::size_t kCallersMax = 256;

}  // namespace

Result<std::unique_ptr<RayNode>> RayNode::create(Place place,
                                                 std::map<std::string, std::string> env,
                                                 const Clock& clock) {
  auto node = std::unique_ptr<RayNode>(new RayNode(std::move(place), std::move(env), clock));
  PAWL_TRY_VOID(node->listen());
  return node;
}

RayNode::RayNode(Place place, std::map<std::string, std::string> env, const Clock& clock)
    : place_(std::move(place)), env_(std::move(env)), clock_(clock), oom_kills_(oom_kills()) {
  prepare_for_ray(env_, place_);
}

// On this machine the head has the same folder, and removes it.
RayNode::~RayNode() {
  ray_.reset();
  std::error_code error;
  if (place_.is_pod && !folder_.empty()) std::filesystem::remove_all(folder_, error);
}

Status RayNode::listen() {
  PAWL_TRY(poller, Poller::create());
  poller_ = std::move(poller);
  PAWL_TRY(signals, Signals::create(*poller_, [this](int signal) { on_signal(signal); }));
  signals_ = std::move(signals);
  PAWL_TRY(where, os::split_host_port(place_.addresses[static_cast<std::size_t>(place_.rank)]));
  PAWL_TRY(listener, os::listen_tcp(where.first, where.second));
  PAWL_TRY_VOID(os::set_nonblocking(listener.get(), true));
  listener_ = std::move(listener);
  poller_->add(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_all(); });
  return {};
}

int RayNode::run() {
  const auto lingers = [this] {
    return *code_ == api::kExitRetry && !was_told_ && clock_.steady_now() < ended_at_ + kBlameWait;
  };
  while (!code_ || (ray_ && ray_->is_running()) || lingers()) {
    poller_->run_once(kNodeTurn);
    on_tick();
  }
  return *code_;
}

void RayNode::accept_all() {
  while (true) {
    os::Fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!fd.is_open()) return;
    if (callers_.size() >= kCallersMax) continue;
    const Id id = ++last_id_;
    const int number = fd.get();
    callers_.emplace(
        id, Caller{mpi::Wire{std::move(fd), mpi::Side::kAgent, place_.key}, clock_.steady_now()});
    poller_->add(number, EPOLLIN | EPOLLOUT, [this, id](std::uint32_t) { service(id); });
  }
}

void RayNode::service(Id id) {
  const auto found = callers_.find(id);
  if (found == callers_.end()) return;
  mpi::Wire& wire = found->second.wire;
  const Status done = wire.service();
  for (const mpi::Frame& frame : wire.take_frames()) on_frame(id, frame);
  if (!done) return drop(id, done.error().message);
  poller_->modify(wire.fd(), wire.has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void RayNode::on_frame(Id id, const mpi::Frame& frame) {
  if (frame.type == mpi::kAttend && !ray_ && !code_) {
    callers_.at(id).is_job = true;
    const std::size_t blank = std::min(frame.text.find(' '), frame.text.size());
    join(frame.text.substr(0, blank), frame.text.substr(std::min(blank + 1, frame.text.size())));
  } else if (frame.type == mpi::kAskVerdict) {
    is_asked_ = true;
    answer();
  } else if (frame.type == mpi::kEnd) {
    int code = api::kExitRetry;
    std::from_chars(frame.text.data(), frame.text.data() + frame.text.size(), code);
    const std::size_t blank = frame.text.find(' ');
    finish(code, blank == std::string::npos ? "" : frame.text.substr(blank + 1));
  }
}

void RayNode::join(const std::string& head, const std::string& folder) {
  folder_ = folder;
  auto started = start_ray(*poller_, clock_, place_, env_, {.head = head},
                           [this](std::string_view text) { on_text(text); });
  if (started) {
    ray_ = std::move(*started);
    return;
  }
  const bool is_final = started.error().code == Code::kInvalid;
  own_code_ = is_final ? api::kExitFatal : api::kExitUser;
  report(started.error().message);
  tell(mpi::kVerdict, std::to_string(own_code_));
  finish(own_code_, started.error().message);
}

void RayNode::on_text(std::string_view text) {
  const bool had_started = scan_.has_started();
  scan_.feed(text);
  if (had_started || !scan_.has_started()) return;
  ray_->remember_children();
  tell(mpi::kAttending, "");
}

void RayNode::on_signal(int signal) {
  if (signal == SIGCHLD) {
    reap({ray_.get()});
    if (ray_ && !ray_->is_running()) on_ray_ended();
    return;
  }
  // The driver is told the same, and may save, for which it needs this node.
  const bool is_end = signal == SIGTERM || signal == SIGINT;
  const bool has_job =
      std::ranges::any_of(callers_, [](const auto& entry) { return entry.second.is_job; });
  was_told_ = was_told_ || is_end;
  if (is_end && !has_job) return finish(api::kExitRetry, "told to terminate");
  if (is_end && !end_at_) end_at_ = clock_.steady_now() + kOrderlyEnd;
}

void RayNode::on_ray_ended() {
  if (ray_->is_ended_by_us() || own_code_ != 0) return;
  own_code_ = code_of_ray(*ray_, scan_);
  const std::string why = why_ray_ended(*ray_, scan_);
  if (!code_) report(why);
  is_asked_ = false;
  tell(mpi::kVerdict, std::to_string(own_code_));
  finish(own_code_, why);
}

void RayNode::drop(Id id, const std::string& why) {
  Caller& caller = callers_.at(id);
  poller_->remove(caller.wire.fd());
  const bool is_job = caller.is_job;
  callers_.erase(id);
  if (is_job) finish(api::kExitRetry, "the connection of rank 0's worker was lost: " + why);
}

void RayNode::on_tick() {
  const SteadyPoint now = clock_.steady_now();
  std::vector<Id> strangers;
  for (const auto& [id, caller] : callers_) {
    if (!caller.wire.is_trusted() && now - caller.since > kStrangerMax) strangers.push_back(id);
  }
  for (const Id id : strangers) drop(id, "it has not said who it is");
  if (ray_) ray_->on_tick();
  if (end_at_ && now >= *end_at_) {
    end_at_.reset();
    finish(api::kExitRetry, "told to terminate");
  }
}

// `ray start` looks at its processes once a second: where one is gone, its word is waited for.
void RayNode::answer() {
  if (!is_asked_) return;
  if (own_code_ == 0 && ray_ && ray_->is_running() && ray_->has_lost_one()) return;
  is_asked_ = false;
  tell(mpi::kVerdict, std::to_string(verdict()));
}

void RayNode::tell(char type, const std::string& text) {
  for (auto& [id, caller] : callers_) {
    if (!caller.is_job) continue;
    caller.wire.send(type, text);
    poller_->modify(caller.wire.fd(), EPOLLIN | EPOLLOUT);
  }
}

// A code of this worker's own stands, unless the job has ended well all the same.
void RayNode::finish(int code, const std::string& why) {
  if (code_) return;
  const int own = verdict();
  code_ = code == api::kExitRetry && own != 0 ? own : code;
  if (*code_ == api::kExitRetry) print_error(why);
  if (own_code_ != 0) {  // the head hears it before we are gone
    for (auto& [id, caller] : callers_) {
      if (!caller.is_job) continue;
      [[maybe_unused]] const Status told = caller.wire.service();
    }
  }
  ended_at_ = clock_.steady_now();
  if (ray_) ray_->end(*code_ == api::kExitDone ? kRayGrace : kLostRayGrace);
}

// The launcher looks itself whether memory was the reason, where a program says that it was killed.
int RayNode::verdict() const {
  constexpr int kKilledBase = 128;
  if (own_code_ != 0) return own_code_;
  const bool is_counted = place_.is_pod && oom_kills() > oom_kills_;
  return is_counted ? kKilledBase + SIGKILL : 0;
}

int run_node(std::map<std::string, std::string> env, const Clock& clock) {
  const auto place = take_place(env);
  if (!place) {
    print_error(place.error().message);
    return api::kExitFatal;
  }
  auto node = RayNode::create(*place, std::move(env), clock);
  if (!node) {
    report("cannot wait for the Ray head: " + node.error().message);
    return api::kExitUser;
  }
  return (*node)->run();
}

}  // namespace pawl::launcher::ray
