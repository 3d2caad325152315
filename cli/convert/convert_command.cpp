#include <iostream>

#include "cli/arguments.h"
#include "cli/convert/convert.h"
#include "cli/json_yaml.h"
#include "cli/run/job_file.h"
#include "cli/run/run_command.h"
#include "cli/yaml_json.h"
#include "common/base/json.h"

namespace pawl::cli {
namespace {

using nlohmann::json;

// A List holds several manifests in one document.
void add_manifests(const json& document, std::vector<json>& manifests) {
  const bool is_list = document.is_object() && document.value("kind", json()) == "List" &&
                       document.contains("items") && document["items"].is_array();
  if (!is_list) return manifests.push_back(document);
  for (const json& item : document["items"]) manifests.push_back(item);
}

Result<std::vector<json>> read_manifests(const std::vector<std::string>& files) {
  std::vector<json> manifests;
  for (const std::string& file : files) {
    PAWL_TRY(text, read_text(file));
    auto documents = parse_yaml_documents(text);
    if (!documents) return fail_with(documents.error(), file);
    if (documents->empty()) return fail(Code::kInvalid, file + ": holds no manifest");
    for (const json& document : *documents) add_manifests(document, manifests);
  }
  return manifests;
}

void say(const char* what, const std::vector<Note>& notes) {
  if (notes.empty()) return;
  std::cerr << "  " << what << ":\n";
  for (const Note& note : notes) {
    std::cerr << "    " << note.field << "\n        " << note.why << "\n        -> " << note.instead
              << "\n";
  }
}

void say(const Conversion& conversion) {
  if (conversion.left_out.empty() && conversion.changed.empty()) return;
  std::cerr << conversion.source << "\n";
  say("left out", conversion.left_out);
  say("carried in another form", conversion.changed);
}

int refuse(const std::string& message) {
  std::cerr << "pawl: " << message << "\n";
  return kExitUsage;
}

}  // namespace

int convert_command(const std::vector<std::string>& given) {
  const auto arguments = Arguments::parse(given, {});
  if (!arguments) return refuse(arguments.error().message);
  if (arguments->words().empty()) return refuse("convert: which file? \"-\" is standard input");
  const auto manifests = read_manifests(arguments->words());
  if (!manifests) return refuse(manifests.error().message);
  // All or nothing: half a file in the cluster helps nobody.
  std::string yaml;
  std::vector<Conversion> conversions;
  std::vector<std::string> others;
  for (const json& manifest : *manifests) {
    if (!is_convertible(manifest)) {
      others.push_back(text_at(manifest, "kind") + " of " + text_at(manifest, "apiVersion"));
      continue;
    }
    auto conversion = convert_manifest(manifest);
    if (!conversion) return refuse(conversion.error().message);
    yaml += (yaml.empty() ? "" : "---\n") + write_yaml(conversion->job);
    conversions.push_back(std::move(*conversion));
  }
  if (conversions.empty()) {
    return refuse(
        "there is no PyTorchJob, TrainJob or JobSet in it (kubeflow.org/v1, "
        "trainer.kubeflow.org/v1alpha1, "
        "jobset.x-k8s.io/v1alpha2)");
  }
  std::cout << yaml;
  bool is_whole = others.empty();
  for (const Conversion& conversion : conversions) {
    say(conversion);
    is_whole = is_whole && conversion.left_out.empty();
  }
  for (const std::string& other : others) {
    std::cerr << other << "\n  left out: it is no training job; apply it as it is\n";
  }
  return is_whole ? 0 : kExitLeftOut;
}

}  // namespace pawl::cli
