#include "launcher/standby/standby_set.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include "common/os/process.h"
#include "launcher/standby/standby_command.h"
#include "launcher/standby/standby_program.h"

namespace pawl::launcher {
namespace {

constexpr std::chrono::seconds kReadyMax{120};  // to import everything
constexpr timeval kSendMax{.tv_sec = 1, .tv_usec = 0};
constexpr std::chrono::seconds kMemoryEvery{1};
// What PyTorch's imports take is some 0.5 GiB. With less than the lower bound left they make room
// for the program, which memory is for.
constexpr std::int64_t kRoomToStart = std::int64_t{2} << 30, kRoomToStay = std::int64_t{1} << 30;

Status send_all(int socket, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(socket, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return fail(Code::kIo, "send: " + os::errno_text());
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return {};
}

Status send_header(int socket, std::uint64_t size, const std::vector<int>& fds) {
  static_assert(std::endian::native == std::endian::little);
  iovec data{&size, sizeof size};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) != sizeof size)
    return fail(Code::kIo, "sendmsg: " + os::errno_text());
  return {};
}

}  // namespace

std::unique_ptr<StandbySet> StandbySet::create(StandbyOptions options, const Clock& clock,
                                               Log& log) {
  const std::string script = options.folder + "/standby.py";
  if (options.folder.empty() || !standby_command(options.command, script, 0)) return nullptr;
  std::ofstream file(script);
  file << kStandbyProgram;
  if (!file.flush()) return nullptr;
  return std::unique_ptr<StandbySet>(new StandbySet(std::move(options), script, clock, log));
}

StandbySet::StandbySet(StandbyOptions options, std::string script, const Clock& clock, Log& log)
    : options_(std::move(options)), script_(std::move(script)), clock_(clock), log_(log) {}

StandbySet::~StandbySet() {
  for (auto& [local_rank, standby] : standbys_) end(standby);
  ::unlink(script_.c_str());
}

void StandbySet::end(Standby& standby) {
  ::kill(-standby.process.pid, SIGKILL);
  ending_.insert(standby.process.pid);
}

void StandbySet::start(int local_rank) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return give_up(local_rank, "socketpair: " + os::errno_text());
  os::Fd ours{ends[0]}, its{ends[1]};
  ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendMax, sizeof kSendMax);
  auto env = options_.env(local_rank);
  auto spawned = spawn({.command = *standby_command(options_.command, script_, its.get()),
                        .env = env,
                        .kept_fds = {its.get()}});
  if (!spawned) return give_up(local_rank, spawned.error().message);
  standbys_[local_rank] = {std::move(*spawned), std::move(env), std::move(ours),
                           clock_.steady_now()};
}

void StandbySet::give_up(int local_rank, const std::string& why) {
  hopeless_.insert(local_rank);
  log_.info("no_standby", {{"local_rank", local_rank}, {"why", why}});
}

void StandbySet::look_at(int local_rank, Standby& standby) {
  if (standby.is_ready) return;
  char byte = 0;
  const ssize_t count = ::recv(standby.socket.get(), &byte, 1, MSG_DONTWAIT);
  if (count != 1) return;  // its end is told by on_ended
  standby.is_ready = true;
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.steady_now() - standby.started);
  log_.info("standby_ready", {{"local_rank", local_rank}, {"milliseconds", took.count()}});
}

void StandbySet::look_at_memory(SteadyPoint now) {
  if (now < look_again_) return;
  look_again_ = now + kMemoryEvery;
  room_ = options_.room();
  if (standbys_.empty() || room_ >= kRoomToStay) return;
  log_.info("standbys_ended", {{"why", "memory is short"}});
  for (auto& [local_rank, standby] : standbys_) end(standby);
  start_again_ = now + pause_;
  pause_ *= 2;
}

void StandbySet::on_tick(const std::map<int, SteadyPoint>& running_since) {
  const SteadyPoint now = clock_.steady_now();
  bool is_busy = false;  // one after the other: the program needs the processors
  for (auto& [local_rank, standby] : standbys_) {
    look_at(local_rank, standby);
    is_busy = is_busy || !standby.is_ready;
    if (standby.is_ready || now - standby.started < kReadyMax) continue;
    give_up(local_rank, "not ready in time");
    end(standby);
  }
  look_at_memory(now);
  std::erase_if(standbys_,
                [&](const auto& entry) { return ending_.contains(entry.second.process.pid); });
  if (is_busy || room_ < kRoomToStart || now < start_again_) return;
  for (const auto& [local_rank, since] : running_since) {
    if (now - since < options_.after || standbys_.contains(local_rank) ||
        hopeless_.contains(local_rank))
      continue;
    start(local_rank);
    return;
  }
}

std::optional<Spawned> StandbySet::take(int local_rank, const SpawnOptions& options) {
  const auto found = standbys_.find(local_rank);
  if (found == standbys_.end()) return std::nullopt;
  look_at(local_rank, found->second);
  Standby standby = std::move(found->second);
  standbys_.erase(found);
  std::string text;
  for (const auto& [name, value] : options.env) {
    const auto known = standby.env.find(name);
    if (known == standby.env.end() || known->second != value) text += name + "=" + value + '\0';
  }
  const bool is_sent = standby.is_ready &&
                       send_header(standby.socket.get(), text.size(), options.kept_fds) &&
                       send_all(standby.socket.get(), text.data(), text.size());
  if (!is_sent) {
    end(standby);
    return std::nullopt;
  }
  log_.info("standby_taken",
            {{"local_rank", local_rank}, {"pid", static_cast<std::int64_t>(standby.process.pid)}});
  return std::move(standby.process);
}

bool StandbySet::on_ended(pid_t pid) {
  if (ending_.erase(pid) > 0) return false;
  const auto found = std::ranges::find_if(
      standbys_, [&](const auto& entry) { return entry.second.process.pid == pid; });
  if (found == standbys_.end()) return false;
  const int local_rank = found->first;
  standbys_.erase(found);
  give_up(local_rank, "it has ended: nothing slow to import, or not as early as this");
  return true;
}

bool StandbySet::has(pid_t pid) const {
  return ending_.contains(pid) || std::ranges::any_of(standbys_, [&](const auto& entry) {
           return entry.second.process.pid == pid;
         });
}

}  // namespace pawl::launcher
