// A job file as `pawl run` and `pawl validate` take it: read, changed by --set, and fitted to a
// machine without volumes. Blocking file access; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::cli {

// The whole file; "-" is standard input.
Result<std::string> read_text(const std::string& path);

// The one TrainingJob in the file; "-" is standard input. Invalid, with what to change, for
// anything else.
Result<nlohmann::json> read_job_file(const std::string& path);

// "spec.runtime.config.steps=20": the value is YAML; objects on the way are created.
Status apply_setting(nlohmann::json& job, const std::string& setting);

// What a cluster gives by volumes and `pawl run` by folders. Changes, each with a line for the user
// in `notices`: a file: URI of checkpoints that cannot be written here goes below the run folder,
// as does that of a Native job without one; `texts` replace runtime.config.data.paths. Invalid: a
// text that is not there.
Status fit_to_machine(nlohmann::json& job, const std::string& run_folder,
                      const std::vector<std::string>& texts, std::vector<std::string>& notices);

// All problems of a TrainingJob or a TrainingQueue, one a line; empty if there is none. Those that
// the API server sees, then the first in a Native job's runtime.config, by the trainer's own
// parser.
std::vector<std::string> problems_of(const nlohmann::json& object);
std::vector<std::string> problems_of_file(const std::string& path);

}  // namespace pawl::cli
