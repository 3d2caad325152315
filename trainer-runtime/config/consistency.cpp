#include "trainer-runtime/config/consistency.h"

#include <filesystem>

namespace pawl {
namespace {

using Message = std::optional<std::string>;

std::string number(std::int64_t value) { return std::to_string(value); }

// With a slash at its end, by its name alone.
std::string whole_path(const std::string& path) {
  std::error_code ignored;
  return (std::filesystem::absolute(path, ignored) / "").lexically_normal();
}

// What would be written where all files are data.
Message read_as_data(const TrainerConfig& config, const char* key, const std::string& folder) {
  for (const std::string& path : config.data.paths) {
    if (!folder.empty() && whole_path(folder).starts_with(whole_path(path)))
      return std::string(key) + " must not be in " + path +
             " of data.paths: it would be read as data";
  }
  return std::nullopt;
}

// What an export would replace, or add to.
Message spoiled(const TrainerConfig& config) {
  if (config.export_folder.empty()) return std::nullopt;
  const std::string folder = whole_path(config.export_folder);
  const std::filesystem::path weights = config.model.weights;
  const std::filesystem::path begins_with =
      weights.extension() == ".safetensors" ? "." / weights.parent_path() : weights;
  if (!weights.empty() && whole_path(begins_with) == folder) {
    return "export must not be where model.weights is: a run that begins again would begin with "
           "what it has exported";
  }
  return read_as_data(config, "export", config.export_folder);
}

Message of_data_and_model(const TrainerConfig& config) {
  const bool is_table = config.data.kind == "csv";
  if (is_table != (config.model.kind == "mlp")) {
    return "model.kind " + config.model.kind + " does not learn from data.kind " +
           config.data.kind + "; gpt learns from text and tokens, mlp from csv";
  }
  if (is_table && (config.model.inputs == 0 || config.model.classes == 0)) {
    return "model.inputs and model.classes are needed: how many features a row has, and how many "
           "classes there are";
  }
  if (auto message = spoiled(config)) return message;
  if (auto message = read_as_data(config, "trace.folder", config.trace.folder)) return message;
  if (config.model.channels % config.model.heads != 0) {
    return "model.heads must divide model.channels; " + number(config.model.channels) +
           " is not a multiple of " + number(config.model.heads);
  }
  if (config.data.kind == "text" && config.model.vocabulary < 256) {
    return "model.vocabulary must be at least 256 for data.kind text, whose tokens are bytes";
  }
  if (config.data.paths.empty()) {
    return "data.paths is empty: name the files or folders of the " +
           std::string(is_table ? "tables" : config.data.kind);
  }
  return std::nullopt;
}

Message of_steps(const TrainerConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  if (config.batch.global % config.batch.micro != 0) {
    return "batch.micro must divide batch.global; " + number(config.batch.global) +
           " is not a multiple of " + number(config.batch.micro);
  }
  if (optimizer.scaling != "none" && optimizer.scaling_batch == 0) {
    return "optimizer.scaling needs optimizer.scaling_batch, the batch.global that "
           "optimizer.learning_rate is for";
  }
  if (optimizer.scaling == "none" && optimizer.scaling_batch > 0)
    return "optimizer.scaling_batch needs optimizer.scaling, linear or sqrt";
  if (optimizer.is_nesterov && optimizer.momentum == 0)
    return "optimizer.nesterov needs an optimizer.momentum above 0";
  if (config.guard.spike > 0 && config.guard.spike < 1.5)
    return "guard.spike must be 0, for none, or 1.5 or more: times the usual gradient norm";
  return std::nullopt;
}

Message of_parallel(const TrainerConfig& config) {
  if (config.is_sharded() && !config.optimizer.works_on_parts()) {
    return "parallel.zero 1 is for optimizer.kind adamw and sgd: " + config.optimizer.kind +
           " needs the norm of whole tensors";
  }
  const std::string compression = "parallel.compression " + config.parallel.compression;
  if (config.is_compressed() && config.is_exact()) {
    return compression +
           " is not for determinism exact, as its sums depend on the number of ranks; set one of "
           "them to none";
  }
  if (config.is_compressed() && config.is_sharded()) {
    return compression +
           " is not for parallel.zero 1, which sums each part on one rank alone; set parallel.zero "
           "to 0 or parallel.compression to none";
  }
  return std::nullopt;
}

}  // namespace

Message inconsistency(const TrainerConfig& config) {
  if (auto message = of_steps(config)) return message;
  if (auto message = of_parallel(config)) return message;
  return of_data_and_model(config);
}

}  // namespace pawl
