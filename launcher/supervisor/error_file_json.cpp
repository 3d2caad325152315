#include <fstream>
#include <iterator>

#include "common/base/json.h"
#include "common/base/log.h"
#include "launcher/supervisor/error_file.h"

namespace pawl::launcher {

using nlohmann::json;

std::string read_error_file(const std::string& path) {
  constexpr std::size_t kBytesMax = 64 * 1024, kMessageBytesMax = 400;
  if (path.empty()) return "";
  std::ifstream file(path, std::ios::binary);
  std::string text(kBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const json document = parse_json(text);
  if (!document.is_object() || !document.contains("message")) return "";
  const json& outer = document["message"];
  // Either {"message": "why"} or {"message": {"message": "why", "extraInfo": {…}}}.
  const json& message = outer.is_object() && outer.contains("message") ? outer["message"] : outer;
  if (!message.is_string()) return "";
  std::string line = message.get<std::string>();
  line = line.substr(0, line.find('\n'));
  if (line.size() > kMessageBytesMax) line.resize(kMessageBytesMax);
  return replace_invalid_utf8(line);
}

}  // namespace pawl::launcher
