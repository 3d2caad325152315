#include "cli/convert/convert.h"

#include <array>

#include "cli/convert/draft.h"
#include "common/base/json.h"

namespace pawl::cli {
namespace {

using nlohmann::json;

struct Kind {
  const char* group;
  const char* kind;
  void (*convert)(convert::Draft& draft, convert::Source& manifest);
};

constexpr std::array kKinds = {
    Kind{"kubeflow.org/", "PyTorchJob", convert::convert_pytorch_job},
    Kind{"trainer.kubeflow.org/", "TrainJob", convert::convert_train_job},
    Kind{"jobset.x-k8s.io/", "JobSet", convert::convert_job_set}};

const Kind* find_kind(const json& manifest) {
  for (const Kind& kind : kKinds) {
    if (text_at(manifest, "kind") == kind.kind &&
        text_at(manifest, "apiVersion").starts_with(kind.group)) {
      return &kind;
    }
  }
  return nullptr;
}

}  // namespace

bool is_convertible(const json& manifest) { return find_kind(manifest) != nullptr; }

Result<Conversion> convert_manifest(const json& manifest) {
  const Kind* kind = find_kind(manifest);
  if (kind == nullptr) {
    return fail(Code::kInvalid, "cannot convert " + text_at(manifest, "kind") + " of " +
                                    text_at(manifest, "apiVersion") +
                                    ": give a PyTorchJob, a TrainJob or a JobSet");
  }
  convert::Draft draft;
  draft.source = kind->kind;
  convert::Source source{draft, manifest, ""};
  source.take("apiVersion");
  source.take("kind");
  source.take("status");
  convert::carry_metadata(draft, source);
  kind->convert(draft, source);
  source.finish();
  return draft.finish();
}

}  // namespace pawl::cli
