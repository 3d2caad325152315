#include <unistd.h>
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <set>
#include <vector>

#include "tests/unit/trainer/samples.h"
#include "trainer-runtime/data/permutation.h"
#include "trainer-runtime/data/text_corpus.h"

using namespace pawl;
using test::Folder;

TEST_CASE("permutation: every epoch is a bijection, and epochs and seeds differ", "[trainer]") {
  for (const std::uint64_t size : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 1000U, 4097U}) {
    std::set<std::uint64_t> seen;
    const data::Permutation permutation(size, 1, 0);
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permutation.at(i));
    CHECK(seen.size() == size);
    CHECK(*seen.rbegin() == size - 1);
  }
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 1000; ++i)
      values.push_back(data::Permutation(1000, seed, epoch).at(i));
    return values;
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(2, 0));
  CHECK(order(1, 0) != order(1, 1));
  const auto first = order(1, 0);
  CHECK(!std::is_sorted(first.begin(), first.end()));
}

TEST_CASE("permutation: one cursor visits each sample exactly once an epoch, across its border",
          "[trainer]") {
  const data::SampleOrder order(37, 5);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t cursor = epoch * 37; cursor < (epoch + 1) * 37; ++cursor) {
      seen.insert(order.sample(cursor));
      CHECK(order.epoch(cursor) == epoch);
    }
    CHECK(seen.size() == 37);
  }
}

TEST_CASE("text_corpus: folders are read in sorted order, and samples cross files", "[trainer]") {
  const Folder folder;
  folder.write("b.txt", "fghij");
  folder.write("a/1.txt", "abc");
  folder.write("a/2.txt", "de");
  folder.write("c.txt", "");
  const std::string last = folder.write("other", "klmnopqrst");
  auto corpus = data::TextCorpus::open(
      {"text", {folder.path() + "/a", folder.path() + "/b.txt", last}, 0.25}, 3);
  REQUIRE(corpus);
  CHECK(corpus->bytes() == 20);
  CHECK(corpus->held_out_bytes() == 5);
  CHECK(corpus->training_samples() == 4);
  CHECK(corpus->held_out_samples() == 1);
  std::vector<std::int32_t> inputs(3), targets(3);
  corpus->training_sample(1, inputs, targets);
  CHECK(inputs == std::vector<std::int32_t>{'d', 'e', 'f'});
  CHECK(targets == std::vector<std::int32_t>{'e', 'f', 'g'});
  corpus->training_sample(3, inputs, targets);
  CHECK(targets == std::vector<std::int32_t>{'k', 'l', 'm'});
  corpus->held_out_sample(0, inputs, targets);
  CHECK(inputs == std::vector<std::int32_t>{'p', 'q', 'r'});
}

TEST_CASE("text_corpus: what is missing or too little is said with its path", "[trainer]") {
  const Folder folder;
  const auto message = [](const DataConfig& config) {
    const auto corpus = data::TextCorpus::open(config, 100);
    return corpus ? std::string("opened") : corpus.error().message;
  };
  CHECK(message({"text", {folder.path() + "/none"}, 0.1}).find("/none does not exist") !=
        std::string::npos);
  CHECK(message({"text", {folder.path()}, 0.1}).find("holds no file") != std::string::npos);
  folder.write("short", "too short");
  CHECK(message({"text", {folder.path()}, 0.1}).find("9 bytes of text") != std::string::npos);
}

// 93, "never again", follows from Invalid: a volume's hiccup must not end a job for good.
TEST_CASE("text_corpus: what may pass is no verdict on the configuration", "[trainer]") {
  for (const int error : {ENOENT, ENOTDIR, EISDIR, EACCES})
    CHECK(data::code_of_file_error(error) == Code::kInvalid);
  for (const int error : {EIO, ESTALE, ETIMEDOUT, EMFILE, ENOMEM, ENXIO})
    CHECK(data::code_of_file_error(error) == Code::kUnavailable);
  const Folder folder;
  const auto code = [](const std::string& path) {
    const auto corpus = data::TextCorpus::open({"text", {path}, 0.1}, 10);
    REQUIRE_FALSE(corpus.has_value());
    return corpus.error().code;
  };
  CHECK(code(folder.path() + "/none") == Code::kInvalid);
  const std::string loop = folder.path() + "/loop";  // an error of stat that is none of the above
  REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);
  CHECK(code(loop) == Code::kUnavailable);
}

TEST_CASE("text_corpus: the bigram entropy is that of the held-out bytes' pairs", "[trainer]") {
  const Folder folder;
  // Held out: "abacabac…": after a comes b or c with equal chance, after b and c always a: half of
  // 1 bit on average.
  std::string text(40'000, 'x');
  for (int i = 0; i < 10'000; ++i) text += "abac";
  const std::string path = folder.write("text", text);
  const auto corpus = data::TextCorpus::open({"text", {path}, 0.5}, 10);
  REQUIRE(corpus);
  CHECK(std::abs(data::bigram_entropy(*corpus) - 0.5) < 1e-4);
}
