// Small readings of Kubernetes objects that several parts of the embedded API share. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/local/api_status.h"
#include "cli/local/object_store.h"
#include "common/base/json.h"

namespace pawl::local {

// "" where the field is absent or no string.
std::string text_of(const nlohmann::json& object, const char* field);
std::string meta_text(const nlohmann::json& object, const char* field);
// Whether two versions differ in metadata and status at most. What a generation does not count.
bool has_same_content(const nlohmann::json& one, const nlohmann::json& other);
bool has_finalizer(const nlohmann::json& object, const std::string& finalizer);
bool has_any_finalizer(const nlohmann::json& object);
void drop_finalizer(nlohmann::json& object, const std::string& finalizer);
bool is_deleting(const nlohmann::json& object);
void raise_generation(nlohmann::json& object);
// The revision in a text, empty for one that is no number.
std::optional<std::uint64_t> parse_revision(const std::string& text);
// The body of a request as a JSON object; 400 otherwise.
Answer<nlohmann::json> parse_body(const std::string& body);
ObjectKey key_of(const Kind& kind, const nlohmann::json& object);

inline constexpr char kFinalizerOrphan[] = "orphan";
inline constexpr char kFinalizerForeground[] = "foregroundDeletion";

// PAWL_TRY for an Answer.
#define PAWL_ANSWER(name, expression)                                                   \
  auto PAWL_CONCAT(pawl_answer_, __LINE__) = (expression);                              \
  if (!PAWL_CONCAT(pawl_answer_, __LINE__))                                             \
    return tl::make_unexpected(std::move(PAWL_CONCAT(pawl_answer_, __LINE__)).error()); \
  auto name = std::move(*PAWL_CONCAT(pawl_answer_, __LINE__))

// PAWL_TRY_VOID for a Verdict.
#define PAWL_VERDICT(expression)                                                    \
  do {                                                                              \
    auto pawl_verdict = (expression);                                               \
    if (!pawl_verdict) return tl::make_unexpected(std::move(pawl_verdict).error()); \
  } while (false)

}  // namespace pawl::local
