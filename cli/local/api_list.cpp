// The lists of ApiStore: selectors, pages at one revision, and which revision a client may ask for.
#include <algorithm>
#include <tuple>

#include "cli/local/api_objects.h"
#include "cli/local/api_store.h"
#include "common/base/json.h"

namespace pawl::local {
namespace {

using nlohmann::json;

constexpr char kTokenGone[] =
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder "
    "of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list.";
constexpr char kListGone[] = "The resourceVersion for the provided list is too old.";

// A continue token is opaque to clients: "<revision>/<namespace>/<name>" of the last object shown.
struct ContinueToken {
  std::uint64_t revision = 0;
  std::string ns, name;
};

std::string encode_token(std::uint64_t revision, const ObjectKey& last) {
  return std::to_string(revision) + "/" + last.ns + "/" + last.name;
}

std::optional<ContinueToken> decode_token(const std::string& text) {
  const auto first = text.find('/');
  const auto second = text.find('/', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const auto revision = parse_revision(text.substr(0, first));
  if (!revision) return std::nullopt;
  return ContinueToken{*revision, text.substr(first + 1, second - first - 1),
                       text.substr(second + 1)};
}

struct ListPlan {
  std::uint64_t revision = 0;
  std::uint64_t limit = 0;  // 0: all
  std::optional<ContinueToken> token;
};

StatusError refuse_match(const std::string& why) {
  return invalid_options("ListOptions", {"resourceVersionMatch", why});
}

Verdict check_match(const ApiTarget& target) {
  const std::string match = target.query_value("resourceVersionMatch");
  const std::string version = target.query_value("resourceVersion");
  if (match.empty()) return {};
  if (!target.query_value("continue").empty()) {
    return tl::make_unexpected(
        refuse_match("Forbidden: resourceVersionMatch is forbidden when continue is provided"));
  }
  if (version.empty()) {
    return tl::make_unexpected(refuse_match(
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"));
  }
  if (match != "Exact" && match != "NotOlderThan") {
    return tl::make_unexpected(refuse_match("Unsupported value: \"" + match +
                                            "\": supported values: \"Exact\", \"NotOlderThan\", "
                                            "\"\""));
  }
  if (match == "Exact" && version == "0") {
    return tl::make_unexpected(refuse_match(
        "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
  }
  return {};
}

Answer<std::uint64_t> read_limit(const std::string& text) {
  if (text.empty() || text.front() == '-') return 0;  // a negative one is none
  const auto limit = parse_revision(text);
  if (limit) return *limit;
  return tl::make_unexpected(
      bad_request("strconv.ParseInt: parsing \"" + text + "\": invalid syntax"));
}

// Which revision is shown: with Exact, and with a limit, the one that was asked for, else the
// newest.
Answer<ListPlan> plan_list(const ApiTarget& target, std::uint64_t newest) {
  ListPlan plan;
  plan.revision = newest;
  PAWL_ANSWER(limit, read_limit(target.query_value("limit")));
  plan.limit = limit;
  PAWL_VERDICT(check_match(target));
  const std::string version = target.query_value("resourceVersion");
  const auto asked = parse_revision(version.empty() ? "0" : version);
  if (!asked) {
    return tl::make_unexpected(
        bad_request("invalid resource version: resourceVersion: Invalid value: \"" + version +
                    "\": strconv.ParseUint: parsing \"" + version + "\": invalid syntax"));
  }
  if (const std::string text = target.query_value("continue"); !text.empty()) {
    if (*asked > 0) {
      return tl::make_unexpected(
          bad_request("specifying resource version is not allowed when using continue"));
    }
    plan.token = decode_token(text);
    if (!plan.token)
      return tl::make_unexpected(bad_request("invalid continue token: continue key is not valid"));
    plan.revision = plan.token->revision;
    return plan;
  }
  if (*asked > newest)
    return tl::make_unexpected(too_large_revision(version, std::to_string(newest)));
  const std::string match = target.query_value("resourceVersionMatch");
  const bool is_exact = match == "Exact" || (match.empty() && plan.limit > 0);
  if (*asked > 0 && is_exact) plan.revision = *asked;
  if (!version.empty() && *asked == 0) plan.limit = 0;  // the watch cache shows all it has
  return plan;
}

// Lists of built-in kinds carry no apiVersion and kind in their items; those of custom kinds do.
void append_item(const Kind& kind, const json& object, std::string& text) {
  constexpr auto kReplace = json::error_handler_t::replace;
  if (kind.is_custom) {
    text += object.dump(-1, ' ', false, kReplace);
    return;
  }
  text += '{';
  bool is_first = true;
  for (const auto& [name, value] : object.items()) {
    if (name == "kind" || name == "apiVersion") continue;
    if (!is_first) text += ',';
    is_first = false;
    text += '"' + name + "\":" + value.dump(-1, ' ', false, kReplace);
  }
  text += '}';
}

}  // namespace

Answer<std::string> ApiStore::list(const ApiTarget& target) const {
  const Kind& kind = *target.kind;
  const auto selector = Selector::parse(kind, target.query_value("labelSelector"),
                                        target.query_value("fieldSelector"));
  if (!selector) return tl::make_unexpected(bad_request(selector.error().message));
  PAWL_ANSWER(plan, plan_list(target, store_.revision()));
  std::string items;
  std::uint64_t shown = 0, remaining = 0;
  ObjectKey last;
  const auto visit = [&](const ObjectKey& key, const Object& object) {
    const auto& token = plan.token;
    if (token && std::tie(key.ns, key.name) <= std::tie(token->ns, token->name)) return true;
    if (!selector->matches(*object)) return true;
    if (plan.limit > 0 && shown >= plan.limit) {
      ++remaining;
      // The real server does not count what a selector would pass.
      return selector->is_everything();
    }
    if (shown++ > 0) items += ',';
    append_item(kind, *object, items);
    last = key;
    return true;
  };
  if (!store_.visit_at(kind, target.ns, plan.revision, visit))
    return tl::make_unexpected(expired(plan.token ? kTokenGone : kListGone));
  json meta = {{"resourceVersion", std::to_string(plan.revision)}};
  if (remaining > 0) {
    meta["continue"] = encode_token(plan.revision, last);
    if (selector->is_everything()) meta["remainingItemCount"] = remaining;
  } else if (kind.is_custom) {
    meta["continue"] = "";
  }
  return "{\"kind\":\"" + std::string{kind.name} + "List\",\"apiVersion\":\"" + api_version(kind) +
         "\",\"metadata\":" + meta.dump() + ",\"items\":[" + items + "]}";
}

}  // namespace pawl::local
