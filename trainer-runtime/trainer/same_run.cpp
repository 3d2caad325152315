#include "trainer-runtime/trainer/same_run.h"

#include "common/base/hash.h"

namespace pawl::trainer {
namespace {

std::string form_of(const TrainerConfig& config, const data::Dataset& dataset) {
  const std::string digest = dataset.digest();
  return data_form(config.data) + (digest.empty() ? "" : " of digest " + digest);
}

}  // namespace

saving::TrainerState fresh_state(const TrainerConfig& config, const data::Dataset& dataset) {
  return {.seed = config.seed,
          .config_hash = config_hash(config),
          .model_hash = model_hash(config),
          .corpus_bytes = dataset.bytes(),
          .samples = dataset.training_samples(),
          .optimizer = config.optimizer.kind,
          .data_form = form_of(config, dataset)};
}

std::string agreed_hash(const TrainerConfig& config, const data::Dataset& dataset) {
  return sha256_hex(config_hash(config) + " " + std::to_string(dataset.bytes()) + " " +
                    std::to_string(dataset.training_samples()) + dataset.digest() +
                    (config.model.weights.empty() ? "" : " weights"));
}

Status check_same_run(const saving::TrainerState& state, const TrainerConfig& config,
                      const data::Dataset& dataset) {
  if (state.model_hash != model_hash(config))
    return fail(Code::kInvalid, "is of another model configuration");
  if (state.seed != config.seed)
    return fail(Code::kInvalid, "is of another seed: the order of samples would change");
  if (const std::string form = form_of(config, dataset);
      !state.data_form.empty() && state.data_form != form) {
    return fail(Code::kInvalid, "was trained with data " + state.data_form +
                                    ", and is to go on with " + form +
                                    ": the samples would not be the same");
  }
  const std::uint64_t bytes = dataset.bytes(), samples = dataset.training_samples();
  const bool is_known = state.corpus_bytes > 0;
  if (is_known && (state.corpus_bytes != bytes || state.samples != samples)) {
    return fail(Code::kInvalid, "was trained on " + std::to_string(state.corpus_bytes) +
                                    " bytes of data in " + std::to_string(state.samples) +
                                    " samples; with data.paths, data.validation_fraction and "
                                    "model.context as they are there are " +
                                    std::to_string(bytes) + " in " + std::to_string(samples) +
                                    ": the order of samples would change");
  }
  return {};
}

}  // namespace pawl::trainer
