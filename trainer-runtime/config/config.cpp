#include "trainer-runtime/include/pawl/config.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

#include "common/base/json.h"
#include "common/base/nearest.h"
#include "trainer-runtime/config/consistency.h"

namespace pawl {
namespace {

using nlohmann::json;

// Reads the fields of one object and remembers the first thing that is wrong, so that the list of
// fields below stays a list. Fields that nobody asked for are found at the end.
class Reader {
 public:
  Reader(const json& object, std::string path, std::optional<Error>& error)
      : object_(object), path_(std::move(path)), error_(error) {
    if (!object_.is_object())
      complain(path_.empty() ? "the configuration" : path_, "must be an object");
  }

  void read(const char* name, std::string& value) {
    if (const json* found = find(name); found != nullptr) {
      if (!found->is_string()) return complain(full(name), "must be a text");
      value = found->get<std::string>();
    }
  }
  void read(const char* name, bool& value) {
    if (const json* found = find(name); found != nullptr) {
      if (!found->is_boolean()) return complain(full(name), "must be true or false");
      value = found->get<bool>();
    }
  }
  void read(const char* name, std::uint64_t& value) {
    if (const json* found = find(name); found != nullptr) {
      if (!found->is_number_unsigned())
        return complain(full(name), "must be a whole number, 0 or more");
      value = found->get<std::uint64_t>();
    }
  }
  void read(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most) {
    if (const json* found = find(name); found != nullptr) {
      const auto number = whole(*found);
      if (!number || *number < least || *number > most) {
        return complain(full(name), "must be a whole number from " + std::to_string(least) +
                                        " to " + std::to_string(most));
      }
      value = *number;
    }
  }
  void read(const char* name, std::vector<std::int64_t>& value, std::int64_t least,
            std::int64_t most, std::size_t count_max) {
    if (const json* found = find(name); found != nullptr) {
      value.clear();
      const std::string wanted = "must be a list of up to " + std::to_string(count_max) +
                                 " whole numbers from " + std::to_string(least) + " to " +
                                 std::to_string(most);
      if (!found->is_array() || found->size() > count_max) return complain(full(name), wanted);
      for (const json& entry : *found) {
        const auto number = whole(entry);
        if (!number || *number < least || *number > most) return complain(full(name), wanted);
        value.push_back(*number);
      }
    }
  }
  void read(const char* name, double& value, double least, double most) {
    if (const json* found = find(name); found != nullptr) {
      if (!found->is_number() || !(found->get<double>() >= least && found->get<double>() <= most)) {
        return complain(full(name),
                        "must be a number from " + json(least).dump() + " to " + json(most).dump());
      }
      value = found->get<double>();
    }
  }
  void read(const char* name, std::vector<std::string>& value) {
    if (const json* found = find(name); found != nullptr) {
      value.clear();
      const std::string wanted = "must be a list of texts, e.g. [\"/data/text\"]";
      if (!found->is_array()) return complain(full(name), wanted);
      for (const json& entry : *found) {
        if (!entry.is_string()) return complain(full(name), wanted);
        value.push_back(entry.get<std::string>());
      }
    }
  }
  void one_of(const char* name, std::string& value, std::initializer_list<const char*> kinds) {
    read(name, value);
    std::string list;
    for (const char* kind : kinds) {
      if (value == kind) return;
      list += (list.empty() ? "" : ", ") + std::string(kind);
    }
    complain(full(name), "is \"" + value + "\" but must be one of: " + list);
  }
  void one_of(const char* name, std::int64_t& value, std::initializer_list<std::int64_t> numbers) {
    const json* found = find(name);
    if (found == nullptr) return;
    std::string list;
    for (const std::int64_t number : numbers) {
      if (whole(*found) == number) value = number;
      list += (list.empty() ? "" : ", ") + std::to_string(number);
    }
    if (whole(*found) != value) complain(full(name), "must be one of: " + list);
  }
  // A field that there is, but not here.
  void refuse(const char* name, const std::string& why) {
    if (find(name) != nullptr) complain(full(name), why);
  }
  Reader child(const char* name) {
    const json* found = find(name);
    static const json kEmpty = json::object();
    return {found == nullptr ? kEmpty : *found, full(name), error_};
  }
  void finish() {
    if (!object_.is_object()) return;
    for (const auto& [name, value] : object_.items()) {
      bool is_known = false;
      for (const std::string& known : known_) is_known = is_known || known == name;
      if (!is_known)
        complain(full(name), "is not a field; did you mean \"" + nearest(name, known_) + "\"?");
    }
  }

 private:
  static std::optional<std::int64_t> whole(const json& value) {
    if (value.is_number_unsigned()) {
      const auto number = value.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return std::nullopt;
      return static_cast<std::int64_t>(number);
    }
    if (value.is_number_integer()) return value.get<std::int64_t>();
    return std::nullopt;
  }
  const json* find(const char* name) {
    known_.emplace_back(name);
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  std::string full(const std::string& name) const {
    return path_.empty() ? name : path_ + "." + name;
  }
  void complain(const std::string& field, const std::string& what) {
    if (!error_) error_ = Error{Code::kInvalid, field + " " + what};
  }

  const json& object_;
  std::string path_;
  std::optional<Error>& error_;
  std::vector<std::string> known_;
};

constexpr std::int64_t kCountMax = 1'000'000'000'000, kTokensMax = 1'000'000'000'000'000;

void read_model(Reader reader, ModelConfig& model) {
  reader.one_of("kind", model.kind, {"gpt", "mlp"});
  const std::string why = "is not for model.kind " + model.kind;
  if (model.kind == "mlp") {
    model.context = 1;
    reader.read("inputs", model.inputs, 1, 1'000'000);
    reader.read("classes", model.classes, 2, 1'000'000);
    reader.read("hidden", model.hidden, 1, 1'000'000, 100);
    for (const char* name :
         {"layers", "heads", "channels", "context", "vocabulary", "tied", "weights"})
      reader.refuse(name, why);
  } else {
    reader.read("layers", model.layers, 1, 1000);
    reader.read("heads", model.heads, 1, 1024);
    reader.read("channels", model.channels, 1, 65536);
    reader.read("context", model.context, 1, 65536);
    reader.read("vocabulary", model.vocabulary, 2, 1'000'000);
    reader.read("tied", model.is_tied);
    reader.read("weights", model.weights);
    for (const char* name : {"inputs", "classes", "hidden"}) reader.refuse(name, why);
  }
  reader.finish();
}

void read_data(Reader reader, DataConfig& data) {
  reader.one_of("kind", data.kind, {"text", "tokens", "csv"});
  reader.read("paths", data.paths);
  reader.read("validation_fraction", data.validation_fraction, 0, 0.9);
  if (data.kind == "tokens") {
    reader.one_of("token_bytes", data.token_bytes, {2, 4});
  } else {
    reader.refuse("token_bytes", "is for data.kind tokens alone");
  }
  if (data.kind == "csv") {
    reader.read("label", data.label);
    reader.one_of("normalize", data.normalize, {"standard", "none"});
    reader.read("bad_rows_max", data.bad_rows_max, 0, kCountMax);
  } else {
    for (const char* name : {"label", "normalize", "bad_rows_max"})
      reader.refuse(name, "is for data.kind csv alone");
  }
  reader.finish();
}

void read_optimizer(Reader reader, OptimizerConfig& optimizer) {
  reader.one_of("kind", optimizer.kind, {"adamw", "sgd", "lamb", "lars"});
  const bool is_sgd = optimizer.kind == "sgd", is_lars = optimizer.kind == "lars";
  const bool has_moments = !is_sgd && !is_lars;
  if (!has_moments) {
    optimizer.learning_rate = 0.1;
    optimizer.weight_decay = 1e-4;
  }
  const auto read = [&](bool is_of_it, const char* name, auto&... value) {
    if (is_of_it) {
      reader.read(name, value...);
    } else {
      reader.refuse(name, "is not for optimizer.kind " + optimizer.kind);
    }
  };
  constexpr double kZero = 0, kMomentumMax = 0.999999, kLeast = 1e-30, kOne = 1, kMost = 1e3;
  reader.read("learning_rate", optimizer.learning_rate, 0, 1e3);
  read(has_moments, "beta1", optimizer.beta1, kZero, kMomentumMax);
  read(has_moments, "beta2", optimizer.beta2, kZero, kMomentumMax);
  read(!has_moments, "momentum", optimizer.momentum, kZero, kMomentumMax);
  read(is_sgd, "nesterov", optimizer.is_nesterov);
  read(is_lars, "trust", optimizer.trust, kLeast, kMost);
  read(!is_sgd, "epsilon", optimizer.epsilon, kLeast, kOne);
  reader.read("weight_decay", optimizer.weight_decay, 0, 1e3);
  reader.read("clip_norm", optimizer.clip_norm, 0, 1e9);
  reader.one_of("scaling", optimizer.scaling, {"none", "linear", "sqrt"});
  reader.read("scaling_batch", optimizer.scaling_batch, 1, 1'000'000);
  reader.finish();
}

void read_schedule(Reader reader, ScheduleConfig& schedule) {
  reader.one_of("kind", schedule.kind, {"cosine", "linear", "wsd", "constant"});
  reader.read("warmup_tokens", schedule.warmup_tokens, 0, kTokensMax);
  if (schedule.warmup_tokens > 0) {
    reader.refuse("warmup_steps", "is of no use beside schedule.warmup_tokens; give one of them");
  } else {
    reader.read("warmup_steps", schedule.warmup_steps, 0, kCountMax);
  }
  reader.read("final_fraction", schedule.final_fraction, 0, 1);
  if (schedule.kind == "wsd") {
    reader.read("decay_fraction", schedule.decay_fraction, 1e-6, 1);
  } else {
    reader.refuse("decay_fraction", "is for schedule.kind wsd alone");
  }
  reader.finish();
}

void read_guard(Reader reader, GuardConfig& guard) {
  reader.one_of("on_bad_step", guard.on_bad_step, {"fail", "skip"});
  reader.read("spike", guard.spike, 0, 1e6);
  if (guard.on_bad_step == "skip") {
    reader.read("skips_max", guard.skips_max, 1, 1'000'000);
  } else {
    reader.refuse("skips_max", "is for guard.on_bad_step skip alone");
  }
  reader.read("digest_every", guard.digest_every, 0, kCountMax);
  reader.finish();
}

void read_parallel(Reader reader, ParallelConfig& parallel) {
  reader.one_of("zero", parallel.zero, {0, 1});
  reader.one_of("compression", parallel.compression, {"none", "bf16", "int8", "sign", "top_k"});
  if (parallel.compression == "top_k") {
    reader.read("compression_share", parallel.compression_share, 1e-6, 1);
  } else {
    reader.refuse("compression_share", "is for parallel.compression top_k alone");
  }
  reader.finish();
}

void read_rest(Reader& reader, TrainerConfig& config) {
  read_data(reader.child("data"), config.data);
  Reader batch = reader.child("batch");
  batch.read("global", config.batch.global, 1, 1'000'000);
  batch.read("micro", config.batch.micro, 1, 1'000'000);
  batch.one_of("dealing", config.batch.dealing, {"measured", "even"});
  batch.finish();
  read_parallel(reader.child("parallel"), config.parallel);
  read_optimizer(reader.child("optimizer"), config.optimizer);
  read_schedule(reader.child("schedule"), config.schedule);
  read_guard(reader.child("guard"), config.guard);
  Reader trace = reader.child("trace");
  trace.read("folder", config.trace.folder);
  trace.read("first_step", config.trace.first_step, 1, kCountMax);
  trace.read("steps", config.trace.steps, 1, 1000);
  trace.finish();
  reader.one_of("determinism", config.determinism, {"none", "exact"});
  reader.read("steps", config.steps, 1, kCountMax);
  reader.read("seed", config.seed);
  reader.read("validate_every", config.validate_every, 0, kCountMax);
  reader.read("validate_batches", config.validate_batches, 1, 1'000'000);
  reader.read("log_every", config.log_every, 0, kCountMax);
  if (config.model.kind == "gpt") {
    reader.read("export", config.export_folder);
  } else {
    reader.refuse("export", "is not for model.kind " + config.model.kind);
  }
}

}  // namespace

Result<TrainerConfig> parse_config(std::string_view text) {
  const json object = parse_json(text);
  if (object.is_discarded()) return fail(Code::kInvalid, "the configuration is not JSON");
  std::optional<Error> error;
  TrainerConfig config;
  Reader reader(object, "", error);
  read_model(reader.child("model"), config.model);
  read_rest(reader, config);
  reader.finish();
  if (error) return tl::make_unexpected(*std::move(error));
  if (auto message = inconsistency(config)) return fail(Code::kInvalid, *std::move(message));
  return config;
}

}  // namespace pawl
