#include "common/api/native_batch.h"

#include <algorithm>

#include "common/base/json.h"

namespace pawl::api {
namespace {

using nlohmann::json;

json parsed(const std::string& text) { return parse_json(text); }

void read(const json& config, const char* name, std::int64_t& out) {
  const json::json_pointer path{std::string("/batch/") + name};
  if (!config.is_object() || !config.contains(path) || !config[path].is_number_integer()) return;
  const auto value = config[path].get<std::int64_t>();
  if (value > 0) out = value;
}

// The greatest number up to `most` that divides `whole`.
std::int64_t divisor_up_to(std::int64_t most, std::int64_t whole) {
  std::int64_t divisor = std::max<std::int64_t>(most, 1);
  while (whole % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

NativeBatch native_batch(const TrainingJob& job) {
  NativeBatch batch;
  const json config = parsed(job.spec.runtime_config_json);
  read(config, "global", batch.global);
  read(config, "micro", batch.micro);
  const auto& lowered = job.status.micro_batch;
  if (lowered && *lowered < batch.micro) batch.micro = divisor_up_to(*lowered, batch.global);
  return batch;
}

std::optional<std::int64_t> smaller_micro_batch(const NativeBatch& batch) {
  if (batch.micro <= 1) return std::nullopt;
  return divisor_up_to(batch.micro / 2, batch.global);
}

std::string trainer_config(const TrainingJob& job) {
  const std::string& text = job.spec.runtime_config_json;
  if (text.empty() || !job.status.micro_batch) return text;
  json config = parsed(text);
  if (!config.is_object()) return text;
  json& batch = config["batch"];
  if (!batch.is_object()) batch = json::object();
  batch["micro"] = native_batch(job).micro;
  return config.dump();
}

std::string memory_limit(const TrainingJob& job) {
  const json pod_template = parsed(job.spec.template_json);
  const json::json_pointer path{"/spec/containers"};
  if (!pod_template.is_object() || !pod_template.contains(path)) return "";
  const json& containers = pod_template[path];
  if (!containers.is_array() || containers.empty()) return "";
  const auto named = std::ranges::find_if(containers, [](const json& container) {
    return container.is_object() && container.value("name", json()) == "worker";
  });
  const json& worker = named != containers.end() ? *named : containers[0];
  const json::json_pointer limit{"/resources/limits/memory"};
  if (!worker.is_object() || !worker.contains(limit)) return "";
  return worker[limit].is_string() ? worker[limit].get<std::string>() : worker[limit].dump();
}

}  // namespace pawl::api
