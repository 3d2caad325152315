// A TrainingJob as it takes shape, and the manifest it comes from as it is taken apart. For the
// .cpp files of this folder. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/convert/convert.h"

namespace pawl::cli::convert {

using nlohmann::json;

class Draft;

// An object of the manifest. What is taken is gone from it; what is left in the end was not
// understood.
class Source {
 public:
  Source(Draft& draft, json object, std::string path)
      : draft_(&draft), object_(std::move(object)), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const {
    return path_.empty() ? name : path_ + "." + name;
  }
  bool has(const char* name) const;  // and not null

  // A value of another type than wanted is an error of the manifest.
  json take(const char* name);  // null if absent
  std::optional<std::string> take_text(const char* name);
  std::optional<std::int64_t> take_number(const char* name);
  std::optional<bool> take_flag(const char* name);
  json take_list(const char* name);      // an empty list if absent
  Source take_object(const char* name);  // an empty object if absent

  // Takes it; if it is there, it is left out for this reason.
  void leave_out(const char* name, const std::string& why, const std::string& instead);
  // Takes it; nothing is lost without it. Said only if it is there.
  void drop(const char* name, const std::string& why, const std::string& instead);
  // What nobody took is left out.
  void finish();

 private:
  Draft* draft_;
  json object_;
  std::string path_;
};

class Draft {
 public:
  Draft();

  json spec;  // of the TrainingJob
  json metadata = json::object();
  std::string source;
  std::string template_path;  // of spec.template in the manifest; "" if it is made of several parts

  void leave_out(const std::string& field, const std::string& why, const std::string& instead);
  void change(const std::string& field, const std::string& why, const std::string& instead);
  void fail(const std::string& field, const std::string& what);
  // Sets spec at the pointer ("/deadlines/activeSeconds") if this version's TrainingJob has such a
  // field; else `field` is left out with `instead`.
  void carry(const char* pointer, json value, const std::string& field, const std::string& instead);
  bool knows(const char* pointer) const;

  // Validated. Fields of the pod that a TrainingJob does not know are left out; any other complaint
  // is an error.
  Result<Conversion> finish();

 private:
  void remove_unknown(json& job);
  std::string field_in_manifest(const std::string& field) const;

  json schema_;
  std::vector<Note> left_out_, changed_;
  std::vector<std::string> errors_;
};

// metadata of the manifest: name, namespace, labels and annotations are carried, what servers wrote
// is not.
void carry_metadata(Draft& draft, Source& manifest);

struct PodRules {
  // The name that the other operator gives the worker container; "" for none.
  std::string container;
  // MASTER_ADDR and the like are expected.
  bool is_torch = false;
  // The processes of a pod as the manifest gives them (null if it does not), and where.
  json processes;
  std::string processes_field;
  // What torchrun starts if neither its options nor `processes` say; null: auto.
  json torchrun_default;
  // Host names that begin so do not exist any more.
  std::vector<std::string> host_prefixes;
  // Where the manifest describes the container, if not in a template.
  std::string worker_path;
};
// The pod template becomes spec.template: the worker container is named `worker`, torchrun is taken
// out of its command (the launcher is in its place), variables, labels and host names that only the
// other operator sets are named.
void carry_template(Draft& draft, const json& pod_template, const std::string& path,
                    const PodRules& rules);

// "containers[0].image" for what stands at /containers/0/image.
std::string field_of_pointer(const std::string& pointer);
// Where two templates differ, as fields below `path`; at most eight.
std::vector<std::string> differences(const json& a, const json& b, const std::string& path);

void set_replicas(Draft& draft, std::int64_t count, const std::string& field);
void set_max_restarts(Draft& draft, std::int64_t count, const std::string& field);
void carry_ttl(Draft& draft, Source& from, const char* name);
void carry_active_deadline(Draft& draft, Source& from);
// `others`: values that name the operator of the manifest, and mean nothing here.
void carry_managed_by(Draft& draft, Source& from, const std::string& other);
void carry_suspend(Draft& draft, Source& from);

void convert_pytorch_job(Draft& draft, Source& manifest);
void convert_train_job(Draft& draft, Source& manifest);
void convert_job_set(Draft& draft, Source& manifest);

}  // namespace pawl::cli::convert
