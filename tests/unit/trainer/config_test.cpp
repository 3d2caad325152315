#include <catch2/catch_test_macros.hpp>

#include "trainer-runtime/include/pawl/config.h"
#include "trainer-runtime/trainer/options.h"
#include "trainer-runtime/trainer/standalone.h"

using namespace pawl;

namespace {

std::string complaint(const std::string& text) {
  const auto config = parse_config(text);
  return config ? "accepted" : config.error().message;
}

}  // namespace

TEST_CASE("config: fields have their defaults, and what is given is taken", "[trainer]") {
  const auto config =
      parse_config(R"({"model": {"layers": 2, "tied": true, "weights": "/w"}, "export": "/e",
                                       "data": {"paths": ["/t"]}, "steps": 7,
                                       "optimizer": {"learning_rate": 1}, "seed": 18446744073709551615})");
  REQUIRE(config);
  CHECK(config->model.layers == 2);
  CHECK(config->model.is_tied);
  CHECK(config->model.weights == "/w");
  CHECK(config->export_folder == "/e");
  CHECK(config->model.channels == 128);
  CHECK(config->steps == 7);
  CHECK(config->optimizer.learning_rate == 1);
  CHECK(config->seed == 18446744073709551615U);
  CHECK(format_config(*parse_config(format_config(*config))) == format_config(*config));
}

TEST_CASE("config: what is wrong is named with its path and what to write instead", "[trainer]") {
  const std::string data = R"("data": {"paths": ["/t"]})";
  CHECK(complaint("{") == "the configuration is not JSON");
  CHECK(complaint("[]") == "the configuration must be an object");
  CHECK(complaint("{}") == "data.paths is empty: name the files or folders of the text");
  CHECK(complaint("{" + data + R"(, "model": {"layer": 2}})") ==
        "model.layer is not a field; did you mean \"layers\"?");
  CHECK(complaint("{" + data + R"(, "step": 2})") ==
        "step is not a field; did you mean \"steps\"?");
  CHECK(complaint("{" + data + R"(, "optimiser": {}})") ==
        "optimiser is not a field; did you mean \"optimizer\"?");
  CHECK(complaint("{" + data + R"(, "steps": 0})") ==
        "steps must be a whole number from 1 to 1000000000000");
  CHECK(complaint("{" + data + R"(, "steps": "7"})") ==
        "steps must be a whole number from 1 to 1000000000000");
  CHECK(complaint("{" + data + R"(, "seed": -1})") == "seed must be a whole number, 0 or more");
  CHECK(complaint("{" + data + R"(, "model": {"kind": "bert"}})") ==
        "model.kind is \"bert\" but must be one of: gpt, mlp");
  CHECK(complaint("{" + data + R"(, "model": {"heads": 3}})") ==
        "model.heads must divide model.channels; 128 is not a multiple of 3");
  CHECK(complaint("{" + data + R"(, "batch": {"global": 30}})") ==
        "batch.micro must divide batch.global; 30 is not a multiple of 4");
  CHECK(complaint(R"({"data": {"paths": "/t"}})") ==
        "data.paths must be a list of texts, e.g. [\"/data/text\"]");
  CHECK(complaint("{" + data + R"(, "optimizer": {"learning_rate": -1}})") ==
        "optimizer.learning_rate must be a number from 0.0 to 1000.0");
}

TEST_CASE("config: guards", "[trainer]") {
  CHECK(complaint(R"({"data": {"paths": ["/t"]}, "guard": {"skips_max": 3}})") ==
        "guard.skips_max is for guard.on_bad_step skip alone");
  CHECK(complaint(R"({"data": {"paths": ["/t"]}, "guard": {"spike": 1.2}})") ==
        "guard.spike must be 0, for none, or 1.5 or more: times the usual gradient norm");
  CHECK(complaint(R"({"data": {"paths": ["/t"]}, "guard": {"on_bad_step": "rewind"}})") ==
        "guard.on_bad_step is \"rewind\" but must be one of: fail, skip");
  const auto config = parse_config(
      R"({"data": {"paths": ["/t"]}, "guard": {"on_bad_step": "skip", "skips_max": 3, "spike": 8}})");
  REQUIRE(config);
  const auto again = parse_config(format_config(*config));
  REQUIRE(again);
  CHECK(again->guard.on_bad_step == "skip");
  CHECK(again->guard.skips_max == 3);
  CHECK(again->guard.spike == 8);
}

TEST_CASE("config: an optimizer and a schedule have the fields of their kind", "[trainer]") {
  const auto optimizer = [](const std::string& fields) {
    return complaint(R"({"data": {"paths": ["/t"]}, "optimizer": {)" + fields + "}}");
  };
  CHECK(optimizer(R"("kind": "adam")") ==
        "optimizer.kind is \"adam\" but must be one of: adamw, sgd, lamb, lars");
  CHECK(optimizer(R"("momentum": 0.5)") == "optimizer.momentum is not for optimizer.kind adamw");
  CHECK(optimizer(R"("kind": "sgd", "beta1": 0.5)") ==
        "optimizer.beta1 is not for optimizer.kind sgd");
  CHECK(optimizer(R"("kind": "sgd", "trust": 1)") ==
        "optimizer.trust is not for optimizer.kind sgd");
  CHECK(optimizer(R"("kind": "sgd", "momentum": 0, "nesterov": true)") ==
        "optimizer.nesterov needs an optimizer.momentum above 0");
  CHECK(optimizer(R"("scaling": "sqrt")")
            .starts_with("optimizer.scaling needs optimizer.scaling_batch"));
  CHECK(optimizer(R"("scaling_batch": 8)")
            .starts_with("optimizer.scaling_batch needs optimizer.scaling"));
  CHECK(
      complaint(
          R"({"data": {"paths": ["/t"]}, "schedule": {"warmup_steps": 1, "warmup_tokens": 9}})") ==
      "schedule.warmup_steps is of no use beside schedule.warmup_tokens; give one of them");
  CHECK(complaint(R"({"data": {"paths": ["/t"]}, "schedule": {"decay_fraction": 0.1}})") ==
        "schedule.decay_fraction is for schedule.kind wsd alone");
  for (const char* fields :
       {R"("kind": "sgd", "nesterov": true, "scaling": "linear", "scaling_batch": 8)",
        R"("kind": "lars", "trust": 0.01, "momentum": 0.8)", R"("kind": "lamb", "beta2": 0.999)"}) {
    const auto config = parse_config(
        std::string(R"({"data": {"paths": ["/t"]}, "optimizer": {)") + fields +
        R"(}, "schedule": {"kind": "wsd", "decay_fraction": 0.3, "warmup_tokens": 9000}})");
    REQUIRE(config);
    const auto again = parse_config(format_config(*config));
    REQUIRE(again);
    CHECK(format_config(*again) == format_config(*config));
    CHECK(again->optimizer.is_nesterov == config->optimizer.is_nesterov);
    CHECK(again->optimizer.trust == config->optimizer.trust);
    CHECK(again->schedule.decay_fraction == 0.3);
    CHECK(again->schedule.warmup_tokens == 9000);
  }
  CHECK(parse_config(R"({"data": {"paths": ["/t"]}, "optimizer": {"kind": "sgd"}})")
            ->optimizer.weight_decay == 1e-4);
}

TEST_CASE("config: an export spoils neither what the run begins with nor its data", "[trainer]") {
  struct Case {
    const char *weights, *folder, *told;
  };
  const std::string weights_are = "export must not be where model.weights is",
                    data_are = "export must not be in /d of data.paths";
  CHECK(complaint(R"({"data": {"paths": ["/d"]}, "trace": {"folder": "/d/t/"}})") ==
        "trace.folder must not be in /d of data.paths: it would be read as data");
  CHECK(complaint(R"({"data": {"paths": ["/d"]}, "trace": {"folder": "/t", "steps": 1001}})") ==
        "trace.steps must be a whole number from 1 to 1000");
  for (const Case& c :
       {Case{"/m/w.safetensors", "/m", weights_are.c_str()},
        Case{"/m", "/m/../m/a/..", weights_are.c_str()},
        Case{"model.safetensors", ".", weights_are.c_str()},
        Case{"/m/w.safetensors", "/m/a", "accepted"}, Case{"/m/gpt2", "/m", "accepted"},
        Case{"", "/e", "accepted"}, Case{"", "/d/e", data_are.c_str()},
        Case{"", "/d", data_are.c_str()}, Case{"", "/data", "accepted"}}) {
    INFO(c.weights << " " << c.folder);
    const std::string text =
        std::string(R"({"data": {"paths": ["/d", "x"]}, "model": {"weights": ")") + c.weights +
        R"("}, "export": ")" + c.folder + "\"}";
    const auto config = parse_config(text);
    CHECK((config ? std::string("accepted") : config.error().message).starts_with(c.told));
  }
}

TEST_CASE("config: a model has the fields of its kind, and data to learn from", "[trainer]") {
  const std::string mlp = R"("model": {"kind": "mlp", "inputs": 64, "classes": 10)";
  const std::string csv = R"("data": {"kind": "csv", "paths": ["/t"]})";
  const auto config = parse_config("{" + mlp + R"(, "hidden": [32, 16]}, )" + csv + "}");
  REQUIRE(config);
  CHECK(config->model.hidden == std::vector<std::int64_t>{32, 16});
  CHECK(config->model.context == 1);
  CHECK(format_config(*parse_config(format_config(*config))) == format_config(*config));
  CHECK(model_hash(*config) != model_hash(*parse_config("{" + mlp + "}, " + csv + "}")));
  CHECK(complaint("{" + mlp + R"(, "weights": "/w"}, )" + csv + "}") ==
        "model.weights is not for model.kind mlp");
  CHECK(complaint("{" + mlp + R"(}, "export": "/e", )" + csv + "}") ==
        "export is not for model.kind mlp");
  CHECK(complaint("{" + mlp + R"(, "layers": 2}, )" + csv + "}") ==
        "model.layers is not for model.kind mlp");
  CHECK(complaint("{" + mlp + R"(, "hidden": [0]}, )" + csv + "}") ==
        "model.hidden must be a list of up to 100 whole numbers from 1 to 1000000");
  CHECK(
      complaint("{" + csv + "}") ==
      "model.kind gpt does not learn from data.kind csv; gpt learns from text and tokens, mlp from "
      "csv");
  CHECK(complaint(R"({"model": {"kind": "mlp"}, )" + csv + "}")
            .starts_with("model.inputs and model.classes are needed"));
  CHECK(complaint(R"({"data": {"paths": ["/t"], "label": "x"}})") ==
        "data.label is for data.kind csv alone");
  for (const char* bytes : {"1", "3", "5", "\"2\"", "2.0"}) {
    CHECK(complaint(std::string(R"({"data": {"kind": "tokens", "paths": ["/t"], "token_bytes": )") +
                    bytes + "}}") == "data.token_bytes must be one of: 2, 4");
  }
  CHECK(parse_config(R"({"data": {"kind": "tokens", "paths": ["/t"], "token_bytes": 4}})")
            ->data.token_bytes == 4);
  CHECK(complaint(R"({"data": {"kind": "tokens"}})") ==
        "data.paths is empty: name the files or folders of the tokens");
}

TEST_CASE("config: hashes tell different runs apart and not where the data lies", "[trainer]") {
  TrainerConfig config;
  config.data.paths = {"/a"};
  TrainerConfig elsewhere = config, longer = config, wider = config;
  elsewhere.data.paths = {"/b"};
  elsewhere.model.weights = "/w";
  elsewhere.export_folder = "/e";
  elsewhere.trace = {"/traces", 7, 2};
  longer.steps += 1;
  wider.model.channels *= 2;
  CHECK(config_hash(config) == config_hash(elsewhere));
  CHECK(config_hash(config) != config_hash(longer));
  CHECK(model_hash(config) == model_hash(longer));
  CHECK(model_hash(config) == model_hash(elsewhere));
  CHECK(model_hash(config) != model_hash(wider));
}

TEST_CASE("options: known ones are taken, others refused by name", "[trainer]") {
  const auto options = trainer::parse_options(
      {"--config", "f", "--steps", "12", "--checkpoint-uri", "file:///c", "--run-id", "r"});
  REQUIRE(options);
  CHECK(options->config_path == "f");
  CHECK(options->steps == 12);
  CHECK(options->checkpoint_uri == "file:///c");
  CHECK(options->run_id == "r");
  CHECK(trainer::parse_options({"--stepz", "1"}).error().message.find("--stepz") !=
        std::string::npos);
  CHECK(trainer::parse_options({"--steps"}).error().message == "--steps needs a value");
  CHECK(trainer::parse_options({"--steps", "1x"}).error().message.find("1x") != std::string::npos);
}

TEST_CASE("standalone: torchrun's variables are read, and a wrong one is named", "[trainer]") {
  CHECK(trainer::place_from({})->world_size == 1);
  const std::map<std::string, std::string> good{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}};
  const auto place = trainer::place_from(good);
  REQUIRE(place);
  CHECK(place->rank == 1);
  CHECK(place->world_size == 2);
  CHECK(place->master_port == 29500);
  for (const auto& [name, value] : good) {
    auto bad = good;
    bad[name] = name == "MASTER_ADDR" ? "" : "x";
    const auto refused = trainer::place_from(bad);
    REQUIRE(!refused);
    CHECK(refused.error().message.find(name) != std::string::npos);
  }
}

TEST_CASE("config: what can be sharded", "[trainer]") {
  CHECK(
      complaint(
          R"({"data": {"paths": ["/t"]}, "parallel": {"zero": 1}, "optimizer": {"kind": "lamb"}})") ==
      "parallel.zero 1 is for optimizer.kind adamw and sgd: lamb needs the norm of whole tensors");
  CHECK(complaint(R"({"data": {"paths": ["/t"]}, "parallel": {"zero": 2}})") ==
        "parallel.zero must be one of: 0, 1");
  const auto config = parse_config(R"({"data": {"paths": ["/t"]}, "parallel": {"zero": 1}})");
  REQUIRE(config);
  CHECK(parse_config(format_config(*config))->is_sharded());
}

TEST_CASE("config: what can be compressed, and the hashes of what is not", "[trainer]") {
  const auto with = [](const std::string& rest) {
    return R"({"data": {"paths": ["/t"]}, "parallel": {)" + rest + "}";
  };
  CHECK(complaint(with(R"("compression": "zip"})")) ==
        "parallel.compression is \"zip\" but must be one of: none, bf16, int8, sign, top_k");
  CHECK(complaint(with(R"("compression": "int8", "compression_share": 0.1})")) ==
        "parallel.compression_share is for parallel.compression top_k alone");
  CHECK(complaint(with(R"("compression": "top_k", "compression_share": 0})")) ==
        "parallel.compression_share must be a number from 1e-06 to 1.0");
  CHECK(complaint(with(R"("compression": "sign"}, "determinism": "exact")")) ==
        "parallel.compression sign is not for determinism exact, as its sums depend on the number "
        "of ranks; set one of them to none");
  CHECK(complaint(with(R"("compression": "bf16", "zero": 1})")) ==
        "parallel.compression bf16 is not for parallel.zero 1, which sums each part on one rank "
        "alone; set parallel.zero to 0 or parallel.compression to none");
  const auto config = parse_config(with(R"("compression": "top_k", "compression_share": 0.5})"));
  REQUIRE(config);
  CHECK(config->is_compressed());
  CHECK(parse_config(format_config(*config))->parallel.compression_share == 0.5);
  const auto hash = [&](const std::string& rest) { return config_hash(*parse_config(with(rest))); };
  // Of a version that did not know of compression.
  CHECK(hash("}") == "2a513571e67f4bd23821f05901f3009150f7285377be79500101f3a29e3fd4f3");
  CHECK(hash(R"("zero": 1})") ==
        "ebab43d73a0fb65b6e021600187c48ae1823fe4e6caa3ffedcf326f214191ed8");
  CHECK(hash("}") != hash(R"("compression": "bf16"})"));
  CHECK(config_hash(*config) != hash(R"("compression": "top_k"})"));
}
