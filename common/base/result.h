// Result and Error: how an expected failure travels in Pawl.
//
// Every function that can fail for a reason outside our control returns Result<T>. The code says
// what the caller should do next, not where the failure came from. Pure; any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace pawl {

enum class Code {
  kInvalid,         // the input is wrong: say which field and what to change; never retried
  kNotFound,        // the object does not exist
  kAlreadyExists,   // read it and compare owner UID, attempt and incarnation
  kConflict,        // the resourceVersion moved: read again, decide again
  kGone,            // a watch or a list token expired: list again
  kForbidden,       // no permission; a launcher retries in its first 30 s, nobody else does
  kThrottled,       // retry after retry_after
  kUnavailable,     // not sent, or refused before it took effect: retry with back-off
  kOutcomeUnknown,  // sent, no answer: it may have been applied; observe before anything else
  kCancelled,       // we cancelled it ourselves
  kCorrupt,         // data does not match its checksum
  kIo,              // the operating system refused: message carries errno's text
};

// The name of a code as it stands in logs, e.g. "OutcomeUnknown".
const char* code_name(Code code);

struct Error {
  Code code = Code::kInvalid;
  std::string message;
  std::optional<std::chrono::milliseconds> retry_after = std::nullopt;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::make_unexpected(Error{code, std::move(message), std::nullopt});
}

// Puts context in front of an error's message: "reading manifest.json: " + message.
inline tl::unexpected<Error> fail_with(Error error, const std::string& context) {
  error.message = context + ": " + error.message;
  return tl::make_unexpected(std::move(error));
}

}  // namespace pawl

#define PAWL_CONCAT_INNER(a, b) a##b
#define PAWL_CONCAT(a, b) PAWL_CONCAT_INNER(a, b)

// PAWL_TRY(name, expression): declares `name` with the value, or returns the error.
#define PAWL_TRY(name, expression)                                                      \
  auto PAWL_CONCAT(pawl_result_, __LINE__) = (expression);                              \
  if (!PAWL_CONCAT(pawl_result_, __LINE__))                                             \
    return tl::make_unexpected(std::move(PAWL_CONCAT(pawl_result_, __LINE__)).error()); \
  auto name = std::move(*PAWL_CONCAT(pawl_result_, __LINE__))

// PAWL_TRY_VOID(expression): returns the error, if there is one.
#define PAWL_TRY_VOID(expression)                                                 \
  do {                                                                            \
    auto pawl_status = (expression);                                              \
    if (!pawl_status) return tl::make_unexpected(std::move(pawl_status).error()); \
  } while (false)
