#include "cli/local/keeper.h"

#include <sys/wait.h>
#include <unistd.h>

#include "cli/local/keeper_process.h"
#include "common/base/json.h"
#include "common/os/process.h"
#include "common/os/seqpacket.h"

namespace pawl::local {

Result<std::unique_ptr<Keeper>> Keeper::start() {
  PAWL_TRY(ends, os::seqpacket_pair());
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Code::kIo, "fork: " + os::errno_text());
  if (pid == 0) {
    ends.first.reset();
    run_keeper(std::move(ends.second));  // does not return
  }
  return std::unique_ptr<Keeper>{new Keeper{std::move(ends.first), pid}};
}

Keeper::~Keeper() {
  socket_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status Keeper::spawn(const std::string& id, const ProcessSpec& spec) {
  const nlohmann::json order = {{"type", "start"},         {"id", id},
                                {"command", spec.command}, {"environment", spec.environment},
                                {"folder", spec.folder},   {"log", spec.log}};
  const std::string text = order.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > os::kPacketBytesMax) {
    return fail(Code::kInvalid, "command and environment take " + std::to_string(text.size()) +
                                    " bytes; at most " + std::to_string(os::kPacketBytesMax) +
                                    " are possible");
  }
  return os::send_packet(socket_.get(), text);
}

Status Keeper::signal(const std::string& id, int number) {
  return os::send_packet(socket_.get(),
                         nlohmann::json{{"type", "signal"}, {"id", id}, {"number", number}}.dump());
}

Result<std::optional<KeeperEvent>> Keeper::receive(std::chrono::milliseconds timeout) {
  PAWL_TRY(packet, os::receive_packet(socket_.get(), timeout));
  if (!packet) return std::optional<KeeperEvent>{};
  const nlohmann::json message = parse_json(packet->text);  // our own child wrote it
  KeeperEvent event;
  const std::string type = message.at("type");
  event.id = message.at("id");
  if (type == "started") {
    event.pid = message.at("pid");
  } else if (type == "refused") {
    event.kind = KeeperEvent::Kind::kRefused;
    event.message = message.at("message");
  } else {
    event.kind = KeeperEvent::Kind::kExited;
    event.exit_code = message.at("code");
    if (message.contains("signal")) event.signal = message.at("signal").get<int>();
  }
  return std::optional{std::move(event)};
}

}  // namespace pawl::local
