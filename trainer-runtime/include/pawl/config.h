// The configuration of pawl-train: `runtime.config` of a TrainingJob. It comes as JSON (`pawl` and
// the operator turn a job's YAML into it), in PAWL_TRAINER_CONFIG or a file, with the names below:
// {"model": {"layers": 4, …}, "data": {…}, "batch": {…}, "optimizer": {…}, "schedule": {…},
// "steps": 1000, …}. A field that is not listed here is an error that names the nearest one; a
// field that is absent has the default given here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "trainer-runtime/include/pawl/config_parts.h"

namespace pawl {

struct TrainerConfig {
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  ParallelConfig parallel;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  GuardConfig guard;
  TraceConfig trace;
  // none: gradients are summed in the order of the ranks. exact: no bit of any step depends on the
  // number of ranks, on who has which micro-batch, or on how often that has changed, among
  // processors with the same instructions; costs a little time and 8 bytes a parameter.
  std::string determinism = "none";
  std::int64_t steps = 1000;  // optimizer steps, 1 to 10^12
  std::uint64_t seed = 1;     // of the initial parameters, the order of samples, held-out rows
  std::int64_t validate_every = 0;     // steps between validations; 0: only at the end
  std::int64_t validate_batches = 16;  // micro-batches, spread over all that is held out
  std::int64_t log_every = 0;          // steps between lines of progress; 0: once a second
  // gpt; in JSON `export`: a folder, made if it is not there, for the model of the complete run as
  // transformers reads it (weights/gpt2_export.h). "": none is written.
  std::string export_folder = "";

  bool is_exact() const { return determinism == "exact"; }
  bool is_sharded() const { return parallel.zero > 0; }
  bool is_compressed() const { return parallel.compression != "none"; }
};

// Invalid with the field's path and what to write instead.
Result<TrainerConfig> parse_config(std::string_view json);
// All fields, sorted: equal configurations give equal text.
std::string format_config(const TrainerConfig& config);
// SHA-256 of format_config without data.paths, model.weights, export and trace: paths may differ
// between machines, and a trace changes nothing.
std::string config_hash(const TrainerConfig& config);
// What must be equal to load a checkpoint: SHA-256 of the model's part, without model.weights.
std::string model_hash(const TrainerConfig& config);
// … and, beside the amount of data, how its files are read: kind, token_bytes, label, normalize, as
// JSON for people.
std::string data_form(const DataConfig& config);

}  // namespace pawl
