#include "trainer-runtime/saving/state.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/json.h"

namespace pawl::saving {
namespace {

// `state`: "" for the parameter itself.
checkpoint::Tensor stored_tensor(const models::Tensor& tensor, const std::string& state) {
  checkpoint::Tensor stored{
      state.empty() ? tensor.name : state + "." + tensor.name, checkpoint::Dtype::kF32, {}};
  for (const models::Index side : tensor.shape)
    stored.shape.push_back(static_cast<std::uint64_t>(side));
  return stored;
}

// The parameters' part of a tensor's name, and then the states'.
std::vector<std::string> all_arrays(std::vector<std::string> states) {
  states.insert(states.begin(), "");
  return states;
}

const char* const kResidual = "compression.residual";

void put_validated(nlohmann::json& object, const char* name,
                   const std::optional<Validated>& validated) {
  if (!validated) return;
  nlohmann::json& part = object[name] = {{"step", validated->step}, {"loss", validated->loss}};
  if (validated->accuracy) part["accuracy"] = *validated->accuracy;
}

std::optional<Validated> validated_at(const nlohmann::json& object, const char* name) {
  const nlohmann::json& part = member_of(object, name);
  const nlohmann::json &step = member_of(part, "step"), &loss = member_of(part, "loss"),
                       &accuracy = member_of(part, "accuracy");
  if (!step.is_number_integer() || !loss.is_number()) return std::nullopt;
  Validated validated{step.get<std::int64_t>(), loss.get<double>()};
  if (accuracy.is_number()) validated.accuracy = accuracy.get<double>();
  return validated;
}

struct Target {
  std::string array;  // "": the parameters
  std::span<float> into;
  const optim::Ownership& owned;  // what of all elements `into` holds
};

// False: the checkpoint has nothing of it.
Result<bool> load_array(const checkpoint::Reader& reader,
                        const std::vector<models::Tensor>& tensors, const Target& target) {
  const auto is_stored = [&](const models::Tensor& tensor) {
    return reader.find(stored_tensor(tensor, target.array).name) != nullptr;
  };
  if (!target.array.empty() && std::ranges::none_of(tensors, is_stored)) return false;
  for (const models::Tensor& tensor : tensors) {
    const checkpoint::Tensor wanted = stored_tensor(tensor, target.array);
    const checkpoint::Tensor* found = reader.find(wanted.name);
    if (found == nullptr || *found != wanted) {
      return fail(Code::kInvalid, "the checkpoint is of another model: it has no tensor \"" +
                                      wanted.name + "\" of this shape");
    }
    for (const optim::Owned& part :
         target.owned.within(tensor.offset, tensor.offset + tensor.elements)) {
      const auto into = target.into.subspan(static_cast<std::size_t>(part.at),
                                            static_cast<std::size_t>(part.count()));
      PAWL_TRY_VOID(reader.read(wanted.name, static_cast<std::uint64_t>(part.first - tensor.offset),
                                std::as_writable_bytes(into)));
    }
  }
  return true;
}

optim::GuardState guard_at(const nlohmann::json& object) {
  const nlohmann::json& part = member_of(object, "guard");
  const nlohmann::json& usual = member_of(part, "usual_norm");
  const auto count = [&](const char* name) {
    const nlohmann::json& value = member_of(part, name);
    return value.is_number_integer() ? std::max<std::int64_t>(value.get<std::int64_t>(), 0) : 0;
  };
  if (!usual.is_number()) return {};
  return {usual.get<double>(), count("steps"), count("in_row"), count("skipped")};
}

}  // namespace

std::string encode_state(const TrainerState& state) {
  // An older pawl-train knows AdamW alone, from the run's first step on.
  const bool is_old = state.optimizer == "adamw" && state.optimizer_step == state.step;
  nlohmann::json object = {
      {"format", is_old ? 1 : 2},
      {"step", state.step},
      {"cursor", state.cursor},
      {"seed", state.seed},
      {"optimizer", {{"kind", state.optimizer}, {"step", state.optimizer_step}}},
      {"config_hash", state.config_hash},
      {"model_hash", state.model_hash},
      {"corpus_bytes", state.corpus_bytes},
      {"samples", state.samples},
      {"data_form", state.data_form}};
  const optim::GuardState& guard = state.guard;
  object["guard"] = {{"usual_norm", guard.usual_norm},
                     {"steps", guard.steps},
                     {"in_row", guard.in_row},
                     {"skipped", guard.skipped}};
  put_validated(object, "validated", state.validated);
  put_validated(object, "best", state.best);
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
  const auto format = object["format"].get<std::int64_t>();
  if (format != 1 && format != 2)
    return fail(Code::kInvalid, "the checkpoint is of a newer pawl-train");
  const auto count = [&](const char* name) {
    return is_number(name) ? object[name].get<std::uint64_t>() : 0;
  };
  const auto step = object["step"].get<std::int64_t>();
  const nlohmann::json& optimizer = member_of(object, "optimizer");
  const nlohmann::json& updates = member_of(optimizer, "step");
  const bool is_counted = updates.is_number_integer() && updates.get<std::int64_t>() >= 0 &&
                          updates.get<std::int64_t>() <= step;
  return TrainerState{step,
                      object["cursor"].get<std::uint64_t>(),
                      object["seed"].get<std::uint64_t>(),
                      object["config_hash"].get<std::string>(),
                      object["model_hash"].get<std::string>(),
                      count("corpus_bytes"),
                      count("samples"),
                      text_at(optimizer, "kind"),
                      is_counted ? updates.get<std::int64_t>() : 0,
                      text_at(object, "data_form"),
                      validated_at(object, "validated"),
                      validated_at(object, "best"),
                      guard_at(object)};
}

Shard::Shard(const std::vector<models::Tensor>& tensors, const std::vector<std::string>& states,
             int rank, int world_size) {
  std::vector<checkpoint::Tensor> all;
  for (const std::string& array : all_arrays(states)) {
    for (const models::Tensor& tensor : tensors) all.push_back(stored_tensor(tensor, array));
  }
  const std::vector<checkpoint::Piece> pieces = checkpoint::plan_shard(all, rank, world_size);
  begin(pieces);
  // The pieces come in the order of `all`.
  std::size_t next = 0;
  for (const checkpoint::Piece& piece : pieces) {
    while (all[next].name != piece.tensor.name) ++next;
    const models::Tensor& tensor = tensors[next % tensors.size()];
    parts_.push_back(
        {next / tensors.size(),
         static_cast<std::size_t>(tensor.offset) + static_cast<std::size_t>(piece.offset),
         static_cast<std::size_t>(piece.elements)});
  }
}

Shard::Shard(const std::vector<models::Tensor>& tensors, const std::vector<std::string>& states,
             const optim::Ownership& owned) {
  std::vector<checkpoint::Piece> pieces;
  const std::vector<std::string> arrays = all_arrays(states);
  for (std::size_t array = 0; array < arrays.size(); ++array) {
    for (const models::Tensor& tensor : tensors) {
      for (const optim::Owned& part :
           owned.within(tensor.offset, tensor.offset + tensor.elements)) {
        pieces.push_back({stored_tensor(tensor, arrays[array]),
                          static_cast<std::uint64_t>(part.first - tensor.offset),
                          static_cast<std::uint64_t>(part.count())});
        parts_.push_back({array, static_cast<std::size_t>(array == 0 ? part.first : part.at),
                          static_cast<std::size_t>(part.count())});
      }
    }
  }
  begin(pieces);
}

void Shard::begin(const std::vector<checkpoint::Piece>& pieces) {
  auto header = checkpoint::build_header(pieces, {{"format", "pt"}});
  PAWL_CHECK(header.has_value(), "a shard's plan makes no header");
  header_ = *std::move(header);
  for (const checkpoint::Piece& piece : pieces) data_bytes_ += piece.elements * sizeof(float);
}

void Shard::fill(const optim::TrainingArrays& arrays, std::span<std::byte> out) const {
  PAWL_CHECK(out.size() == bytes(), "a shard's buffer has the wrong size");
  std::vector<std::span<const float>> sources = arrays.spans();
  sources.push_back(arrays.residual.values.span());
  const bool has_residual = !parts_.empty() && parts_.back().array + 1 == sources.size();
  PAWL_CHECK(!has_residual || arrays.residual.is_summed,
             "a residual is stored before it is summed");
  std::memcpy(out.data(), header_.data(), header_.size());
  std::byte* to = out.data() + header_.size();
  for (const Part& part : parts_) {
    std::memcpy(to, sources[part.array].data() + part.first, part.elements * sizeof(float));
    to += part.elements * sizeof(float);
  }
}

std::vector<std::string> stored_arrays(const TrainerConfig& config) {
  std::vector<std::string> names = optim::state_names(config.optimizer);
  if (config.is_compressed()) names.emplace_back(kResidual);
  return names;
}

Result<bool> load_arrays(const checkpoint::Reader& reader,
                         const std::vector<models::Tensor>& tensors,
                         const std::vector<std::string>& states, optim::TrainingArrays& arrays) {
  const std::vector<std::string> names = all_arrays(states);
  const std::vector<std::span<float>> targets = arrays.spans();
  const optim::Ownership everything(static_cast<models::Index>(arrays.parameters.size()));
  bool has_states = true;
  for (std::size_t array = 0; array < names.size(); ++array) {
    PAWL_TRY(is_stored,
             load_array(reader, tensors,
                        {names[array], targets[array], array == 0 ? everything : arrays.owned}));
    has_states = has_states && is_stored;
  }
  if (!has_states) {
    for (std::size_t i = 1; i < targets.size(); ++i) std::ranges::fill(targets[i], 0.0F);
  }
  const std::span<float> residual = arrays.residual.values.span();
  if (residual.empty()) return has_states;
  PAWL_TRY(is_stored, load_array(reader, tensors, {kResidual, residual, everything}));
  if (!is_stored) std::ranges::fill(residual, 0.0F);
  arrays.residual.is_summed = is_stored;
  return has_states;
}

}  // namespace pawl::saving
