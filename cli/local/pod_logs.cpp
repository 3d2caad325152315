#include "cli/local/pod_logs.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

#include "cli/local/api_status.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

constexpr char kPlainText[] = "text/plain";

struct Piece {
  std::uint64_t offset = 0;  // in the file
  std::string text;
};

// What the file has from `offset` on, but no more than kLogBytesMax: the newest of it, or the
// first. Nothing if there is no such file.
enum class Which { kNewest, kFirst };
std::optional<Piece> read_log(const std::string& path, std::uint64_t offset, Which which) {
  std::ifstream file{path, std::ios::binary | std::ios::ate};
  if (!file) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(file.tellg(), 0));
  Piece piece{offset, {}};
  if (size <= offset) return piece;
  const std::uint64_t length = std::min<std::uint64_t>(size - offset, kLogBytesMax);
  if (which == Which::kNewest) piece.offset = size - length;
  piece.text.resize(length);
  file.seekg(static_cast<std::streamoff>(piece.offset));
  file.read(piece.text.data(), static_cast<std::streamsize>(length));
  piece.text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return piece;
}

std::string_view last_lines(std::string_view text, std::size_t count) {
  if (count == 0) return {};
  std::size_t begin = text.ends_with('\n') ? text.size() - 1 : text.size();
  while (begin > 0) {
    if (text[begin - 1] == '\n' && --count == 0) break;
    --begin;
  }
  return text.substr(begin);
}

void refuse_log(const http::Reply& reply, const StatusError& error) {
  const kube::HttpResponse response = response_of(error);
  reply.respond(http::Response{response.status, "application/json", response.body});
}

}  // namespace

void PodLogs::serve(const ApiTarget& target, const http::Reply& reply) {
  const std::string tail = target.query_value("tailLines");
  std::size_t lines = 0;
  const char* end = tail.data() + tail.size();
  const auto [stop, error] = std::from_chars(tail.data(), end, lines);
  if (!tail.empty() && (error != std::errc{} || stop != end)) {
    return refuse_log(reply, bad_request("tailLines must be a whole number, 0 or more"));
  }
  // A name comes decoded, so that it could hold a path.
  const bool is_name = target.name.find('/') == std::string::npos;
  const std::string path = is_name ? file_of_(target.name) : "";
  const auto piece = read_log(path, 0, Which::kNewest);
  if (!piece) {
    return refuse_log(reply, bad_request("the container of pod \"" + target.name +
                                         "\" is waiting to start, or there is no such pod"));
  }
  std::string_view shown = piece->text;
  const auto line_end = shown.find('\n');
  if (piece->offset > 0 && line_end != shown.npos) shown.remove_prefix(line_end + 1);
  if (!tail.empty()) shown = last_lines(shown, lines);
  if (target.query_value("follow") != "true") {
    return reply.respond(http::Response{200, kPlainText, std::string{shown}});
  }
  Follower follower{target.name, piece->offset + piece->text.size(),
                    reply.start_stream(http::Response{200, kPlainText, {}})};
  follower.stream->write(std::string{shown});
  const std::lock_guard lock{mutex_};
  followers_.push_back(std::move(follower));
}

bool PodLogs::has_followers() const {
  const std::lock_guard lock{mutex_};
  return !followers_.empty();
}

void PodLogs::feed(const std::function<bool(const std::string& pod_name)>& has_ended) {
  const std::lock_guard lock{mutex_};
  std::erase_if(followers_, [&](Follower& follower) {
    if (!follower.stream->is_open()) return true;  // the client has gone
    // Asked first: what is read afterwards is all that there will be.
    const bool is_last = has_ended(follower.pod_name);
    const auto piece = read_log(file_of_(follower.pod_name), follower.offset, Which::kFirst);
    const std::size_t bytes = piece ? piece->text.size() : 0;
    if (bytes > 0) follower.stream->write(piece->text);
    follower.offset += bytes;
    const bool is_over = is_last && bytes < kLogBytesMax;
    if (is_over) follower.stream->close();
    return is_over;
  });
}

}  // namespace pawl::local
