// One JSON object a line: {"time":…,"level":…,"event":…,"job":…}. Event names are snake_case
// constants, values are strings or integers; no secrets. The writer is a seam: production writes to
// stderr through common/os, tests collect lines. Thread-safe (one lock around the line).
#pragma once

#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/clock.h"

namespace pawl {

struct LogField {
  std::string_view key;
  std::string value;  // already a JSON value
  LogField(std::string_view k, std::string_view text);
  LogField(std::string_view k, const char* text) : LogField(k, std::string_view{text}) {}
  LogField(std::string_view k, const std::string& text) : LogField(k, std::string_view{text}) {}
  template <typename T>
    requires std::is_integral_v<T>
  LogField(std::string_view k, T number) : key(k), value(std::to_string(number)) {}
};

enum class LogLevel { kDebug, kInfo, kWarning, kError };

class Log {
 public:
  using Writer = std::function<void(std::string_view line)>;  // gets the line with its '\n'
  Log(const Clock& clock, Writer writer, LogLevel level = LogLevel::kInfo)
      : clock_(clock), writer_(std::move(writer)), level_(level) {}

  void debug(std::string_view event, std::initializer_list<LogField> fields = {});
  void info(std::string_view event, std::initializer_list<LogField> fields = {});
  void warning(std::string_view event, std::initializer_list<LogField> fields = {});
  void error(std::string_view event, std::initializer_list<LogField> fields = {});

 private:
  void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields);
  const Clock& clock_;
  Writer writer_;
  LogLevel level_;
  std::mutex mutex_;
};

// `text` as a JSON string with its quotes; invalid UTF-8 bytes become U+FFFD.
std::string json_quote(std::string_view text);
// `text` with each byte that is no valid UTF-8 replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace pawl
