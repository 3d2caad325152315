#include "cli/logs/log_lines.h"

#include <utility>

namespace pawl::cli {
namespace {
// A longer line (a progress bar that never ends one) is passed on in parts.
constexpr std::size_t kLineBytesMax = 64 * 1024;
}  // namespace

std::string LogLines::line(std::size_t source, std::string text) const {
  const LogSource& from = sources_[source];
  if (from.only_rank && !is_line_of(text, *from.only_rank)) return "";
  return from.prefix + std::move(text);
}

std::string LogLines::add(std::size_t source, std::string_view bytes) {
  std::string& rest = rests_[source];
  std::string out;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    rest.append(bytes.substr(0, end));
    if (end == std::string_view::npos) break;
    out += line(source, std::exchange(rest, {}) + "\n");
    bytes.remove_prefix(end + 1);
  }
  if (rest.size() > kLineBytesMax) out += line(source, std::exchange(rest, {}) + "\n");
  return out;
}

std::string LogLines::finish(std::size_t source) {
  if (rests_[source].empty()) return "";
  return line(source, std::exchange(rests_[source], {}) + "\n");
}

}  // namespace pawl::cli
