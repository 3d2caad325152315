#include <iostream>

#include "cli/commands.h"
#include "cli/run/run_command.h"
#include "cli/status/status_text.h"
#include "common/api/codec.h"
#include "common/base/json.h"
#include "common/os/real_clock.h"

namespace pawl::cli {
namespace {

using nlohmann::json;

int complain(const Error& error, int exit_code) {
  std::cerr << "pawl: " << error.message << "\n";
  return exit_code;
}

// JSON for programs; bytes that are no UTF-8 are replaced.
void print_json(const json& value) {
  std::cout << value.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
}

int show_all(Connection& connection, const std::string& format, TimePoint now) {
  auto objects = connection.list(kube::resources::kTrainingJobs, connection.ns());
  if (!objects) return complain(objects.error(), kExitNotFound);
  if (format == "json") {
    print_json({{"apiVersion", "v1"}, {"kind", "List"}, {"items", *objects}});
    return kExitFound;
  }
  std::vector<api::TrainingJob> jobs;
  for (const json& object : *objects) {
    auto job = api::decode_training_job(object);
    if (!job) return complain(job.error(), kExitNotFound);
    jobs.push_back(std::move(*job));
  }
  const std::string& ns = connection.ns();
  if (jobs.empty()) {
    if (!ns.empty() && !connection.has_namespace(ns)) {
      return complain({Code::kNotFound, "there is no namespace " + ns + ": correct -n"},
                      kExitNotFound);
    }
    std::cerr << (ns.empty() ? "no TrainingJobs\n" : "no TrainingJobs in namespace " + ns + "\n");
    return kExitFound;
  }
  std::cout << status_table(jobs, {.has_namespace = ns.empty(), .is_wide = format == "wide"}, now);
  return kExitFound;
}

int show_one(Connection& connection, const std::string& name, const std::string& format,
             TimePoint now) {
  RawSnapshot raw;
  const bool is_json = format == "json";
  const auto snapshot = take_snapshot(connection, name, {.events = is_json}, now, &raw);
  if (!snapshot) return complain(snapshot.error(), kExitNotFound);
  if (is_json) {
    print_json(
        {{"job", raw.job}, {"workerGroup", raw.group}, {"pods", raw.pods}, {"events", raw.events}});
  } else {
    std::cout << status_page(*snapshot);
  }
  return kExitFound;
}

}  // namespace

int status_command(const std::vector<std::string>& given) {
  std::vector<Flag> flags = cluster_flags();
  flags.push_back({"--output", "-o"});
  const auto arguments = Arguments::parse(given, flags);
  if (!arguments) return complain(arguments.error(), kExitUsage);
  const std::string format = arguments->value("--output");
  if (!format.empty() && format != "json" && format != "wide") {
    return complain({Code::kInvalid, "-o " + format + ": write json or wide"}, kExitUsage);
  }
  if (arguments->words().size() > 1) {
    return complain({Code::kInvalid, "status: one job at a time, or none for all"}, kExitUsage);
  }
  const RealClock clock;
  auto connection = Connection::open(*arguments, clock);
  if (!connection) return complain(connection.error(), kExitNotFound);
  if (arguments->words().empty()) return show_all(*connection, format, clock.now());
  return show_one(*connection, job_name_of(arguments->words().front()), format, clock.now());
}

}  // namespace pawl::cli
