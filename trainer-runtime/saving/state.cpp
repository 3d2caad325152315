#include "trainer-runtime/saving/state.h"

#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/base/json.h"

namespace pawl::saving {
namespace {

constexpr int kArrays = 3;
constexpr const char* kPrefixes[kArrays] = {"", "adamw.moment1.", "adamw.moment2."};

checkpoint::Tensor stored_tensor(const models::Tensor& tensor, int array) {
  checkpoint::Tensor stored{kPrefixes[array] + tensor.name, checkpoint::Dtype::kF32, {}};
  for (const models::Index side : tensor.shape)
    stored.shape.push_back(static_cast<std::uint64_t>(side));
  return stored;
}

}  // namespace

std::string encode_state(const TrainerState& state) {
  const nlohmann::json object = {{"format", 1},
                                 {"step", state.step},
                                 {"cursor", state.cursor},
                                 {"seed", state.seed},
                                 {"optimizer", {{"kind", "adamw"}, {"step", state.step}}},
                                 {"config_hash", state.config_hash},
                                 {"model_hash", state.model_hash},
                                 {"corpus_bytes", state.corpus_bytes},
                                 {"samples", state.samples}};
  return object.dump();
}

Result<TrainerState> decode_state(const std::string& text) {
  const auto object = parse_json(text);
  const auto is_number = [&](const char* name) {
    return object.contains(name) && object[name].is_number_integer();
  };
  const auto is_text = [&](const char* name) {
    return object.contains(name) && object[name].is_string();
  };
  if (!object.is_object() || !is_number("format") || !is_number("step") || !is_number("cursor") ||
      !is_number("seed") || !is_text("config_hash") || !is_text("model_hash")) {
    return fail(Code::kInvalid, "the manifest's trainer part is not one of pawl-train");
  }
  if (object["format"].get<int>() != 1)
    return fail(Code::kInvalid, "the checkpoint is of a newer pawl-train");
  const auto count = [&](const char* name) {
    return is_number(name) ? object[name].get<std::uint64_t>() : 0;
  };
  return TrainerState{object["step"].get<std::int64_t>(),
                      object["cursor"].get<std::uint64_t>(),
                      object["seed"].get<std::uint64_t>(),
                      object["config_hash"].get<std::string>(),
                      object["model_hash"].get<std::string>(),
                      count("corpus_bytes"),
                      count("samples")};
}

Shard::Shard(const std::vector<models::Tensor>& tensors, int rank, int world_size) {
  std::vector<checkpoint::Tensor> all;
  for (int array = 0; array < kArrays; ++array) {
    for (const models::Tensor& tensor : tensors) all.push_back(stored_tensor(tensor, array));
  }
  const std::vector<checkpoint::Piece> pieces = checkpoint::plan_shard(all, rank, world_size);
  auto header = checkpoint::build_header(pieces, {{"format", "pt"}});
  PAWL_CHECK(header.has_value(), "a shard's plan makes no header");
  header_ = *std::move(header);
  // The pieces come in the order of `all`.
  std::size_t next = 0;
  for (const checkpoint::Piece& piece : pieces) {
    while (all[next].name != piece.tensor.name) ++next;
    const models::Tensor& tensor = tensors[next % tensors.size()];
    parts_.push_back(
        {static_cast<int>(next / tensors.size()),
         static_cast<std::size_t>(tensor.offset) + static_cast<std::size_t>(piece.offset),
         static_cast<std::size_t>(piece.elements)});
    data_bytes_ += parts_.back().elements * sizeof(float);
  }
}

void Shard::fill(const optim::TrainingArrays& arrays, std::span<std::byte> out) const {
  PAWL_CHECK(out.size() == bytes(), "a shard's buffer has the wrong size");
  const std::array<const float*, kArrays> sources{arrays.parameters.data(), arrays.moment1.data(),
                                                  arrays.moment2.data()};
  std::memcpy(out.data(), header_.data(), header_.size());
  std::byte* to = out.data() + header_.size();
  for (const Part& part : parts_) {
    std::memcpy(to, sources[static_cast<std::size_t>(part.array)] + part.first,
                part.elements * sizeof(float));
    to += part.elements * sizeof(float);
  }
}

Status load_arrays(const checkpoint::Reader& reader, const std::vector<models::Tensor>& tensors,
                   optim::TrainingArrays& arrays) {
  const std::array<std::span<float>, kArrays> targets{arrays.parameters.span(),
                                                      arrays.moment1.span(), arrays.moment2.span()};
  for (int array = 0; array < kArrays; ++array) {
    for (const models::Tensor& tensor : tensors) {
      const checkpoint::Tensor wanted = stored_tensor(tensor, array);
      const checkpoint::Tensor* found = reader.find(wanted.name);
      if (found == nullptr || *found != wanted) {
        return fail(Code::kInvalid, "the checkpoint is of another model: it has no tensor \"" +
                                        wanted.name + "\" of this shape");
      }
      const auto into = targets[static_cast<std::size_t>(array)].subspan(
          static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.elements));
      PAWL_TRY_VOID(reader.read(wanted.name, 0, std::as_writable_bytes(into)));
    }
  }
  return {};
}

}  // namespace pawl::saving
