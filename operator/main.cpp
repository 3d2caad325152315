// pawl-operator: wires the transport, the controller and the health endpoints together, and waits
// for SIGTERM.
#include <malloc.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "common/api/contract.h"
#include "common/http/server.h"
#include "common/kube/config.h"
#include "common/kube/cpprest_transport.h"
#include "common/os/process.h"
#include "common/os/real_clock.h"
#include "operator/controller/operator.h"
#include "operator/controller/spot_table.h"

namespace {

using namespace pawl;

constexpr char kUsage[] =
    "pawl-operator: reconciles TrainingJobs.\n"
    "  --kubeconfig FILE       how to reach the cluster; default: the pod's own service account\n"
    "  --namespace NAME        watch this namespace only; default: all\n"
    "  --launcher-image IMAGE  injected into worker pods with images of their own\n"
    "  --worker-image IMAGE    image of Native jobs that name none\n"
    "  --image-pull-policy P   of these two: Always, IfNotPresent or Never; default: the "
    "cluster's\n"
    "  --lease NAMESPACE/NAME  of several operators with one lease, one leads; default: no lease,\n"
    "                          for an operator that is alone\n"
    "  --signals FILE          what nodes say before their machines go (JSON, as in the chart);\n"
    "                          default: nodes are not watched\n"
    "  --spot FILE             by what nodes are known as spot (JSON, as in the chart); default: "
    "none\n"
    "                          is, and spec.capacity of a job says nothing\n"
    "  --placement LEVELS      decide on the nodes of all pods of a gang before there is one;\n"
    "                          LEVELS: rack=KEY,... coarse to fine, KEY that of the nodes' label,\n"
    "                          or \"nodes\"; default: the cluster's scheduler decides\n"
    "  --reserve-after SECONDS  that a gang waits for room, before room is kept for it and "
    "smaller\n"
    "                          ones no longer pass it by; default: 300\n"
    "  --flavors JSON          {\"NAME\": {\"LABEL\": \"VALUE\"}}: kinds of nodes of which a "
    "TrainingQueue may\n"
    "                          have quotas of their own; default: none\n"
    "  --pod-groups BOOL       true: what the cluster's scheduler places begins in PodGroups\n"
    "                          (scheduling.k8s.io/v1beta1) where the cluster serves them; default: "
    "false\n"
    "  --provisioning-class CLASS  of the ProvisioningRequests (autoscaling.x-k8s.io/v1) by which "
    "an\n"
    "                          autoscaler is asked for nodes for gangs that wait for room\n"
    "                          (with --placement); \"pods\": it is asked by their pods, made "
    "without nodes;\n"
    "                          default: none is asked\n"
    "  --metadata URL          of the cloud's metadata service, which launchers ask for notices;\n"
    "                          default: they ask nobody\n"
    "  --health-address A:P    /healthz, /readyz, /metrics; default 0.0.0.0:8080\n"
    "  --log-level LEVEL       debug, info, warning or error; default info\n";

constexpr char kProgramVersion[] = "0.1.0";
constexpr char kByPods[] = "pods";  // in place of a class

struct Flags {
  std::string kubeconfig, ns, launcher_image, worker_image, pull_policy, lease, signals, spot;
  std::string metadata, placement, reserve_after, flavors, pod_groups = "false";
  std::string provisioning_class;
  std::string log_level = "info";
  std::string health_address = "0.0.0.0:" + std::to_string(api::kOperatorHealthPort);
};

Result<Flags> read_flags(const std::vector<std::string>& arguments) {
  Flags flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    std::optional<std::string> value;
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    std::string* const target = name == "--kubeconfig"           ? &flags.kubeconfig
                                : name == "--namespace"          ? &flags.ns
                                : name == "--launcher-image"     ? &flags.launcher_image
                                : name == "--worker-image"       ? &flags.worker_image
                                : name == "--image-pull-policy"  ? &flags.pull_policy
                                : name == "--lease"              ? &flags.lease
                                : name == "--signals"            ? &flags.signals
                                : name == "--spot"               ? &flags.spot
                                : name == "--metadata"           ? &flags.metadata
                                : name == "--placement"          ? &flags.placement
                                : name == "--reserve-after"      ? &flags.reserve_after
                                : name == "--flavors"            ? &flags.flavors
                                : name == "--pod-groups"         ? &flags.pod_groups
                                : name == "--provisioning-class" ? &flags.provisioning_class
                                : name == "--health-address"     ? &flags.health_address
                                : name == "--log-level"          ? &flags.log_level
                                                                 : nullptr;
    if (target == nullptr) return fail(Code::kInvalid, "unknown flag " + name);
    if (!value && i + 1 == arguments.size()) return fail(Code::kInvalid, name + " needs a value");
    *target = value ? *value : arguments[++i];
  }
  const std::string& policy = flags.pull_policy;
  if (!policy.empty() && policy != "Always" && policy != "IfNotPresent" && policy != "Never") {
    return fail(
        Code::kInvalid,
        "--image-pull-policy must be Always, IfNotPresent or Never, not \"" + policy + "\"");
  }
  if (flags.pod_groups != "true" && flags.pod_groups != "false") {
    return fail(Code::kInvalid,
                "--pod-groups must be true or false, not \"" + flags.pod_groups + "\"");
  }
  // No name: a launcher asks every 2 s, and must not wait for a name server.
  static const std::regex kAddress(R"(http://([0-9.]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?)");
  if (!flags.metadata.empty() && !std::regex_match(flags.metadata, kAddress)) {
    return fail(Code::kInvalid, "--metadata must be http://ADDRESS or http://ADDRESS:PORT, not \"" +
                                    flags.metadata + "\"");
  }
  return flags;
}

Result<http::ServerOptions> health_options(const std::string& address) {
  const auto colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || std::stoi(port) > 65535) {
    return fail(Code::kInvalid, "--health-address must be ADDRESS:PORT, not \"" + address + "\"");
  }
  http::ServerOptions options;
  options.address = address.substr(0, colon);
  options.port = static_cast<std::uint16_t>(std::stoi(port));
  return options;
}

Result<LogLevel> log_level(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return fail(Code::kInvalid,
              "--log-level must be debug, info, warning or error, not \"" + name + "\"");
}

// The host's name is the pod's; the rest makes it this process's alone, as its successor in the
// same pod is another candidate.
Result<std::optional<leader::LeaseOptions>> lease_options(const std::string& lease) {
  if (lease.empty()) return std::optional<leader::LeaseOptions>{};
  const auto slash = lease.find('/');
  const bool is_path = slash != std::string::npos && slash > 0 && slash + 1 < lease.size() &&
                       lease.find('/', slash + 1) == std::string::npos;
  if (!is_path) {
    return fail(Code::kInvalid, "--lease must be NAMESPACE/NAME, not \"" + lease + "\"");
  }
  leader::LeaseOptions options;
  options.ns = lease.substr(0, slash);
  options.name = lease.substr(slash + 1);
  options.identity = os::host_name() + "_" + os::random_hex(4);
  options.version = kProgramVersion;
  return std::optional{options};
}

Result<std::string> read_table(const char* flag, const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return fail(Code::kNotFound, std::string(flag) + ": cannot read " + path);
  return text.str();
}

Result<std::shared_ptr<const controller::SignalTable>> read_signals(const std::string& path) {
  if (path.empty()) return std::shared_ptr<const controller::SignalTable>{};
  PAWL_TRY(text, read_table("--signals", path));
  auto table = controller::SignalTable::parse(text);
  if (!table) return fail(table.error().code, path + ": " + table.error().message);
  return std::make_shared<const controller::SignalTable>(std::move(*table));
}

Result<api::SpotTable> read_spot(const std::string& path) {
  if (path.empty()) return api::SpotTable{};
  PAWL_TRY(text, read_table("--spot", path));
  auto table = controller::parse_spot_table(text);
  if (!table) return fail(table.error().code, path + ": " + table.error().message);
  return table;
}

Result<admission::Patience> patience_of(const std::string& text) {
  admission::Patience patience;
  if (text.empty()) return patience;
  const bool is_number =
      text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) {
    return fail(Code::kInvalid,
                "--reserve-after must be seconds, 0 to 999999999, not \"" + text + "\"");
  }
  patience.wait_max = std::chrono::seconds{std::stoi(text)};
  return patience;
}

std::vector<api::LevelLabel> labels_of(const placement::Levels& levels) {
  std::vector<api::LevelLabel> labels;
  for (const std::string& label : levels.labels())
    labels.push_back({levels.name_at(static_cast<int>(labels.size()) + 1), label});
  return labels;
}

Result<std::optional<placement::Levels>> placement_levels(const std::string& text) {
  if (text.empty()) return std::optional<placement::Levels>{};
  auto levels = placement::Levels::parse(text);
  if (!levels) return fail(Code::kInvalid, "--placement " + levels.error().message);
  return std::optional{std::move(*levels)};
}

Result<controller::Flavors> flavors_of(const std::string& text) {
  auto flavors = controller::parse_flavors(text);
  if (!flavors) return fail(Code::kInvalid, "--flavors " + flavors.error().message);
  return flavors;
}

http::Response answer(const controller::Operator& running, const std::string& path) {
  const auto probe = [](bool is_good, const char* text) {
    return http::Response{.status = is_good ? 200 : 503, .body = std::string(text) + "\n"};
  };
  if (path == "/healthz") return probe(running.is_alive(), "the controller thread turns");
  if (path == "/readyz") return probe(running.is_synced(), "the caches are filled");
  if (path == "/metrics") {
    return {.status = 200,
            .content_type = "text/plain; version=0.0.4; charset=utf-8",
            .body = running.metrics()};
  }
  return {.status = 404, .body = "try /healthz, /readyz or /metrics\n"};
}

// Blocked before any thread exists, so that only wait_for_signal() sees them.
sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Pages of lists are megabytes, read and parsed by several threads: with one heap a thread, and
// with a threshold that grows with what was freed last, their memory would stay with the process.
void keep_memory_small() {
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
}

Result<int> run(const Flags& flags, const Clock& clock, Log& log) {
  PAWL_TRY(config, flags.kubeconfig.empty() ? kube::in_cluster_config()
                                            : kube::load_kubeconfig(flags.kubeconfig));
  PAWL_TRY(health, health_options(flags.health_address));
  PAWL_TRY(lease, lease_options(flags.lease));
  PAWL_TRY(table, read_signals(flags.signals));
  PAWL_TRY(spot, read_spot(flags.spot));
  PAWL_TRY(levels, placement_levels(flags.placement));
  PAWL_TRY(patience, patience_of(flags.reserve_after));
  PAWL_TRY(flavors, flavors_of(flags.flavors));
  const kube::TransportOptions calls{.user_agent = std::string("pawl-operator/") + kProgramVersion};
  PAWL_TRY(transport, kube::make_transport(config, clock, calls));
  PAWL_TRY(lease_transport, kube::make_transport(config, clock, calls));

  controller::OperatorOptions options;
  options.ns = flags.ns;
  options.lease = lease;
  options.signals = table;
  if (levels) options.children.levels = labels_of(*levels);
  options.placement = std::move(levels);
  options.patience = patience;
  options.flavors = std::move(flavors);
  options.wants_pod_groups = flags.pod_groups == "true";
  options.lease_transport = lease_transport.get();
  options.children.launcher_image = flags.launcher_image;
  options.children.native_worker_image = flags.worker_image;
  options.children.pull_policy = flags.pull_policy;
  options.children.metadata = flags.metadata;
  options.children.spot = std::move(spot);
  options.asks_by_pods = flags.provisioning_class == kByPods;
  if (!options.asks_by_pods) options.children.provisioning_class = flags.provisioning_class;
  controller::Operator running(*transport, clock, Random{os::entropy()}, log, options);
  PAWL_TRY(server, http::Server::start(health, [&](http::Request request, http::Reply reply) {
             reply.respond(answer(running, request.target.substr(0, request.target.find('?'))));
           }));
  running.start();
  log.info("started", {{"server", config.server},
                       {"namespace", flags.ns},
                       {"health_port", server->port()},
                       {"lease", flags.lease},
                       {"identity", lease ? lease->identity : ""}});

  const sigset_t signals = stop_signals();
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  log.info("stopping", {{"signal", signal_number}});
  running.stop();
  server.reset();
  log.info("stopped");
  return 0;
}

}  // namespace

int main(int count, char** values) {
  keep_memory_small();
  const sigset_t signals = stop_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  os::ignore_sigpipe();
  kube::initialise_http();
  const std::vector<std::string> arguments(values + 1, values + count);
  if (!arguments.empty() && arguments.front() == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const auto flags = read_flags(arguments);
  if (!flags) {
    std::fprintf(stderr, "%s\n%s", flags.error().message.c_str(), kUsage);
    return 2;
  }
  const auto level = log_level(flags->log_level);
  if (!level) {
    std::fprintf(stderr, "%s\n%s", level.error().message.c_str(), kUsage);
    return 2;
  }
  const RealClock clock;
  Log log(clock, os::write_stderr, *level);
  const auto result = run(*flags, clock, log);
  if (result) return *result;
  log.error("cannot_start",
            {{"code", code_name(result.error().code)}, {"message", result.error().message}});
  return 1;
}
