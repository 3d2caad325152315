#include "launcher/ray/head.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <utility>

#include "common/api/contract.h"
#include "launcher/mpi/report.h"
#include "launcher/ray/machine.h"

namespace pawl::launcher::ray {

using mpi::print_error;
using mpi::report;

namespace {

constexpr std::chrono::milliseconds kHeadTurn{100}, kDialAgain{50}, kDialOne{3000};
constexpr std::chrono::milliseconds kAnswerMax{5000}, kHangUpMax{6000};
constexpr std::chrono::milliseconds kToldMax{2000}, kHeardMax{60'000};
constexpr std::chrono::milliseconds kDriverGrace{2000}, kHeadGrace{3000};
// For who is to blame to be heard of first; then the launcher ends us.
constexpr std::chrono::milliseconds kHeadBlameWait{1000};

// Ray's sockets lie in it, whose paths may have 107 bytes, of which Ray takes some 65.
Result<std::string> make_session_folder(const std::map<std::string, std::string>& env) {
  constexpr std::size_t kParentBytesMax = 24;
  const auto tmp = env.find("TMPDIR");
  for (const std::string& parent :
       {tmp == env.end() ? std::string{} : tmp->second, std::string{"/tmp"}}) {
    std::string path = parent + "/ray-XXXXXX";
    if (parent.empty() || parent.size() > kParentBytesMax) continue;
    if (::mkdtemp(path.data()) != nullptr) return path;
  }
  return fail(Code::kInvalid,
              "Ray needs a folder for its session, and neither TMPDIR nor /tmp can be written to: "
              "mount an emptyDir at /tmp");
}

// The driver is the one that reports its progress: it alone gets the channel that we have.
std::vector<int> channel_of(const std::map<std::string, std::string>& env) {
  std::vector<int> fds;
  for (const char* name : {api::kEnvChannelFd, api::kEnvPulseFd}) {
    const auto found = env.find(name);
    int fd = -1;
    if (found == env.end()) continue;
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), fd);
    if (fd > STDERR_FILENO && ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0) fds.push_back(fd);
  }
  return fds;
}

}  // namespace

Head::Head(Place place, HeadOptions options, std::map<std::string, std::string> env,
           const Clock& clock)
    : place_(std::move(place)), options_(std::move(options)), env_(std::move(env)), clock_(clock) {}

Head::~Head() {
  driver_.reset();
  ray_.reset();
  std::error_code error;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
}

int Head::run() {
  const Status started = start();
  if (!started && !code_) {
    report(started.error().message);
    const bool is_final = started.error().code == Code::kInvalid;
    finish(is_final ? api::kExitFatal : api::kExitUser, started.error().message);
  }
  while (!code_) {
    turn(kHeadTurn);
    if (driver_ && !driver_->is_running()) on_driver_ended();
  }
  tell_end();
  // A failure of our own is told before the others' ends, which follow from it.
  const bool is_own = *code_ != api::kExitDone && *code_ != api::kExitRetry;
  if (is_own && !was_told_) return *code_;
  await_peers();
  if (ray_) ray_->end(kHeadGrace);
  wait_for(kHeadGrace + kHeadGrace,
           [this] { return !(ray_ && ray_->is_running()) && !(driver_ && driver_->is_running()); });
  if (*code_ == api::kExitRetry) wait_for(kHeadBlameWait, [this] { return was_told_; });
  return *code_;
}

Status Head::start() {
  PAWL_TRY(poller, Poller::create());
  poller_ = std::move(poller);
  PAWL_TRY(signals, Signals::create(*poller_, [this](int signal) { on_signal(signal); }));
  signals_ = std::move(signals);
  const SteadyPoint give_up = clock_.steady_now() + options_.dial_max;
  PAWL_TRY_VOID(dial_all(give_up));
  PAWL_TRY_VOID(start_head());
  PAWL_TRY_VOID(join_all());
  return start_driver();
}

// One after the other; all launchers begin at the same time, but not all machines are as fast.
Status Head::dial_all(SteadyPoint give_up) {
  peers_.resize(place_.addresses.size() - 1);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    peer.name = "worker " + std::to_string(i + 1) + " (" + place_.addresses[i + 1] + ")";
    PAWL_TRY(where, os::split_host_port(place_.addresses[i + 1]));
    while (!peer.wire) {
      if (code_) return fail(Code::kUnavailable, why_);
      auto fd = os::connect_tcp(where.first, where.second, kDialOne);
      if (fd) {
        PAWL_TRY_VOID(os::set_nonblocking(fd->get(), true));
        peer.wire.emplace(std::move(*fd), mpi::Side::kCaller, place_.key);
      } else if (clock_.steady_now() >= give_up) {
        return fail(Code::kUnavailable, peer.name + " does not answer: " + fd.error().message +
                                            "; is traffic between the job's pods allowed?");
      } else {
        turn(kDialAgain);
      }
    }
    poller_->add(peer.wire->fd(), EPOLLIN | EPOLLOUT, [this, i](std::uint32_t) { service(i); });
    turn(std::chrono::milliseconds{0});  // who is connected does not wait to hear us
  }
  return {};
}

Status Head::start_head() {
  PAWL_TRY(folder, make_session_folder(env_));
  folder_ = folder;
  const std::string host = host_of(place_, 0);
  PAWL_TRY(port, free_port(host));
  address_ = os::join_host_port(host, port);
  auto env = env_;
  prepare_for_ray(env, place_);
  PAWL_TRY(ray, start_ray(*poller_, clock_, place_, env, {.port = port, .folder = folder_},
                          [this](std::string_view text) {
                            const bool had_started = scan_.has_started();
                            scan_.feed(text);
                            if (!had_started && scan_.has_started()) ray_->remember_children();
                          }));
  ray_ = std::move(ray);
  return {};
}

Status Head::join_all() {
  const SteadyPoint give_up = clock_.steady_now() + options_.join_max;
  const auto left = [&] {
    return std::max(
        std::chrono::milliseconds{0},
        std::chrono::duration_cast<std::chrono::milliseconds>(give_up - clock_.steady_now()));
  };
  const std::string limit = std::to_string(options_.join_max.count() / 1000) + " s";
  if (!wait_for(left(), [this] { return code_ || scan_.has_started(); }))
    return fail(Code::kUnavailable, "the head of Ray has not started within " + limit);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].wire) continue;
    peers_[i].wire->send(mpi::kAttend, address_ + " " + folder_);
    service(i);
  }
  wait_for(left(), [this] {
    return code_ || std::ranges::all_of(peers_, [](const Peer& peer) { return peer.has_joined; });
  });
  if (code_) return fail(Code::kUnavailable, why_);
  for (const Peer& peer : peers_) {
    if (peer.has_joined) continue;
    return fail(Code::kUnavailable, "Ray's node on " + peer.name + " has not joined the head at " +
                                        address_ + " within " + limit + ": its log says why");
  }
  return {};
}

Status Head::start_driver() {
  auto env = env_;
  set_variables(env, place_);
  env["RAY_ADDRESS"] = address_;
  PAWL_TRY(driver,
           Child::start(*poller_, clock_, SpawnOptions{options_.command, env, channel_of(env_)}));
  driver_ = std::move(driver);
  return {};
}

void Head::turn(std::chrono::milliseconds timeout) {
  poller_->run_once(timeout);
  for (Child* child : {ray_.get(), driver_.get()}) {
    if (child != nullptr) child->on_tick();
  }
}

template <typename Condition>
bool Head::wait_for(std::chrono::milliseconds timeout, Condition condition) {
  const SteadyPoint deadline = clock_.steady_now() + timeout;
  while (!condition()) {
    if (clock_.steady_now() >= deadline) return false;
    turn(kHeadTurn);
  }
  return true;
}

void Head::service(std::size_t index) {
  Peer& peer = peers_[index];
  if (!peer.wire) return;
  const Status done = peer.wire->service();
  for (const mpi::Frame& frame : peer.wire->take_frames()) {
    if (frame.type == mpi::kAttending) peer.has_joined = true;
    if (frame.type != mpi::kVerdict) continue;
    int code = 0;
    std::from_chars(frame.text.data(), frame.text.data() + frame.text.size(), code);
    on_verdict(index, code);
  }
  if (!done) return lose(index, done.error().message);
  poller_->modify(peer.wire->fd(), peer.wire->has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Head::on_verdict(std::size_t index, int code) {
  peers_[index].verdict = code;
  if (code != 0) finish(api::kExitRetry, "Ray was lost on " + peers_[index].name);
}

void Head::lose(std::size_t index, const std::string& why) {
  Peer& peer = peers_[index];
  poller_->remove(peer.wire->fd());
  peer.wire.reset();
  peer.lost_why = why;
  finish(api::kExitRetry, "lost " + peer.name + ": " + why);
}

// The driver is in a group of its own: what the launcher tells us, we tell it. Ray stays while it
// may save.
void Head::on_signal(int signal) {
  if (signal == SIGCHLD) {
    reap({ray_.get(), driver_.get()});
    if (ray_ && !ray_->is_running()) on_ray_ended();
    return;
  }
  const bool is_end = signal == SIGTERM || signal == SIGINT;
  was_told_ = was_told_ || is_end;
  if (driver_ && driver_->is_running()) return driver_->signal(signal);
  if (is_end) finish(api::kExitRetry, "told to terminate");
}

void Head::on_ray_ended() {
  if (code_ || ray_->is_ended_by_us()) return;
  const std::string why = why_ray_ended(*ray_, scan_);
  report(why);
  finish(code_of_ray(*ray_, scan_), why);
}

void Head::on_driver_ended() {
  if (code_) return;
  const int code = driver_->code();
  const bool is_own = code == 0 || was_told_;
  const int judged = is_own ? code : judge();
  finish(judged, "the command on rank 0's worker ended with code " + std::to_string(code));
}

// Ray may tell the driver of a loss before anybody tells us.
int Head::judge() {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].wire) peers_[i].wire->send(mpi::kAskVerdict);
    service(i);
  }
  wait_for(kAnswerMax, [this] {
    const bool is_judged = std::ranges::all_of(
        peers_, [](const Peer& peer) { return peer.verdict.has_value() || !peer.wire; });
    const bool is_whole = !ray_->is_running() || !ray_->has_lost_one();
    return code_.has_value() || (is_judged && is_whole);
  });
  return driver_->code();
}

// The first word counts.
void Head::finish(int code, const std::string& why) {
  if (code_) return;
  code_ = code;
  why_ = why;
  if (code == api::kExitRetry) print_error(why);
  if (driver_) driver_->end(kDriverGrace);
}

void Head::tell_end() {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].wire) continue;
    const int code = *code_ == 0 ? api::kExitDone : api::kExitRetry;
    peers_[i].wire->send(mpi::kEnd, std::to_string(code) + " " + why_);
    service(i);
  }
}

void Head::await_peers() {
  const bool is_done = *code_ == 0 && !was_told_;
  // Their Ray is gone when they hang up. One that has not heard of a good end would wait for it for
  // ever; who is told to end has no time to wait for the dead.
  wait_for(is_done ? kHeardMax : (was_told_ ? kToldMax : kHangUpMax), [this] {
    return std::ranges::none_of(peers_, [](const Peer& peer) { return peer.wire.has_value(); });
  });
}

int run_head(HeadOptions options, std::map<std::string, std::string> env, const Clock& clock) {
  auto place = take_place(env);
  if (!place) {
    print_error(place.error().message);
    return api::kExitFatal;
  }
  Head head{std::move(*place), std::move(options), std::move(env), clock};
  return head.run();
}

}  // namespace pawl::launcher::ray
