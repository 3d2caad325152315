#include "cli/run/job_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cli/local/pod_process.h"
#include "cli/yaml_json.h"
#include "common/api/contract.h"
#include "common/api/validate.h"
#include "common/base/json.h"
#include "trainer-runtime/include/pawl/config.h"

namespace pawl::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kFileScheme = "file://";

// Whether a folder of this name could be filled. Nothing is created directly below "/": a path like
// /data/x means a volume, and to make one up there would surprise.
bool is_writable(fs::path path) {
  std::error_code error;
  while (!path.empty() && path != path.root_path() && !fs::exists(path, error))
    path = path.parent_path();
  if (path.empty() || path == path.root_path()) return false;
  return fs::is_directory(path, error) && ::access(path.c_str(), W_OK | X_OK) == 0;
}

nlohmann::json* member(nlohmann::json* object, const char* name) {
  if (object == nullptr || !object->is_object() || !object->contains(name)) return nullptr;
  return &(*object)[name];
}

void fit_checkpoint(nlohmann::json& job, const std::string& run_folder,
                    std::vector<std::string>& notices) {
  nlohmann::json* spec = member(&job, "spec");
  nlohmann::json* kind = member(member(spec, "runtime"), "kind");
  const std::string local = std::string{kFileScheme} + run_folder + "/checkpoints";
  nlohmann::json* checkpoint = member(spec, "checkpoint");
  if (checkpoint == nullptr) {
    if (kind == nullptr || *kind != "Native") return;
    (*spec)["checkpoint"] = {{"uri", local}};
    notices.push_back("checkpoints go to " + local);
    return;
  }
  nlohmann::json* uri = member(checkpoint, "uri");
  if (uri == nullptr || !uri->is_string()) return;
  const std::string text = uri->get<std::string>();
  const bool is_file = text.rfind(kFileScheme, 0) == 0;
  const bool is_relative = text.find("://") == std::string::npos;
  if (is_file && is_writable(text.substr(kFileScheme.size()))) return;
  if (!is_file && !is_relative) return;  // validation has a sentence for it
  *uri = local;
  notices.push_back("checkpoint.uri " + text +
                    " cannot be written on this machine: checkpoints go to " + local);
}

// Whether the worker starts a program of its own in the place of our trainer.
bool has_own_program(const nlohmann::json& job) {
  const nlohmann::json::json_pointer pod{"/spec/template"};
  const nlohmann::json::json_pointer containers{"/spec/template/spec/containers"};
  if (!job.contains(containers) || job[containers].empty()) return false;
  const nlohmann::json& worker = local::worker_container(job[pod]);
  return worker.contains("command") || worker.contains("args");
}

// What the trainer would say of its configuration after the pods have started. It is the trainer's
// own code that looks; the API server knows nothing of it.
std::string trainer_problem(const nlohmann::json& job) {
  const nlohmann::json::json_pointer kind{"/spec/runtime/kind"}, config{"/spec/runtime/config"};
  if (job.value(kind, nlohmann::json()) != "Native" || has_own_program(job)) return "";
  const std::string text = job.value(config, nlohmann::json::object())
                               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto read = parse_config(text);
  return read ? "" : "spec.runtime.config: " + read.error().message;
}

Status fit_texts(nlohmann::json& job, const std::vector<std::string>& texts) {
  nlohmann::json* data = member(member(member(member(&job, "spec"), "runtime"), "config"), "data");
  if (!texts.empty()) {
    if (data == nullptr) {
      return fail(Code::kInvalid,
                  "--text: the job has no spec.runtime.config.data to give the text to");
    }
    (*data)["paths"] = nlohmann::json::array();
    for (const std::string& text : texts) (*data)["paths"].push_back(fs::absolute(text).string());
  }
  nlohmann::json* paths = member(data, "paths");
  if (paths == nullptr || !paths->is_array()) return {};
  for (const auto& path : *paths) {
    std::error_code error;
    if (!path.is_string() || fs::exists(path.get<std::string>(), error)) continue;
    return fail(Code::kInvalid,
                "spec.runtime.config.data.paths: " + path.get<std::string>() +
                    " does not exist on this machine; give another text with --text PATH");
  }
  return {};
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::error_code error;
  const std::ifstream file{path, std::ios::binary};
  if (!file || fs::is_directory(path, error))
    return fail(Code::kNotFound, path + ": cannot be read");
  text << file.rdbuf();
  return text.str();
}

namespace {

Result<nlohmann::json> read_object(const std::string& path) {
  PAWL_TRY(text, read_text(path));
  auto documents = parse_yaml_documents(text);
  if (!documents) return fail_with(documents.error(), path);
  if (documents->size() != 1) {
    return fail(Code::kInvalid, path + ": must hold one object, holds " +
                                    std::to_string(documents->size()) + " documents");
  }
  nlohmann::json object = std::move(documents->front());
  if (!object.is_object()) return fail(Code::kInvalid, path + ": must hold an object, with a kind");
  return object;
}

std::vector<std::string> lines_of(const std::vector<api::FieldError>& errors) {
  std::vector<std::string> lines;
  for (const api::FieldError& error : errors)
    lines.push_back(error.field.empty() ? error.message : error.field + ": " + error.message);
  return lines;
}

}  // namespace

Result<nlohmann::json> read_job_file(const std::string& path) {
  PAWL_TRY(job, read_object(path));
  if (job.value("kind", nlohmann::json{}) != "TrainingJob") {
    return fail(Code::kInvalid, path + ": kind: must be TrainingJob; you wrote " +
                                    job.value("kind", nlohmann::json("nothing")).dump());
  }
  return job;
}

Status apply_setting(nlohmann::json& job, const std::string& setting) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || setting.rfind("spec.", 0) != 0) {
    return fail(Code::kInvalid, "--set " + setting + ": write spec.FIELD=VALUE");
  }
  PAWL_TRY(value, parse_yaml_value(setting.substr(equals + 1)));
  nlohmann::json* place = &job;
  std::istringstream path{setting.substr(0, equals)};
  std::string step;
  while (std::getline(path, step, '.')) {
    if (!place->is_object() && !place->is_null()) {
      return fail(Code::kInvalid,
                  "--set " + setting + ": \"" + step + "\" lies in something that is no object");
    }
    place = &(*place)[step];
  }
  *place = std::move(value);
  return {};
}

Status fit_to_machine(nlohmann::json& job, const std::string& run_folder,
                      const std::vector<std::string>& texts, std::vector<std::string>& notices) {
  fit_checkpoint(job, run_folder, notices);
  return fit_texts(job, texts);
}

std::vector<std::string> problems_of(const nlohmann::json& object) {
  if (pawl::member_of(object, "kind") == "TrainingQueue")
    return lines_of(api::validate_training_queue(object));
  std::vector<std::string> problems = lines_of(api::validate_training_job(object));
  if (!problems.empty()) return problems;  // below, types may be relied on
  if (const std::string problem = trainer_problem(object); !problem.empty())
    problems.push_back(problem);
  return problems;
}

std::vector<std::string> problems_of_file(const std::string& path) {
  const auto object = read_object(path);
  if (!object) return {object.error().message};
  const auto& kind = pawl::member_of(*object, "kind");
  if (kind == "TrainingJob" || kind == "TrainingQueue") return problems_of(*object);
  return {path + ": kind: must be TrainingJob or TrainingQueue; you wrote " +
          (kind.is_null() ? "nothing" : kind.dump())};
}

}  // namespace pawl::cli
