// What the manifests have in common: metadata, counts, deadlines, and the comparison of two pod
// templates.
#include <algorithm>
#include <array>
#include <set>

#include "cli/convert/draft.h"
#include "common/api/contract.h"

namespace pawl::cli::convert {
namespace {

constexpr std::size_t kDifferencesMax = 8;
constexpr std::int64_t kRestartsMax = 1000;

// Written by servers and tools; they mean nothing for the new object.
constexpr std::array kServerFields = {"creationTimestamp", "deletionGracePeriodSeconds",
                                      "deletionTimestamp", "generation",
                                      "managedFields",     "resourceVersion",
                                      "selfLink",          "uid"};
constexpr char kLastApplied[] = "kubectl.kubernetes.io/last-applied-configuration";

}  // namespace

void carry_metadata(Draft& draft, Source& manifest) {
  Source metadata = manifest.take_object("metadata");
  for (const char* name : kServerFields) metadata.take(name);
  for (const char* name : {"name", "generateName", "namespace"}) {
    if (const auto text = metadata.take_text(name)) draft.metadata[name] = *text;
  }
  for (const char* name : {"labels", "annotations"}) {
    json map = metadata.take(name);
    if (!map.is_object()) continue;
    map.erase(kLastApplied);
    if (!map.empty()) draft.metadata[name] = std::move(map);
  }
  metadata.leave_out("ownerReferences", "the TrainingJob is an object of its own",
                     "let its owner create TrainingJobs");
  metadata.leave_out("finalizers", "nobody would remove them from a TrainingJob",
                     "add them again if something does");
  metadata.finish();
  draft.source +=
      " " + draft.metadata.value("name", draft.metadata.value("generateName", "without a name"));
}

std::string field_of_pointer(const std::string& pointer) {
  std::string field;
  std::size_t at = pointer.starts_with('/') ? 1 : 0;
  while (at < pointer.size()) {
    const std::size_t end = std::min(pointer.find('/', at), pointer.size());
    const std::string step = pointer.substr(at, end - at);
    const bool is_index =
        !step.empty() && step.find_first_not_of("0123456789") == std::string::npos;
    field += is_index ? "[" + step + "]" : (field.empty() ? "" : ".") + step;
    at = end + 1;
  }
  return field;
}

std::vector<std::string> differences(const json& a, const json& b, const std::string& path) {
  std::set<std::string> fields;
  for (const json& step : json::diff(a, b)) {
    fields.insert(path + "." + field_of_pointer(step["path"].get<std::string>()));
  }
  std::vector<std::string> out(fields.begin(), fields.end());
  if (out.size() > kDifferencesMax) out.resize(kDifferencesMax);
  return out;
}

void set_replicas(Draft& draft, std::int64_t count, const std::string& field) {
  if (count < 1 || count > api::kReplicasMax) {
    return draft.fail(field, "makes " + std::to_string(count) +
                                 " workers; a TrainingJob has 1 to " +
                                 std::to_string(api::kReplicasMax));
  }
  draft.spec["replicas"] = count;
}

void set_max_restarts(Draft& draft, std::int64_t count, const std::string& field) {
  if (count > kRestartsMax) {
    draft.change(field, "a TrainingJob counts to " + std::to_string(kRestartsMax),
                 "maxRestarts is that");
  }
  draft.spec["failurePolicy"]["maxRestarts"] = std::clamp<std::int64_t>(count, 0, kRestartsMax);
}

void carry_ttl(Draft& draft, Source& from, const char* name) {
  if (const auto seconds = from.take_number(name)) draft.spec["ttlSecondsAfterFinished"] = *seconds;
}

void carry_active_deadline(Draft& draft, Source& from) {
  if (const auto seconds = from.take_number("activeDeadlineSeconds")) {
    draft.carry("/deadlines/activeSeconds", *seconds, from.path_of("activeDeadlineSeconds"),
                "end the job from outside when its time is over");
  }
}

void carry_managed_by(Draft& draft, Source& from, const std::string& other) {
  const auto name = from.take_text("managedBy");
  if (!name) return;
  if (*name == other) {
    return draft.change(from.path_of("managedBy"), "it names the operator of the old kind",
                        "Pawl runs the TrainingJob");
  }
  draft.carry("/managedBy", *name, from.path_of("managedBy"), "keep the job in one cluster");
}

void carry_suspend(Draft& draft, Source& from) {
  if (const auto flag = from.take_flag("suspend"); flag && *flag) draft.spec["suspend"] = true;
}

}  // namespace pawl::cli::convert
