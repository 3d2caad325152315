#include "trainer-runtime/weights/gpt2_files.h"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "common/base/json.h"
#include "trainer-runtime/data/dataset.h"

namespace pawl::weights {
namespace {

using nlohmann::json;

constexpr char kIndexFile[] = "model.safetensors.index.json";

std::string full_name(const std::string& name) {
  return name == kHead || name.starts_with(kPrefix) ? name : kPrefix + name;
}

// Masks of the attention, which are no parameters.
bool is_buffer(const std::string& name) {
  return block_of(name) >= 0 &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

Result<json> read_json(const std::string& path) {
  PAWL_TRY(file, InputFile::open(path));
  PAWL_TRY(text, file.text());
  json object = parse_json(text);
  if (!object.is_object()) return wrong(path, "is not a JSON object");
  return object;
}

// What config.json says of things that no tensor's shape shows.
Status check_config(const std::string& path, const ModelConfig& model) {
  PAWL_TRY(object, read_json(path));
  const auto differs = [&](const char* key, const json& wanted) {
    return object.contains(key) && object[key] != wanted;
  };
  const auto says = [&](const char* key) { return std::string(key) + " is " + object[key].dump(); };
  if (differs("model_type", "gpt2")) return wrong(path, says("model_type") + ", not \"gpt2\"");
  if (differs("n_head", model.heads)) {
    return wrong(path, says("n_head") + ", model.heads is " + std::to_string(model.heads) +
                           "; set model.heads: " + object["n_head"].dump());
  }
  if (differs("activation_function", "gelu_new") &&
      differs("activation_function", "gelu_pytorch_tanh")) {
    return wrong(path, says("activation_function") + ", the trainer's blocks have \"gelu_new\"");
  }
  if (object.contains("layer_norm_epsilon")) {
    const json& epsilon = object["layer_norm_epsilon"];
    if (!epsilon.is_number() || std::abs(epsilon.get<double>() - 1e-5) > 1e-9)
      return wrong(path, says("layer_norm_epsilon") + ", the trainer's blocks have 1e-05");
  }
  if (differs("scale_attn_weights", true) || differs("scale_attn_by_inverse_layer_idx", false))
    return wrong(path,
                 "its attention is not scaled as the trainer's, by the width of a head alone");
  return {};
}

// The files that the index names, each once.
Result<std::vector<std::string>> shards_of(const std::filesystem::path& folder) {
  const std::string path = folder / kIndexFile;
  PAWL_TRY(index, read_json(path));
  const json& map = member_of(index, "weight_map");
  if (!map.is_object() || map.empty()) return wrong(path, "has no weight_map");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name.starts_with('.'))
      return wrong(path, "says of \"" + tensor + "\" no file of this folder");
    names.insert(folder / name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::vector<std::string>> files_of(const ModelConfig& model) {
  namespace fs = std::filesystem;
  const fs::path path = model.weights;
  std::error_code error;
  const auto status_of = [&](const fs::path& what) -> Result<fs::file_type> {
    const fs::file_type type = fs::status(what, error).type();
    if (type != fs::file_type::none) return type;
    return fail(data::code_of_file_error(error.value()),
                "model.weights: " + what.string() + ": " + error.message());
  };
  PAWL_TRY(type, status_of(path));
  if (type == fs::file_type::not_found) return wrong(path, "does not exist");
  if (type != fs::file_type::directory) return std::vector<std::string>{path};
  PAWL_TRY(config, status_of(path / kConfigFile));
  if (config != fs::file_type::not_found) PAWL_TRY_VOID(check_config(path / kConfigFile, model));
  PAWL_TRY(whole, status_of(path / kModelFile));
  if (whole != fs::file_type::not_found) return std::vector<std::string>{path / kModelFile};
  PAWL_TRY(index, status_of(path / kIndexFile));
  if (index != fs::file_type::not_found) return shards_of(path);
  return wrong(path, std::string("the folder has neither ") + kModelFile + " nor " + kIndexFile +
                         "; name a safetensors file, or a folder as save_pretrained writes it");
}

Result<checkpoint::Header> header_of(const InputFile& file) {
  const auto not_one = [&](const std::string& why) {
    return wrong(file.path(), "is not a safetensors file: " + why);
  };
  std::array<std::byte, 8> prefix{};
  if (file.bytes() < prefix.size()) return not_one("it has less than 8 bytes");
  PAWL_TRY_VOID(file.read(0, prefix));
  const auto length = checkpoint::header_bytes(prefix, file.bytes());
  if (!length) return not_one(length.error().message);
  std::string text(static_cast<std::size_t>(*length), '\0');
  PAWL_TRY_VOID(file.read(prefix.size(), std::as_writable_bytes(std::span(text))));
  auto header = checkpoint::parse_header(text, file.bytes());
  if (!header) return not_one(header.error().message);
  return header;
}

Status add_file(StoredModel& model, const std::string& path) {
  PAWL_TRY(file, InputFile::open(path));
  PAWL_TRY(header, header_of(file));
  for (checkpoint::StoredPiece& stored : header.pieces) {
    const checkpoint::Tensor& tensor = stored.piece.tensor;
    const std::string name = full_name(tensor.name);
    if (is_buffer(name)) continue;
    if (stored.piece.elements != checkpoint::elements_of(tensor)) {
      return wrong(path, "has only a part of \"" + tensor.name +
                             "\": it is one of several shards of a checkpoint of Pawl");
    }
    if (!model.tensors.try_emplace(name, StoredTensor{model.files.size(), std::move(stored)})
             .second)
      return wrong(path, "has \"" + name + "\", which is there already");
  }
  model.files.push_back(std::move(file));
  return {};
}

}  // namespace

std::int64_t block_of(const std::string& name) {
  static constexpr std::string_view kBlocks = "transformer.h.";
  std::int64_t block = -1;
  if (!name.starts_with(kBlocks)) return block;
  const char* const end = name.data() + name.size();
  const auto [next, error] = std::from_chars(name.data() + kBlocks.size(), end, block);
  // A model has up to 1,000.
  const bool is_one = error == std::errc{} && block < 1'000 && next != end && *next == '.';
  return is_one ? block : -1;
}

Result<StoredModel> open_gpt2(const ModelConfig& config) {
  PAWL_TRY(paths, files_of(config));
  StoredModel model;
  for (const std::string& path : paths) PAWL_TRY_VOID(add_file(model, path));
  return model;
}

}  // namespace pawl::weights
