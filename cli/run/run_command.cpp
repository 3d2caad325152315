#include "cli/run/run_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "cli/run/display.h"
#include "cli/run/job_file.h"
#include "cli/run/local_cluster.h"
#include "cli/run/session.h"
#include "cli/run/signals.h"
#include "common/base/json.h"
#include "common/kube/requests.h"
#include "common/os/fd.h"
#include "common/os/process.h"
#include "common/os/real_clock.h"

namespace pawl::cli {
namespace {

namespace fs = std::filesystem;

int refuse(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) std::cerr << "pawl: " << problem << "\n";
  return kExitUsage;
}

// The job as it will be created, with what was changed for this machine.
struct Prepared {
  nlohmann::json job;
  std::string run_folder;
  std::vector<std::string> notices;
};

std::string run_folder_of(const RunOptions& options, const nlohmann::json& job, TimePoint now) {
  if (!options.run_folder.empty())
    return fs::absolute(options.run_folder).lexically_normal().string();
  std::string time = format_time(now);  // 2026-11-21T10:04:05Z
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  const std::string name = job.at("metadata").value("name", "job");
  return fs::absolute("pawl-runs/" + name + "-" + time).string();
}

// Two runs that start in the same second must not share their folder.
Status claim_folder(std::string& folder, bool is_chosen) {
  std::error_code error;
  fs::create_directories(is_chosen ? fs::path{folder} : fs::path{folder}.parent_path(), error);
  if (error) return fail(Code::kInvalid, "cannot make " + folder + ": " + error.message());
  if (is_chosen) return {};
  const std::string base = folder;
  for (int n = 2; !fs::create_directory(folder, error); ++n) {
    if (error) return fail(Code::kInvalid, "cannot make " + folder + ": " + error.message());
    folder = base + "-" + std::to_string(n);
  }
  return {};
}

Result<Prepared> prepare(const RunOptions& options, TimePoint now) {
  Prepared prepared;
  PAWL_TRY(job, read_job_file(options.job_file));
  for (const std::string& setting : options.settings) PAWL_TRY_VOID(apply_setting(job, setting));
  if (!job["metadata"].is_object()) job["metadata"] = nlohmann::json::object();
  if (job["metadata"].value("namespace", nlohmann::json{}).is_null())
    job["metadata"]["namespace"] = "default";
  if (job.contains("spec") && job["spec"].is_object() &&
      job["spec"].value("suspend", nlohmann::json{}) == true) {
    return fail(Code::kInvalid,
                "spec.suspend: a suspended job does not run; add --set spec.suspend=false");
  }
  const bool is_named = job["metadata"].contains("name") && job["metadata"]["name"].is_string();
  prepared.run_folder =
      run_folder_of(options, is_named ? job : nlohmann::json{{"metadata", {{"name", "job"}}}}, now);
  PAWL_TRY_VOID(claim_folder(prepared.run_folder, !options.run_folder.empty()));
  PAWL_TRY_VOID(fit_to_machine(job, prepared.run_folder, options.texts, prepared.notices));
  prepared.job = std::move(job);
  return prepared;
}

// Beside this program, else wherever PATH has it.
std::string sibling(const std::string& name) {
  const fs::path beside = fs::path{os::executable_path()}.parent_path() / name;
  std::error_code error;
  return fs::exists(beside, error) ? beside.string() : name;
}

// The operator's own log; people look there when the table is not enough.
Log::Writer file_writer(const std::shared_ptr<os::Fd>& file) {
  return [file](std::string_view line) {
    static_cast<void>(::write(file->get(), line.data(), line.size()) <
                      0);  // a full disk loses log lines, no more
  };
}

Status create_job(kube::Transport& transport, const nlohmann::json& job) {
  const auto request =
      kube::create_request(kube::resources::kTrainingJobs, job.at("metadata").at("namespace"), job);
  PAWL_TRY(response, kube::send_and_wait(transport, request));
  PAWL_TRY(created, kube::read_response(request, response));
  return {};
}

}  // namespace

int run_command(const RunOptions& options) {
  const RealClock clock;
  auto prepared = prepare(options, clock.now());
  if (!prepared) return refuse({prepared.error().message});
  if (const auto problems = problems_of(prepared->job); !problems.empty()) {
    std::error_code ignored;
    fs::remove(prepared->run_folder, ignored);  // the one just made; one with content stays
    return refuse(problems);
  }

  // Order matters: fork the keeper while there is one thread, block the signals before there are
  // more.
  auto keeper = local::Keeper::start();
  if (!keeper) return refuse({keeper.error().message});
  const Signals signals;

  const std::string log_path = prepared->run_folder + "/operator.log";
  const auto log_file = std::make_shared<os::Fd>(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log_file->is_open()) return refuse({"cannot write " + log_path + ": " + os::errno_text()});
  Log log{clock, file_writer(log_file)};

  auto cluster = LocalCluster::start(
      **keeper, clock, log, {prepared->run_folder, sibling("pawl-launch"), sibling("pawl-train")});
  if (!cluster) return refuse({cluster.error().message});
  Display display{clock, ::isatty(STDOUT_FILENO) == 1, options.is_quiet};
  display.tell("· run folder: " + prepared->run_folder);
  for (const std::string& notice : prepared->notices) display.tell("· " + notice);

  Session session{**cluster, clock, signals, display};
  if (const auto created = create_job((*cluster)->transport(), prepared->job); !created) {
    return refuse({created.error().message});
  }
  return session.follow(options.chaos);
}

}  // namespace pawl::cli
