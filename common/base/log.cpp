#include "common/base/log.h"

#include <array>
#include <cstdio>

namespace pawl {
namespace {

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

// Length of the valid UTF-8 sequence at `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xc2 && lead < 0xe0 ? 2
                                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xed && byte(1) >= 0xa0;
  const bool too_high = lead == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_high ? 0 : length;
}

}  // namespace

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) out += "\xef\xbf\xbd";
    out.append(text.substr(i, length));
    i += length == 0 ? 1 : length;
  }
  return out;
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const char c = text[i];
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
    } else if (length > 1) {
      out.append(text.substr(i, length));
      i += length;
    } else {
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (c == '\n') {
        out += "\\n";
      } else if (static_cast<unsigned char>(c) < 0x20) {
        std::array<char, 8> escape{};
        std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
        out += escape.data();
      } else {
        out += c;
      }
      ++i;
    }
  }
  return out + '"';
}

LogField::LogField(std::string_view k, std::string_view text) : key(k), value(json_quote(text)) {}

void Log::write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (level < level_) return;
  std::string line = "{\"time\":\"" + format_micro_time(clock_.now()) + "\",\"level\":\"" +
                     level_name(level) + "\",\"event\":" + json_quote(event);
  for (const LogField& field : fields) {
    line += "," + json_quote(field.key) + ":" + field.value;
  }
  line += "}\n";
  const std::lock_guard lock(mutex_);
  writer_(line);
}

void Log::debug(std::string_view event, std::initializer_list<LogField> fields) {
  write(LogLevel::kDebug, event, fields);
}
void Log::info(std::string_view event, std::initializer_list<LogField> fields) {
  write(LogLevel::kInfo, event, fields);
}
void Log::warning(std::string_view event, std::initializer_list<LogField> fields) {
  write(LogLevel::kWarning, event, fields);
}
void Log::error(std::string_view event, std::initializer_list<LogField> fields) {
  write(LogLevel::kError, event, fields);
}

}  // namespace pawl
