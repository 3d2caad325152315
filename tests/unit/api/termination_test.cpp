#include <catch2/catch_test_macros.hpp>

#include "common/api/codec.h"
#include "samples.h"

namespace pawl::api {
namespace {

TEST_CASE("termination: what the launcher leaves is what the operator reads", "[api]") {
  const Failure failure = *samples::full_job().status.last_failure;
  const Result<Failure> decoded = decode_termination(encode_termination(failure));
  REQUIRE(decoded.has_value());
  CHECK(*decoded == failure);
}

TEST_CASE("termination: a failure of no known rank", "[api]") {
  const Result<Failure> decoded = decode_termination(encode_termination(Failure{}));
  REQUIRE(decoded.has_value());
  CHECK(*decoded == Failure{});
}

TEST_CASE("termination: at most 4,096 bytes, and the end of the log survives", "[api]") {
  Failure failure;
  failure.message = std::string(5000, '"');       // each becomes two bytes
  failure.log_tail = std::string(3000, '\x01') +  // each becomes six bytes
                     "the very last line";
  const std::string text = encode_termination(failure);
  CHECK(text.size() <= 4096);
  const Result<Failure> decoded = decode_termination(text);
  REQUIRE(decoded.has_value());
  CHECK(decoded->log_tail.ends_with("the very last line"));
}

TEST_CASE("termination: bytes that are not UTF-8 do no harm", "[api]") {
  Failure failure;
  failure.log_tail = std::string("\xFF\xFE ") + std::string(2500, '\x80') + " end";
  const std::string text = encode_termination(failure);
  CHECK(text.size() <= 4096);
  const Result<Failure> decoded = decode_termination(text);
  REQUIRE(decoded.has_value());
  CHECK(decoded->log_tail.ends_with(" end"));
}

TEST_CASE("termination: a foreign message is Invalid", "[api]") {
  for (const char* text : {"", "oops", "{}", "[1]", R"({"pawl":1})", R"({"pawl":1,"failure":3})",
                           R"({"pawl":1,"failure":{"rank":"a"}})"}) {
    INFO(text);
    const Result<Failure> decoded = decode_termination(text);
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().code == Code::kInvalid);
  }
}

}  // namespace
}  // namespace pawl::api
