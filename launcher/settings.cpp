#include "launcher/settings.h"

#include <charconv>
#include <utility>

#include "common/api/codec.h"
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
    if (value.empty() || (is_number && result >= low && result <= high)) return result;
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

api::RuntimeKind runtime_of(Reader& reader) {
  const std::string name = reader.required(api::kEnvRuntime);
  for (const auto kind :
       {api::RuntimeKind::kNative, api::RuntimeKind::kTorch, api::RuntimeKind::kCustom}) {
    if (name == api::runtime_name(kind)) return kind;
  }
  if (!name.empty())
    reader.complain(std::string{api::kEnvRuntime} + " is \"" + name +
                    "\", not Native, Torch or Custom");
  return api::RuntimeKind::kCustom;
}

std::string token_path(const char* file) { return std::string{api::kTokenMountPath} + "/" + file; }

}  // namespace

Result<Settings> read_settings(const std::map<std::string, std::string>& env,
                               std::vector<std::string> command) {
  Reader reader{env};
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 53;
  Settings settings;
  settings.job_name = reader.required(api::kEnvJobName);
  settings.job_uid = reader.required(api::kEnvJobUid);
  settings.ns = reader.required(api::kEnvNamespace);
  settings.pod = reader.required(api::kEnvPodName);
  settings.pod_uid = reader.required(api::kEnvPodUid);
  settings.pod_ip = reader.required(api::kEnvPodIp);
  settings.node = reader.text(api::kEnvNodeName);
  settings.attempt =
      reader.number(api::kEnvAttempt, reader.required(api::kEnvAttempt), 1, kNoLimit);
  settings.slot = static_cast<int>(
      reader.number(api::kEnvSlot, reader.required(api::kEnvSlot), 0, api::kReplicasMax - 1));
  settings.processes = static_cast<int>(reader.number(
      api::kEnvProcesses, reader.required(api::kEnvProcesses), 1, api::kProcessesMax));
  settings.runtime = runtime_of(reader);

  settings.checkpoint_uri = reader.text(api::kEnvCheckpointUri);
  const int every = static_cast<int>(reader.number(
      api::kEnvCheckpointSeconds, reader.text(api::kEnvCheckpointSeconds), 0, 1 << 30));
  if (every > 0) settings.checkpoint_seconds = every;
  settings.checkpoint_keep = static_cast<int>(reader.number(
      api::kEnvCheckpointKeep, reader.text(api::kEnvCheckpointKeep, "3"), 1, 1 << 20));

  settings.api_server = reader.text(api::kEnvApiServer);
  const bool is_local = settings.is_local();
  settings.token_file =
      reader.text(api::kEnvTokenFile, is_local ? "" : token_path(api::kTokenFileName));
  settings.ca_file = reader.text(api::kEnvCaFile, is_local ? "" : token_path(api::kCaFileName));
  settings.peer_token_file = reader.text(
      api::kEnvPeerTokenFile, is_local ? settings.token_file : token_path(api::kPeerTokenFileName));
  const std::string health_port = reader.text(api::kEnvHealthPort);
  if (!health_port.empty()) {
    settings.health_port =
        static_cast<int>(reader.number(api::kEnvHealthPort, health_port, 0, 65'535));
  }
  settings.termination_log = reader.text(api::kEnvTerminationLog, settings.termination_log);
  const std::string contract = reader.text(api::kEnvContract);
  if (!contract.empty() && contract != std::to_string(api::kContractVersion)) {
    reader.complain("the operator speaks version " + contract + " of the contract, this launcher " +
                    std::to_string(api::kContractVersion) + ": install them from one release");
  }
  if (command.empty()) reader.complain("no command after --");
  if (!reader.problems().empty()) return fail(Code::kInvalid, reader.problems());
  settings.command = std::move(command);
  settings.env = env;
  return settings;
}

}  // namespace pawl::launcher
