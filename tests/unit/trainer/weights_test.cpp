// Parameters from GPT-2's files, and back.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "common/base/json.h"
#include "tests/unit/trainer/weights_files.h"
#include "trainer-runtime/weights/gpt2_export.h"
#include "trainer-runtime/weights/gpt2_load.h"

using namespace pawl;
using test::Dtype;
using test::Entry;
using Entries = std::vector<Entry>;

namespace {

TrainerConfig tiny(bool is_tied = false) {
  TrainerConfig config = test::small_config("/no/text");
  config.model.channels = 8;
  config.model.context = 6;
  config.model.vocabulary = 11;
  config.model.is_tied = is_tied;
  return config;
}

Result<std::vector<float>> load(const TrainerConfig& config) {
  const auto model = models::make_model<float>(config);
  std::vector<float> parameters(static_cast<std::size_t>(model->parameter_count()), NAN);
  PAWL_TRY_VOID(weights::load_gpt2(config.model, model->tensors(), parameters));
  return parameters;
}

Result<std::vector<float>> load_file(TrainerConfig config, const Entries& entries) {
  const test::Folder folder;
  config.model.weights = folder.write("m.safetensors", test::safetensors_of(entries));
  return load(config);
}

// What is said of a file that lacks nothing but what `change` does to it.
std::string complaint(const TrainerConfig& config, const std::function<void(Entries&)>& change) {
  Entries entries = test::entries_of(config, 1);
  change(entries);
  const auto loaded = load_file(config, entries);
  if (loaded) return "accepted";
  CHECK(loaded.error().code == Code::kInvalid);
  const std::string& message = loaded.error().message;
  CHECK(message.starts_with("model.weights: "));
  const auto path_end = message.find("m.safetensors: ");
  REQUIRE(path_end != std::string::npos);
  return message.substr(path_end + 15);
}

void take_prefix_off(Entries& entries) {
  for (Entry& entry : entries) {
    if (entry.name.starts_with("transformer.")) entry.name = entry.name.substr(12);
  }
}

void drop(Entries& entries, const std::string& start) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.name.starts_with(start); });
}

}  // namespace

TEST_CASE("weights: parameters come from every type of float, with the prefix and without",
          "[trainer]") {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kF64}) {
    for (const bool has_prefix : {true, false}) {
      INFO(checkpoint::dtype_name(dtype) << has_prefix);
      Entries entries = test::entries_of(tiny(), 1);
      const std::vector<float> wanted = test::values_of(entries);
      for (Entry& entry : entries) entry.dtype = dtype;
      if (!has_prefix) take_prefix_off(entries);
      std::ranges::reverse(entries);  // the order in the file is its own
      entries.push_back({has_prefix ? "transformer.h.0.attn.bias" : "h.0.attn.bias",
                         {1, 1, 6, 6},
                         {},
                         Dtype::kU8});
      entries.push_back({"transformer.h.1.attn.masked_bias", {}, {}});
      const auto loaded = load_file(tiny(), entries);
      REQUIRE(loaded);
      CHECK(*loaded == wanted);
    }
  }
}

TEST_CASE("weights: half precision has subnormal numbers and a sign of zero", "[trainer]") {
  Entries entries = test::entries_of(tiny(), 1);
  Entry& bias = test::entry_of(entries, "transformer.ln_f.bias");
  bias.dtype = Dtype::kF16;
  std::string file = test::safetensors_of(entries);
  const std::uint16_t bits[8] = {0x0001, 0x83ff, 0x0400, 0x7bff, 0x8000, 0xfbff, 0x3c00, 0x0000};
  const float wanted[8] = {std::ldexp(1.0F, -24),
                           -std::ldexp(1023.0F, -24),
                           std::ldexp(1.0F, -14),
                           65504,
                           -0.0F,
                           -65504,
                           1,
                           0};
  // lm_head, of floats, is the last tensor.
  const std::size_t begin = file.size() - sizeof bits - 11 * 8 * sizeof(float);
  std::memcpy(file.data() + begin, bits, sizeof bits);
  const test::Folder folder;
  TrainerConfig config = tiny();
  config.model.weights = folder.write("m", file);
  const auto loaded = load(config);
  REQUIRE(loaded);
  const float* got = loaded->data() + loaded->size() - 11 * 8 - 8;
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(wanted[i]));
  for (const std::uint16_t bad : {0x7c00, 0xfc00, 0x7e00}) {
    std::memcpy(file.data() + begin + 4, &bad, sizeof bad);
    config.model.weights = folder.write("m", file);
    const auto refused = load(config);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kInvalid);
    CHECK(refused.error().message.ends_with(
        "the tensor \"transformer.ln_f.bias\" has numbers that are no finite 32-bit floats"));
  }
}

TEST_CASE("weights: names that are no blocks, and what is no file, are told", "[trainer]") {
  CHECK(complaint(tiny(), [](Entries& entries) {
          entries.push_back({"transformer.h.9223372036854775807.x", {1}, {0}});
        }).find("has the tensor \"transformer.h.9223372036854775807.x\"") == 0);
  const test::Folder folder;
  TrainerConfig config = tiny();
  config.model.weights = folder.path() + "/pipe";
  REQUIRE(::mkfifo(config.model.weights.c_str(), 0600) == 0);
  const auto loaded = load(config);
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().message.find("/pipe") != std::string::npos);
}

TEST_CASE("weights: a folder has one file, or shards that an index names", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = tiny();
  config.model.weights = folder.path();
  const Entries entries = test::entries_of(config, 1);
  const auto said = [&] {
    const auto loaded = load(config);
    if (loaded) return std::string(*loaded == test::values_of(entries) ? "right" : "wrong");
    CHECK(loaded.error().code == Code::kInvalid);
    return loaded.error().message;
  };
  CHECK(said().find("has neither model.safetensors nor model.safetensors.index.json") !=
        std::string::npos);
  const Entries first(entries.begin(), entries.begin() + 9),
      second(entries.begin() + 9, entries.end());
  folder.write("model-00001-of-00002.safetensors", test::safetensors_of(first));
  nlohmann::json map;
  for (const Entry& entry : first) map[entry.name] = "model-00001-of-00002.safetensors";
  for (const Entry& entry : second) map[entry.name] = "model-00002-of-00002.safetensors";
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  CHECK(said().find("model-00002-of-00002.safetensors: errno 2") != std::string::npos);
  folder.write("model-00002-of-00002.safetensors", test::safetensors_of(second));
  CHECK(said() == "right");
  folder.write("model-00002-of-00002.safetensors", test::safetensors_of(entries));
  CHECK(said().find("which is there already") != std::string::npos);
  map["transformer.wte.weight"] = "../x";
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  CHECK(said().find("says of \"transformer.wte.weight\" no file of this folder") !=
        std::string::npos);
  folder.write("model.safetensors", test::safetensors_of(entries));
  CHECK(said() == "right");
}

TEST_CASE("weights: what is wrong is named with its shapes and the key to change", "[trainer]") {
  const auto other_model = [](auto member, std::int64_t value) {
    return [=](Entries& entries) {
      TrainerConfig other = tiny();
      other.model.*member = value;
      entries = test::entries_of(other, 1);
    };
  };
  struct Case {
    std::function<void(Entries&)> change;
    std::string says;
  };
  const std::vector<Case> cases = {
      {[](Entries&) {}, "accepted"},
      {other_model(&ModelConfig::layers, 4),
       "has the tensor \"transformer.h.2.attn.c_attn.bias\" [24], but model.layers is 2; set "
       "model.layers: 4"},
      {other_model(&ModelConfig::layers, 1),
       "has no tensor \"transformer.h.1.ln_1.weight\" [8], as it has 1 blocks and model.layers is "
       "2; set model.layers: 1"},
      {other_model(&ModelConfig::vocabulary, 12),
       "the tensor \"lm_head.weight\" is [12, 8], the model's is [11, 8]; set model.vocabulary: "
       "12"},
      {other_model(&ModelConfig::channels, 16),
       "the tensor \"lm_head.weight\" is [11, 16], the model's is [11, 8]; set model.channels: 16"},
      {other_model(&ModelConfig::context, 5),
       "the tensor \"transformer.wpe.weight\" is [5, 8], the model's is [6, 8]; set model.context "
       "to at most 5"},
      {[](Entries& e) { drop(e, "transformer.h.1.mlp.c_fc.bias"); },
       "has no tensor \"transformer.h.1.mlp.c_fc.bias\" [32], which GPT-2 has"},
      {[](Entries& e) { drop(e, "transformer.h."); },
       "has no tensor \"transformer.h.0.ln_1.weight\" [8], which GPT-2 has"},
      {[](Entries& e) { e.push_back({"score.weight", {2, 8}, {}}); },
       "has the tensor \"score.weight\" [2, 8], which no GPT-2 has"},
      {[](Entries& e) { e.push_back({"wte.weight", {11, 8}, {}}); },
       "has \"transformer.wte.weight\", which is there already"},
      {[](Entries& e) { test::entry_of(e, "transformer.h.0.mlp.c_fc.weight").shape = {32, 8}; },
       "the tensor \"transformer.h.0.mlp.c_fc.weight\" is [32, 8], the model's is [8, 32]; no "
       "GPT-2 of model.channels: 8 has such a one"},
      {[](Entries& e) { test::entry_of(e, "transformer.ln_f.bias").dtype = Dtype::kI32; },
       "the tensor \"transformer.ln_f.bias\" is of I32; it has to be of F32, F16, BF16 or F64"},
  };
  for (const Case& one : cases) CHECK(complaint(tiny(), one.change) == one.says);
}

TEST_CASE("weights: a file that is absent or is none is named", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = tiny();
  const std::string whole = test::safetensors_of(test::entries_of(config, 1));
  const auto said = [&](const std::string& path) {
    config.model.weights = path;
    const auto loaded = load(config);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code == Code::kInvalid);
    CHECK(loaded.error().message.starts_with("model.weights: " + path + ": "));
    return loaded.error().message.substr(17 + path.size());
  };
  CHECK(said("/no/such").starts_with("does not exist"));
  CHECK(said("/dev/null").starts_with("is not a file"));
  CHECK(said(folder.write("short", "1234")).starts_with("is not a safetensors file"));
  CHECK(said(folder.write("text", test::small_text(100))).starts_with("is not a safetensors file"));
  CHECK(said(folder.write("cut", whole.substr(0, whole.size() - 4)))
            .starts_with("is not a safetensors file"));
  const checkpoint::Tensor tensor{"transformer.wte.weight", Dtype::kF32, {11, 8}};
  const auto header = checkpoint::build_header(checkpoint::plan_shard({&tensor, 1}, 0, 2));
  CHECK(said(folder.write("shard", *header + std::string(44 * 4, '\0')))
            .starts_with("has only a part of \"transformer.wte.weight\""));
}

TEST_CASE("weights: positions beyond the context are left out", "[trainer]") {
  TrainerConfig wide = tiny();
  wide.model.context = 9;
  Entries entries = test::entries_of(wide, 1);
  const auto loaded = load_file(tiny(), entries);
  REQUIRE(loaded);
  Entry& positions = test::entry_of(entries, "transformer.wpe.weight");
  positions.values.resize(6 * 8);
  CHECK(*loaded == test::values_of(entries));
}

TEST_CASE("weights: an output layer is the embedding's copy, its own, or one and the same",
          "[trainer]") {
  Entries own = test::entries_of(tiny(), 1), none = own, equal = own;
  drop(none, "lm_head.");
  test::entry_of(equal, "lm_head.weight").values =
      test::entry_of(equal, "transformer.wte.weight").values;
  const auto copied = load_file(tiny(), none);
  REQUIRE(copied);
  CHECK(*copied == test::values_of(equal));
  for (const Entries& entries : {none, equal}) {
    const auto tied = load_file(tiny(true), entries);
    REQUIRE(tied);
    CHECK(*tied == test::values_of(none));
  }
  const auto refused = load_file(tiny(true), own);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kInvalid);
  CHECK(refused.error().message.find("m.safetensors: the tensor \"lm_head.weight\" [11, 8] is not "
                                     "equal to the token embedding \"transformer.wte.weight\" [11, "
                                     "8]; set model.tied: false") != std::string::npos);
}

TEST_CASE("weights: config.json says what no shape shows", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = tiny();
  config.model.weights = folder.path();
  folder.write("model.safetensors", test::safetensors_of(test::entries_of(config, 1)));
  const auto said = [&](const std::string& text) {
    folder.write("config.json", text);
    const auto loaded = load(config);
    if (loaded) return std::string("accepted");
    CHECK(loaded.error().code == Code::kInvalid);
    CHECK(loaded.error().message.starts_with("model.weights: " + folder.path() + "/config.json: "));
    return loaded.error().message.substr(folder.path().size() + 29);
  };
  CHECK(said(R"({"model_type": "gpt2", "n_head": 2, "activation_function": "gelu_new",
                 "layer_norm_epsilon": 1e-05, "scale_attn_weights": true})") == "accepted");
  CHECK(said(R"({"activation_function": "gelu_pytorch_tanh"})") == "accepted");
  CHECK(said(R"({"n_head": 4})") == "n_head is 4, model.heads is 2; set model.heads: 4");
  CHECK(said(R"({"activation_function": "relu"})") ==
        "activation_function is \"relu\", the trainer's blocks have \"gelu_new\"");
  CHECK(said(R"({"layer_norm_epsilon": 1e-06})") ==
        "layer_norm_epsilon is 1e-06, the trainer's blocks have 1e-05");
  CHECK(said(R"({"model_type": "llama"})") == "model_type is \"llama\", not \"gpt2\"");
  CHECK(said(R"({"scale_attn_by_inverse_layer_idx": true})").starts_with("its attention"));
  CHECK(said("{") == "is not a JSON object");
}

TEST_CASE("weights: what is exported is loaded with the same bits", "[trainer]") {
  for (const bool is_tied : {false, true}) {
    const test::Folder folder;
    TrainerConfig config = tiny(is_tied);
    config.model.weights = folder.path() + "/a/b/";
    folder.write("a/b/.tmp-17-00ff00ff00ff00ff", "what a killed export has left");
    folder.write("a/b/.tmp-mine", "");
    folder.write("a/b/.trash-17-00ff/x", "");
    REQUIRE(weights::check_export(config.model.weights));
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(config.model.weights))
      left.push_back(entry.path().filename());
    std::ranges::sort(left);
    CHECK(left == std::vector<std::string>{".tmp-mine", ".trash-17-00ff"});
    const auto model = models::make_model<float>(config);
    std::vector<float> parameters(static_cast<std::size_t>(model->parameter_count()));
    for (const std::uint64_t seed : {7U, 8U}) {  // the second one replaces the first
      models::initialise<float>(model->tensors(), seed, parameters);
      REQUIRE(
          weights::export_gpt2(config.model, model->tensors(), parameters, config.model.weights));
      const auto loaded = load(config);
      REQUIRE(loaded);
      CHECK(*loaded == parameters);
    }
    std::ifstream file(folder.path() + "/a/b/config.json");
    const auto about = nlohmann::json::parse(file);
    CHECK(about["architectures"] == nlohmann::json{"GPT2LMHeadModel"});
    CHECK(about["n_positions"] == 6);
    CHECK(about["vocab_size"] == 11);
    CHECK(about["tie_word_embeddings"] == is_tied);
    CHECK_FALSE(about.contains("eos_token_id"));
    config.model.heads = 4;
    CHECK_FALSE(load(config));
  }
}

TEST_CASE("weights: an export that cannot be is told from one that failed", "[trainer]") {
  const test::Folder folder;
  CHECK(weights::check_export(""));
  for (const std::string& impossible :
       {folder.write("file", "x") + "/below", std::string("/proc/x"),
        folder.path() + "/" + std::string(300, 'x')}) {
    const Status refused = weights::check_export(impossible);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kInvalid);
    CHECK(refused.error().message.starts_with("export: "));
    CHECK(refused.error().message.ends_with("; name a folder that rank 0 can make and write"));
  }
  const TrainerConfig config = tiny();
  const auto model = models::make_model<float>(config);
  const std::vector<float> parameters(static_cast<std::size_t>(model->parameter_count()));
  folder.write("model.safetensors/in-the-way", "x");
  REQUIRE(weights::check_export(folder.path()));
  const Status failed =
      weights::export_gpt2(config.model, model->tensors(), parameters, folder.path());
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == Code::kUnavailable);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/config.json"));
}
