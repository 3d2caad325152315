#include "cli/text.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace pawl::cli {
namespace {

constexpr std::int64_t kMinute = 60, kHour = 3600, kDay = 86'400;

std::string two_digits(std::int64_t number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

// What the terminal shows: bytes that continue a character take no place.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

template <typename... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

}  // namespace

std::string format_seconds(std::int64_t seconds) {
  seconds = std::max<std::int64_t>(seconds, 0);
  if (seconds < kMinute) return std::to_string(seconds) + "s";
  if (seconds < kHour)
    return std::to_string(seconds / kMinute) + "m" + two_digits(seconds % kMinute) + "s";
  if (seconds < kDay)
    return std::to_string(seconds / kHour) + "h" + two_digits(seconds % kHour / kMinute) + "m";
  return std::to_string(seconds / kDay) + "d" + two_digits(seconds % kDay / kHour) + "h";
}

std::string age_text(const std::optional<TimePoint>& time, TimePoint now) {
  if (!time) return "-";
  return format_seconds(std::chrono::floor<std::chrono::seconds>(now - *time).count());
}

std::string short_number(const std::string& text) {
  double number = 0;
  if (std::sscanf(text.c_str(), "%lf", &number) != 1) return text;
  return number >= 100 ? print("%.0f", number) : print("%.3g", number);
}

std::string loss_text(const std::string& text) {
  double number = 0;
  if (std::sscanf(text.c_str(), "%lf", &number) != 1) return "-";
  return print("%.4f", number);
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= 1024 && unit + 1 < kUnits.size()) {
    number /= 1024;
    ++unit;
  }
  return print(unit == 0 ? "%.0f %s" : "%.1f %s", number, kUnits[unit]);
}

std::string count_text(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::string& indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    text += indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - width_of(row[i]) + 2, ' ');
    }
    text += "\n";
  }
  return text;
}

}  // namespace pawl::cli
