// The other way: text of a configuration, and what of it has to stay.
#include "common/base/hash.h"
#include "common/base/json.h"
#include "trainer-runtime/include/pawl/config.h"

namespace pawl {
namespace {

using nlohmann::json;

// Without where its first parameters come from.
json model_json(const TrainerConfig& config) {
  const ModelConfig& model = config.model;
  if (model.kind == "mlp") {
    return {{"kind", model.kind},
            {"inputs", model.inputs},
            {"classes", model.classes},
            {"hidden", model.hidden}};
  }
  return {{"kind", model.kind},       {"layers", model.layers},
          {"heads", model.heads},     {"channels", model.channels},
          {"context", model.context}, {"vocabulary", model.vocabulary},
          {"tied", model.is_tied}};
}

// What the kind has, so that it can be read again.
json data_json(const DataConfig& c) {
  json object = {
      {"kind", c.kind}, {"paths", c.paths}, {"validation_fraction", c.validation_fraction}};
  if (c.kind == "tokens") object["token_bytes"] = c.token_bytes;
  if (c.kind == "csv") {
    object["label"] = c.label;
    object["normalize"] = c.normalize;
    object["bad_rows_max"] = c.bad_rows_max;
  }
  return object;
}

json optimizer_json(const OptimizerConfig& c) {
  json object = {{"kind", c.kind},
                 {"learning_rate", c.learning_rate},
                 {"weight_decay", c.weight_decay},
                 {"clip_norm", c.clip_norm}};
  if (c.kind == "adamw" || c.kind == "lamb") {
    object["beta1"] = c.beta1;
    object["beta2"] = c.beta2;
  } else {
    object["momentum"] = c.momentum;
  }
  if (c.kind == "sgd") object["nesterov"] = c.is_nesterov;
  if (c.kind == "lars") object["trust"] = c.trust;
  if (c.kind != "sgd") object["epsilon"] = c.epsilon;
  if (c.scaling != "none") {
    object["scaling"] = c.scaling;
    object["scaling_batch"] = c.scaling_batch;
  }
  return object;
}

json schedule_json(const ScheduleConfig& c) {
  json object = {{"kind", c.kind}, {"final_fraction", c.final_fraction}};
  if (c.warmup_tokens > 0) {
    object["warmup_tokens"] = c.warmup_tokens;
  } else {
    object["warmup_steps"] = c.warmup_steps;
  }
  if (c.kind == "wsd") object["decay_fraction"] = c.decay_fraction;
  return object;
}

json guard_json(const GuardConfig& c) {
  json object = {
      {"on_bad_step", c.on_bad_step}, {"spike", c.spike}, {"digest_every", c.digest_every}};
  if (c.on_bad_step == "skip") object["skips_max"] = c.skips_max;
  return object;
}

json parallel_json(const ParallelConfig& c) {
  json object = {{"zero", c.zero}, {"compression", c.compression}};
  if (c.compression == "top_k") object["compression_share"] = c.compression_share;
  return object;
}

json config_json(const TrainerConfig& c) {
  json object = {
      {"model", model_json(c)},
      {"data", data_json(c.data)},
      {"batch",
       {{"global", c.batch.global}, {"micro", c.batch.micro}, {"dealing", c.batch.dealing}}},
      {"parallel", parallel_json(c.parallel)},
      {"optimizer", optimizer_json(c.optimizer)},
      {"schedule", schedule_json(c.schedule)},
      {"guard", guard_json(c.guard)},
      {"determinism", c.determinism},
      {"steps", c.steps},
      {"seed", c.seed},
      {"validate_every", c.validate_every},
      {"validate_batches", c.validate_batches},
      {"log_every", c.log_every},
      {"trace",
       {{"folder", c.trace.folder}, {"first_step", c.trace.first_step}, {"steps", c.trace.steps}}}};
  if (c.model.kind == "gpt") {
    object["model"]["weights"] = c.model.weights;
    object["export"] = c.export_folder;
  }
  return object;
}

}  // namespace

std::string format_config(const TrainerConfig& config) { return config_json(config).dump(); }

std::string config_hash(const TrainerConfig& config) {
  json object = config_json(config);
  object["data"].erase("paths");
  object["model"].erase("weights");
  object.erase("export");
  object.erase("trace");
  // An older version did not know these; what was hashed without them keeps its hash.
  if (object["guard"] == guard_json({})) object.erase("guard");
  if (!config.is_compressed()) object["parallel"].erase("compression");
  if (!config.is_compressed() && !config.is_sharded()) object.erase("parallel");
  return sha256_hex(object.dump());
}

std::string model_hash(const TrainerConfig& config) {
  return sha256_hex(model_json(config).dump());
}

std::string data_form(const DataConfig& config) {
  json object = data_json(config);
  for (const char* key : {"paths", "validation_fraction", "bad_rows_max"}) object.erase(key);
  return object.dump();
}

}  // namespace pawl
