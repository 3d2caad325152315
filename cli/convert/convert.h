// Manifests of other training operators as TrainingJobs: PyTorchJob (kubeflow.org/v1), TrainJob
// (trainer.kubeflow.org/v1alpha1), JobSet (jobset.x-k8s.io/v1alpha2). Nothing is dropped in
// silence: every field of the manifest is carried, or named with the reason and what to do instead.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/result.h"

namespace pawl::cli {

struct Note {
  std::string field;    // of the manifest: "spec.runPolicy.backoffLimit"
  std::string why;      // why it is not carried as it stands
  std::string instead;  // what to do instead, or what was done
};

struct Conversion {
  std::string source;          // "PyTorchJob mnist"
  nlohmann::json job;          // valid: the API server takes it
  std::vector<Note> left_out;  // the job will behave differently without these
  std::vector<Note> changed;   // carried in another form, or not needed any more
};

// Invalid, with every reason, if no valid TrainingJob can be made of it.
Result<Conversion> convert_manifest(const nlohmann::json& manifest);
bool is_convertible(const nlohmann::json& manifest);  // by apiVersion and kind

// `pawl convert FILE…`: reads YAML documents ("-": standard input), writes the TrainingJobs to
// standard output and what was not carried to standard error. Exit codes: 0, 2 (bad input), 3
// (something was left out). Blocking.
int convert_command(const std::vector<std::string>& arguments);

inline constexpr int kExitLeftOut = 3;

}  // namespace pawl::cli
