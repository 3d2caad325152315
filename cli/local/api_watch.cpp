// The watch side of ApiStore: turns the history into the event stream of one selector.
#include <algorithm>

#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

std::string event_line(const char* type, const std::string& object) {
  std::string line = "{\"type\":\"";
  line.reserve(object.size() + 32);
  line.append(type).append("\",\"object\":").append(object).append("}\n");
  return line;
}

std::string event_line(const char* type, const nlohmann::json& object) {
  return event_line(type, object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// An object that begins to match a selector appears as ADDED, one that ceases to as DELETED.
std::string event_of(const Watch& watch, const Change& change) {
  const bool was_shown = change.before != nullptr && watch.selector.matches(*change.before);
  const bool is_shown = !change.is_deletion && watch.selector.matches(*change.after);
  if (is_shown) return event_line(was_shown ? "MODIFIED" : "ADDED", text_of(change));
  if (!was_shown) return {};
  if (change.is_deletion) return event_line("DELETED", text_of(change));
  // It carries the last state that matched, at the revision of the change.
  nlohmann::json last = *change.before;
  last["metadata"]["resourceVersion"] = std::to_string(change.revision);
  return event_line("DELETED", last);
}

}  // namespace

const std::string& text_of(const Change& change) {
  if (change.text.empty()) {
    // Whatever bytes a client stored come back as valid UTF-8.
    change.text = change.after->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return change.text;
}

bool ApiStore::is_watch(const kube::HttpRequest& request) {
  if (request.method != kube::Method::kGet) return false;
  const auto target = parse_target(request.target);
  return target && target->is_watch() && target->name.empty();
}

Answer<Watch> ApiStore::begin_watch(const kube::HttpRequest& request) const {
  const auto target = parse_target(request.target);
  if (!target) return tl::make_unexpected(unknown_path());
  auto selector = Selector::parse(*target->kind, target->query_value("labelSelector"),
                                  target->query_value("fieldSelector"));
  if (!selector) return tl::make_unexpected(bad_request(selector.error().message));
  const std::string version = target->query_value("resourceVersion");
  const auto revision = parse_revision(version.empty() ? "0" : version);
  if (!revision) {
    return tl::make_unexpected(internal("resourceVersion: Invalid value: \"" + version +
                                        "\": strconv.ParseUint: parsing \"" + version +
                                        "\": invalid syntax"));
  }
  Watch watch;
  watch.kind = target->kind;
  watch.ns = target->ns;
  watch.selector = std::move(*selector);
  watch.revision = *revision;
  watch.is_starting = *revision == 0;
  watch.has_bookmarks = target->query_value("allowWatchBookmarks") == "true";
  const auto seconds = parse_revision(target->query_value("timeoutSeconds")).value_or(0);
  watch.timeout_seconds = static_cast<std::int64_t>(std::min<std::uint64_t>(seconds, 86'400));
  return watch;
}

std::string ApiStore::read_watch(Watch& watch, std::uint64_t until) const {
  std::string lines;
  if (watch.is_over) return lines;
  if (watch.is_starting) {
    const bool is_known =
        store_.visit_at(*watch.kind, watch.ns, until, [&](const ObjectKey&, const Object& object) {
          if (watch.selector.matches(*object)) lines += event_line("ADDED", *object);
          return true;
        });
    if (!is_known) return lines;  // a server that lags beyond its own history shows nothing yet
    watch.revision = until;
    watch.is_starting = false;
    return lines;
  }
  if (watch.revision < store_.compacted()) {
    watch.is_over = true;
    return event_line(
        "ERROR",
        encode_status(expired("too old resource version: " + std::to_string(watch.revision) + " (" +
                              std::to_string(store_.compacted()) + ")")));
  }
  const auto& changes = store_.history_of(*watch.kind);
  auto at = std::upper_bound(
      changes.begin(), changes.end(), watch.revision,
      [](std::uint64_t revision, const Change* change) { return revision < change->revision; });
  for (; at != changes.end() && (*at)->revision <= until; ++at) {
    if (!watch.ns.empty() && (*at)->key.ns != watch.ns) continue;
    lines += event_of(watch, **at);
  }
  watch.revision = std::max(watch.revision, until);
  return lines;
}

std::string ApiStore::bookmark(const Watch& watch) const {
  return event_line("BOOKMARK",
                    {{"kind", watch.kind->name},
                     {"apiVersion", api_version(*watch.kind)},
                     {"metadata", {{"resourceVersion", std::to_string(watch.revision)}}}});
}

}  // namespace pawl::local
