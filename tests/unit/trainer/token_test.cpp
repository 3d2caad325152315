#include "trainer-runtime/data/token_corpus.h"

#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "tests/unit/trainer/samples.h"

using namespace pawl;
using test::Folder;

namespace {

std::string encoded(const std::vector<std::uint32_t>& tokens, std::size_t bytes) {
  std::string text;
  for (const std::uint32_t token : tokens) {
    for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(token >> (8 * i) & 0xff);
  }
  return text;
}

std::string llmc_header(std::uint32_t magic, std::uint32_t version, std::uint32_t promised) {
  std::vector<std::uint32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = promised;
  return encoded(header, 4);
}

std::string with_header(const std::vector<std::uint32_t>& tokens, std::uint32_t promised) {
  return llmc_header(20240520, 1, promised) + encoded(tokens, 2);
}

std::vector<std::uint32_t> counted(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TrainerConfig token_config(const std::string& path) {
  TrainerConfig config;
  config.data.kind = "tokens";
  config.data.paths = {path};
  config.data.validation_fraction = 0;
  config.model.context = 4;
  config.model.vocabulary = 60'000;
  return config;
}

struct TokenSample {
  std::vector<std::int32_t> inputs, targets;
};

Result<TokenSample> sample_of(const data::Dataset& corpus, std::uint64_t index,
                              bool is_held_out = false) {
  TokenSample sample{std::vector<std::int32_t>(4), std::vector<std::int32_t>(4)};
  const data::SampleRoom room{sample.inputs, sample.targets, {}};
  PAWL_TRY_VOID(is_held_out ? corpus.read_held_out(index, room)
                            : corpus.read_training(index, room));
  return sample;
}

std::string token_complaint(const TrainerConfig& config) {
  const auto corpus = data::open_dataset(config);
  return corpus ? "accepted" : corpus.error().message;
}

}  // namespace

TEST_CASE("tokens: samples cross files, with and without a header, and the end is held out",
          "[trainer]") {
  const Folder folder;
  std::filesystem::create_directory(folder.path() + "/t");
  folder.write("t/a", encoded(counted(1000, 6), 2));
  folder.write("t/b", "");
  folder.write("t/c", with_header(counted(1006, 3), 3));
  folder.write("t/d", encoded(counted(1009, 9'000), 2));  // more than a piece
  TrainerConfig config = token_config(folder.path() + "/t");
  const auto corpus = data::open_dataset(config);
  REQUIRE(corpus);
  CHECK((*corpus)->training_samples() == 9'008 / 4);
  for (std::uint64_t index = 0; index < (*corpus)->training_samples(); ++index) {
    const auto sample = sample_of(**corpus, index);
    REQUIRE(sample);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(sample->inputs[i] == static_cast<std::int32_t>(1000 + 4 * index + i));
      CHECK(sample->targets[i] == sample->inputs[i] + 1);
    }
  }
  config.data.validation_fraction = 0.5;
  const auto halves = data::open_dataset(config);
  REQUIRE(halves);
  CHECK((*halves)->held_out_samples() == 4'503 / 4);
  CHECK(sample_of(**halves, 0, true)->inputs[0] == 1000 + 4'505);
}

TEST_CASE("tokens: of two and of four bytes, in long samples", "[trainer]") {
  const Folder folder;
  for (const std::int64_t bytes : {2, 4}) {
    TrainerConfig config = token_config(
        folder.write("t", encoded(counted(7, 30'001), static_cast<std::size_t>(bytes))));
    config.data.token_bytes = bytes;
    config.model.context = 30'000;
    const auto corpus = data::open_dataset(config);
    REQUIRE(corpus);
    std::vector<std::int32_t> inputs(30'000), targets(30'000);
    REQUIRE((*corpus)->read_training(0, {inputs, targets, {}}));
    CHECK(inputs.front() == 7);
    CHECK(targets.back() == 30'007);
  }
}

TEST_CASE("tokens: what is wrong is said with its file", "[trainer]") {
  const Folder folder;
  CHECK(token_complaint(token_config(folder.write("t", "12345")))
            .find("no multiple of data.token_bytes") != std::string::npos);
  CHECK(token_complaint(token_config(folder.write("t", with_header(counted(1, 9), 8))))
            .find("says that it has 8 tokens and has 9") != std::string::npos);
  CHECK(token_complaint(token_config(folder.write("t", encoded(counted(1, 4), 2))))
            .find("4 tokens, 0 of them held out, are too few") != std::string::npos);
  CHECK(token_complaint(token_config(folder.path() + "/none")).find("does not exist") !=
        std::string::npos);
  TrainerConfig config = token_config(folder.write("t", encoded(counted(0, 9), 2)));
  config.model.vocabulary = 8;
  CHECK(token_complaint(config).find(
            "/t: token 8 is 8, model.vocabulary is 8, data.token_bytes 2") != std::string::npos);
}

TEST_CASE("tokens: the ends of each file are looked at first, the rest when it is read",
          "[trainer]") {
  const Folder folder;
  folder.write("a", encoded(counted(0, 10), 2));
  std::vector<std::uint32_t> tokens(5'000, 7);
  const auto with_bad = [&](std::size_t at) {
    std::vector<std::uint32_t> changed = tokens;
    changed[at] = 12;
    folder.write("b", encoded(changed, 2));
    TrainerConfig config = token_config(folder.path());
    config.model.vocabulary = 11;
    return config;
  };
  for (const std::size_t at : {0U, 999U, 4'000U, 4'999U}) {
    CHECK(token_complaint(with_bad(at)).find("/b: token " + std::to_string(at) + " is 12") !=
          std::string::npos);
  }
  const auto corpus = data::open_dataset(with_bad(2'000));
  REQUIRE(corpus);
  CHECK(sample_of(**corpus, 501));
  const auto bad = sample_of(**corpus, 502);  // tokens 2,008 to 2,012 of all
  REQUIRE(!bad);
  CHECK(bad.error().code == Code::kInvalid);
  CHECK(bad.error().message.find("/b: token 2000 is 12, model.vocabulary is 11") !=
        std::string::npos);
}

TEST_CASE("tokens: what a validation will look at is looked at first", "[trainer]") {
  const Folder folder;
  std::vector<std::uint32_t> tokens(20'000, 7);
  tokens[15'002] = 12;
  TrainerConfig config = token_config(folder.write("t", encoded(tokens, 2)));
  config.model.vocabulary = 11;
  config.data.validation_fraction = 0.5;
  config.batch.micro = 1;
  config.validate_batches = 10'000;  // all of them
  CHECK(token_complaint(config).find("/t: token 15002 is 12") != std::string::npos);
  config.validate_batches = 2;
  CHECK(data::open_dataset(config));
}

TEST_CASE("tokens: a validation's samples lie at equal distances", "[trainer]") {
  TrainerConfig config;
  config.batch.micro = 2;
  config.validate_batches = 2;
  const auto samples = [&](std::uint64_t held_out) {
    const data::ValidationPlan plan = data::validation_of(config, held_out);
    std::vector<std::uint64_t> out;
    for (std::uint64_t i = 0; i < plan.count; ++i) out.push_back(plan.sample(i));
    return out;
  };
  using Samples = std::vector<std::uint64_t>;
  CHECK(samples(0).empty());
  CHECK(samples(3) == Samples{0, 1, 2});
  CHECK(samples(10) == Samples{0, 2, 5, 7});
  CHECK(samples(std::uint64_t{1} << 63) ==
        Samples{0, std::uint64_t{1} << 61, std::uint64_t{1} << 62, std::uint64_t{3} << 61});
}

TEST_CASE("tokens: the headers of llm.c say how many bytes a token has", "[trainer]") {
  const Folder folder;
  TrainerConfig config =
      token_config(folder.write("t", llmc_header(20240801, 7, 9) + encoded(counted(50'000, 9), 4)));
  config.data.token_bytes = 4;
  const auto corpus = data::open_dataset(config);
  REQUIRE(corpus);
  CHECK(sample_of(**corpus, 1)->targets ==
        std::vector<std::int32_t>{50'005, 50'006, 50'007, 50'008});
  config.data.token_bytes = 2;
  CHECK(token_complaint(config) == "data.token_bytes is 2 but " + folder.path() +
                                       "/t says in its header that its tokens have 4");
  config.data.paths = {folder.write("t", with_header(counted(1, 9), 9))};
  config.data.token_bytes = 4;
  CHECK(token_complaint(config) == "data.token_bytes is 4 but " + folder.path() +
                                       "/t says in its header that its tokens have 2");
  config.data.paths = {folder.write("t", llmc_header(20240801, 8, 9) + encoded(counted(1, 9), 4))};
  CHECK(token_complaint(config).find("only version 7 is known") != std::string::npos);
  config.data.paths = {folder.write("t", llmc_header(20240801, 7, 9).substr(0, 1020))};
  CHECK(token_complaint(config).find("1024 bytes are its header") != std::string::npos);
}
