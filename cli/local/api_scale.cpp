// The scale subresource of TrainingJobs: spec.replicas as autoscaling/v1 sees it.

#include "cli/local/api_metadata.h"
#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

constexpr std::int64_t kInt32Max = 2'147'483'647;

json scale_of(const json& job) {
  json meta = json::object();
  const json& source = job.at("metadata");
  for (const char* field : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
    if (source.contains(field)) meta[field] = source[field];
  }
  const json status = job.value("status", json::object());
  json scale = {{"kind", "Scale"},
                {"apiVersion", "autoscaling/v1"},
                {"metadata", std::move(meta)},
                {"spec", json::object()},
                {"status", {{"replicas", status.value("replicas", std::int64_t{0})}}}};
  const auto replicas = job.at("spec").value("replicas", std::int64_t{0});
  if (replicas != 0) scale["spec"]["replicas"] = replicas;
  if (const std::string selector = text_of(status, "selector"); !selector.empty())
    scale["status"]["selector"] = selector;
  return scale;
}

}  // namespace

Object ApiStore::scale(const Object& job) { return std::make_shared<const json>(scale_of(*job)); }

Answer<Object> ApiStore::patch_scale(const ApiTarget& target, const Object& before,
                                     const json& patch) {
  json wanted = scale_of(*before);
  wanted.merge_patch(patch);
  const json spec = wanted.value("spec", json());
  const json replicas = spec.is_object() ? spec.value("replicas", json(0)) : json(0);
  const bool is_count = replicas.is_number_integer() && replicas <= kInt32Max;
  const json meta = wanted.value("metadata", json::object());
  if (!is_count || !wrong_shape_of(meta).empty() || !(spec.is_null() || spec.is_object()))
    return tl::make_unexpected(invalid_patch("json: cannot unmarshal into Go struct Scale"));
  PAWL_VERDICT(check_identity(*target.kind, before->at("metadata"), meta));
  json after = *before;
  after["spec"]["replicas"] = replicas;
  PAWL_ANSWER(written, change(*target.kind, before, std::move(after), false));
  return scale(written);
}

}  // namespace pawl::local
