#include "common/base/clock.h"

#include <array>
#include <cstdio>
#include <string>

namespace pawl {
namespace {

struct Civil {
  int year, month, day, hour, minute, second, millisecond;
};

Civil civil_from(TimePoint time) {
  const auto day_point = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day_point};
  const std::chrono::hh_mm_ss clock{time - day_point};
  return {static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count()),
          static_cast<int>(clock.subseconds().count())};
}

}  // namespace

std::string format_time(TimePoint time) {
  const Civil at = civil_from(time);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02dZ", at.year, at.month,
                at.day, at.hour, at.minute, at.second);
  return text.data();
}

std::string format_micro_time(TimePoint time) {
  const Civil at = civil_from(time);
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z", at.year,
                at.month, at.day, at.hour, at.minute, at.second, at.millisecond);
  return text.data();
}

Result<TimePoint> parse_time(std::string_view text) {
  const std::string copy{text};
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  const int fields = std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day,
                                 &hour, &minute, &second, &used);
  if (fields != 6) return fail(Code::kInvalid, "not an RFC 3339 time: \"" + copy + "\"");
  int milliseconds = 0;
  auto at = static_cast<std::size_t>(used);
  if (at < copy.size() && copy[at] == '.') {
    int scale = 100;
    for (++at; at < copy.size() && copy[at] >= '0' && copy[at] <= '9'; ++at, scale /= 10) {
      milliseconds += (copy[at] - '0') * scale;
    }
  }
  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  const bool in_range = date.ok() && hour < 24 && minute < 60 && second <= 60;
  if (!in_range || at + 1 != copy.size() || copy[at] != 'Z') {
    return fail(Code::kInvalid, "not an RFC 3339 time in UTC: \"" + copy + "\"");
  }
  return TimePoint{std::chrono::sys_days{date}} + std::chrono::hours{hour} +
         std::chrono::minutes{minute} + std::chrono::seconds{second} +
         std::chrono::milliseconds{milliseconds};
}

}  // namespace pawl
