#include "trainer-runtime/weights/gpt2_export.h"

#include <array>
#include <filesystem>
#include <regex>
#include <vector>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/checkpoint/safetensors.h"
#include "common/store/file_store.h"
#include "trainer-runtime/weights/gpt2_files.h"

namespace pawl::weights {
namespace {

// GPT-2's own token for the beginning and the end of a text.
constexpr std::int64_t kEndOfText = 50256;

store::FileStore store_at(const std::string& folder) {
  std::error_code ignored;  // without a working folder the relative path fails where it is used
  std::string root = std::filesystem::absolute(folder, ignored).lexically_normal();
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  return {store::make_posix_file_system(), std::move(root)};
}

// What an export that was killed has left: FileStore's temporary files, as large as the model. No
// other process exports while this one begins.
void remove_leftovers(const std::string& folder) {
  static const std::regex kTemporary(R"(\.tmp-[0-9]+-[0-9a-f]+)");
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (std::regex_match(entry->path().filename().string(), kTemporary))
      found.push_back(entry->path());
  }
  for (const auto& path : found) std::filesystem::remove(path, error);
}

std::string config_text(const ModelConfig& model) {
  nlohmann::ordered_json object = {{"architectures", {"GPT2LMHeadModel"}},
                                   {"model_type", "gpt2"},
                                   {"n_layer", model.layers},
                                   {"n_head", model.heads},
                                   {"n_embd", model.channels},
                                   {"n_positions", model.context},
                                   {"n_ctx", model.context},
                                   {"vocab_size", model.vocabulary},
                                   {"activation_function", "gelu_new"},
                                   {"layer_norm_epsilon", 1e-5},
                                   {"tie_word_embeddings", model.is_tied},
                                   {"resid_pdrop", 0.0},
                                   {"embd_pdrop", 0.0},
                                   {"attn_pdrop", 0.0},
                                   {"torch_dtype", "float32"}};
  if (model.vocabulary > kEndOfText) {
    object["bos_token_id"] = kEndOfText;
    object["eos_token_id"] = kEndOfText;
  }
  return object.dump(2) + "\n";
}

std::string header_of(const std::vector<models::Tensor>& tensors) {
  std::vector<checkpoint::Piece> pieces;
  models::Index end = 0;
  for (const models::Tensor& tensor : tensors) {
    PAWL_CHECK(tensor.offset == end, "the tensors do not lie one behind the other");
    end += tensor.elements;
    pieces.push_back(
        {{tensor.name, checkpoint::Dtype::kF32, {tensor.shape.begin(), tensor.shape.end()}},
         0,
         static_cast<std::uint64_t>(tensor.elements)});
  }
  auto header = checkpoint::build_header(pieces, {{"format", "pt"}});
  PAWL_CHECK(header.has_value(), "a model's tensors make no header");
  return *std::move(header);
}

}  // namespace

Status check_export(const std::string& folder) {
  if (folder.empty()) return {};
  constexpr char kTrial[] = "pawl-export-trial";
  store::FileStore store = store_at(folder);
  const Status tried = store.put(kTrial, {}, true);
  if (tried) {
    std::error_code ignored;
    std::filesystem::remove(std::filesystem::path(folder) / kTrial, ignored);
    remove_leftovers(folder);
    return {};
  }
  const Code code = tried.error().code;
  const bool may_pass = code == Code::kIo || code == Code::kOutcomeUnknown;
  return fail(may_pass ? Code::kUnavailable : Code::kInvalid,
              "export: " + tried.error().message +
                  (may_pass ? "" : "; name a folder that rank 0 can make and write"));
}

Status export_gpt2(const ModelConfig& config, const std::vector<models::Tensor>& tensors,
                   std::span<const float> parameters, const std::string& folder) {
  store::FileStore store = store_at(folder);
  const std::string header = header_of(tensors), about = config_text(config);
  const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(header)),
                                                        std::as_bytes(parameters)};
  Status written = store.put_parts(kModelFile, parts, true);
  if (written) written = store.put(kConfigFile, std::as_bytes(std::span(about)), true);
  if (!written) return fail(Code::kUnavailable, "export: " + written.error().message);
  return {};
}

}  // namespace pawl::weights
