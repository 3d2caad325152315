#include "launcher/settings.h"

#include <charconv>
#include <utility>

#include "common/api/contract.h"

namespace pawl::launcher {
namespace {

// Collects what is wrong instead of stopping at the first.
class Reader {
 public:
  explicit Reader(const std::map<std::string, std::string>& env) : env_(env) {}

  std::string text(const char* name, const std::string& fallback = "") const {
    const auto found = env_.find(name);
    return found == env_.end() ? fallback : found->second;
  }
  std::string required(const char* name) {
    const std::string value = text(name);
    if (value.empty()) complain(std::string{name} + " is not set");
    return value;
  }
  std::int64_t number(const char* name, const std::string& value, std::int64_t low,
                      std::int64_t high) {
    std::int64_t result = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    const bool is_number = error == std::errc{} && stop == value.data() + value.size();
    if (is_number && result >= low && result <= high) return result;
    complain(std::string{name} + " is \"" + value + "\", not a number from " + std::to_string(low) +
             " to " + std::to_string(high));
    return low;
  }
  void complain(const std::string& what) { problems_ += (problems_.empty() ? "" : "; ") + what; }
  const std::string& problems() const { return problems_; }

 private:
  const std::map<std::string, std::string>& env_;
  std::string problems_;
};

std::string token_path(const char* file) { return std::string{api::kTokenMountPath} + "/" + file; }

}  // namespace

Result<Settings> read_settings(const std::map<std::string, std::string>& env,
                               std::vector<std::string> command) {
  Reader reader{env};
  Settings settings;
  if (auto worker = api::decode_worker_facts(reader.required(api::kEnvWorker))) {
    settings.worker = std::move(*worker);
  } else if (env.contains(api::kEnvWorker)) {
    reader.complain(worker.error().message);
  }
  settings.pod_uid = reader.required(api::kEnvPodUid);
  settings.pod_ip = reader.required(api::kEnvPodIp);
  settings.node = reader.text(api::kEnvNodeName);

  settings.api_server = reader.text(api::kEnvApiServer);
  settings.metadata = reader.text(api::kEnvMetadata);
  const bool is_local = settings.is_local();
  settings.token_file =
      reader.text(api::kEnvTokenFile, is_local ? "" : token_path(api::kTokenFileName));
  settings.ca_file = reader.text(api::kEnvCaFile, is_local ? "" : token_path(api::kCaFileName));
  settings.peer_token_file = reader.text(
      api::kEnvPeerTokenFile, is_local ? settings.token_file : token_path(api::kPeerTokenFileName));
  settings.health_port = is_local ? -1 : api::kHealthPort;
  if (const std::string port = reader.text(api::kEnvHealthPort); !port.empty()) {
    settings.health_port = static_cast<int>(reader.number(api::kEnvHealthPort, port, 0, 65'535));
  }
  if (const std::string seconds = reader.text(api::kEnvStandbySeconds); !seconds.empty()) {
    settings.standby_after =
        std::chrono::seconds{reader.number(api::kEnvStandbySeconds, seconds, 0, 86'400)};
  }
  settings.nvml = reader.text(api::kEnvNvml);
  if (const std::string gate = reader.text(api::kEnvHealthGate); !gate.empty())
    settings.has_health_gate = reader.number(api::kEnvHealthGate, gate, 0, 1) == 1;
  settings.termination_log = reader.text(api::kEnvTerminationLog, settings.termination_log);
  if (command.empty()) reader.complain("no command after --");
  if (!reader.problems().empty()) return fail(Code::kInvalid, reader.problems());
  settings.command = std::move(command);
  settings.env = env;
  return settings;
}

}  // namespace pawl::launcher
