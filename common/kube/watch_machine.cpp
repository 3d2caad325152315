#include "common/kube/watch_machine.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/mutant.h"
#include "common/kube/object_text.h"

namespace pawl::kube {

using nlohmann::json;

namespace {

// The metadata of an object, or an empty object.
const json& metadata_of(const json& object) {
  static const json kNone = json::object();
  const auto found = object.is_object() ? object.find("metadata") : object.end();
  return found != object.end() && found->is_object() ? *found : kNone;
}

std::string version_of(const json& object) {
  return text_at(metadata_of(object), "resourceVersion");
}

}  // namespace

WatchMachine::WatchMachine(const InformerOptions& options, const InformerEvents& events)
    : options_(options), events_(events), backoff_(options.backoff_first) {
  PAWL_CHECK(options.can_list || !single_name().empty(),
             "without list the field selector must be metadata.name=<name>");
}

std::string WatchMachine::single_name() const {
  constexpr std::string_view kPrefix = "metadata.name=";
  if (!options_.field_selector.starts_with(kPrefix)) return "";
  return options_.field_selector.substr(kPrefix.size());
}

// The next page of the list, or the single object.
WatchStep WatchMachine::ask() {
  is_listing_ = true;
  if (options_.can_list) {
    ListOptions list;
    list.label_selector = options_.label_selector;
    list.field_selector = options_.field_selector;
    list.continue_token = continue_token_;
    list.limit = options_.page_size;
    asked_ = list_request(options_.resource, options_.ns, list);
  } else {
    asked_ = get_request(options_.resource, options_.ns, single_name());
  }
  return {WatchStep::Kind::kSend, asked_};
}

WatchStep WatchMachine::watch() {
  is_listing_ = false;
  is_productive_ = false;
  line_.clear();
  WatchOptions watch;
  watch.label_selector = options_.label_selector;
  watch.field_selector = options_.field_selector;
  awaits_object_ = is_too_old_;
  if (!is_too_old_) watch.resource_version = resource_version_;
  asked_ = watch_request(options_.resource, options_.ns, watch);
  asked_.timeout = options_.silence_max;
  if (is_mutant(Mutant::kB12SilenceIsCalm)) asked_.timeout = std::chrono::hours{24};
  return {WatchStep::Kind::kStream, asked_};
}

// Waits, then goes on with what was to be done; the delay doubles until a stream brings something.
WatchStep WatchMachine::wait(std::string why,
                             const std::optional<std::chrono::milliseconds>& at_least) {
  const auto delay = std::max(backoff_, at_least.value_or(std::chrono::milliseconds{0}));
  backoff_ = std::min(2 * backoff_, options_.backoff_max);
  return {WatchStep::Kind::kWait, {}, delay, std::move(why)};
}

WatchStep WatchMachine::list_again(std::string why) {
  is_listing_ = true;
  continue_token_.clear();
  listed_.clear();
  items_ = {};
  std::string().swap(page_);
  return wait(std::move(why));
}

// Where we are is too old to go on from.
WatchStep WatchMachine::gone(std::string why) {
  is_too_old_ = !options_.can_list;
  return list_again(std::move(why));
}

WatchStep WatchMachine::on_answer(Result<HttpResponse> answer) {
  if (WatchStep step = flush(); step.kind != WatchStep::Kind::kNone) return step;
  if (!answer) return list_failed(answer.error());
  if (options_.can_list && answer->status == 200) {
    ListText page = split_list(answer->body);
    if (!page.list.is_discarded()) return take_page(std::move(answer->body), page);
  }
  Result<json> body = read_response(asked_, *answer);
  if (!body) return list_failed(body.error());
  return options_.can_list ? list_again("an answer that is no list") : take_single(*body);
}

WatchStep WatchMachine::list_failed(const Error& error) {
  const bool is_passing = error.code == Code::kUnavailable || error.code == Code::kThrottled ||
                          error.code == Code::kCancelled;
  if (is_passing) return wait(error.message, error.retry_after);  // then the same page again
  const bool is_absent = error.code == Code::kNotFound;
  if (is_absent && !options_.can_list) {
    for (const auto& [key, known] : std::exchange(known_, {})) report_vanished(key, known.uid);
    if (events_.on_synced) events_.on_synced(resource_version_);
  }
  // A server that has just begun may not know yet what it serves: what was seen stays.
  if (is_absent && options_.may_be_absent && known_.empty() && events_.on_synced)
    events_.on_synced(resource_version_);
  // Above all 410: the continue token has expired, the pages so far belong to a list that no longer
  // is.
  return list_again(error.message);
}

// `page` is of `text`.
WatchStep WatchMachine::take_page(std::string text, ListText& page) {
  const std::string version = version_of(page.list);
  if (version.empty()) return list_again("a list without a resourceVersion");
  const bool is_first = continue_token_.empty();
  if (is_first) {
    // Another API server that lags behind: what we have is newer (B11).
    if (!is_at_least(version, resource_version_) && !is_mutant(Mutant::kB11BackInTime)) {
      return list_again("the list at " + version + " is older than the view at " +
                        resource_version_);
    }
    list_version_ = version;
    listed_.clear();
  }
  for (json& item : list_at(page.list, "items")) upsert(item);  // where its text was not split
  const std::size_t begin = page.items.empty() ? 0 : page.items.data() - text.data();
  page_ = std::move(text);
  items_ = std::string_view(page_).substr(begin, page.items.size());
  continue_token_ = text_at(metadata_of(page.list), "continue");
  if (!continue_token_.empty()) return ask();
  if (WatchStep step = flush(); step.kind != WatchStep::Kind::kNone) return step;
  return finish_list();
}

WatchStep WatchMachine::flush() {
  while (!items_.empty()) {
    json item = next_item(items_);
    if (item.is_discarded()) return list_again("a list with an item that is not JSON");
    upsert(item);
  }
  std::string().swap(page_);  // and its memory
  return {};
}

WatchStep WatchMachine::take_single(json& object) {
  const std::string version = version_of(object);
  if (version.empty()) return list_again("an object without a resourceVersion");
  // Bookmarks may have brought the view further than the object's last change.
  list_version_ = is_at_least(version, resource_version_) ? version : resource_version_;
  listed_.clear();
  upsert(object);
  return finish_list();
}

WatchStep WatchMachine::finish_list() {
  for (auto known = known_.begin(); known != known_.end();) {
    if (listed_.contains(known->first)) {
      ++known;
    } else {
      if (!is_mutant(Mutant::kB13VanishedIgnored)) {
        report_vanished(known->first, known->second.uid);
      }
      known = known_.erase(known);
    }
  }
  listed_.clear();
  resource_version_ = list_version_;
  if (events_.on_synced) events_.on_synced(resource_version_);
  return watch();
}

WatchStep WatchMachine::on_bytes(std::string_view bytes) {
  while (true) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    WatchStep step;
    if (line_.empty()) {
      step = on_line(bytes.substr(0, end));
    } else {
      line_.append(bytes.substr(0, end));
      const std::string line = std::exchange(line_, {});
      step = on_line(line);
    }
    if (step.kind != WatchStep::Kind::kNone) return step;
    bytes.remove_prefix(end + 1);
  }
  line_.append(bytes);
  if (line_.size() <= kLineBytesMax) return {};
  return wait("a line of the watch is longer than " + std::to_string(kLineBytesMax));
}

WatchStep WatchMachine::on_line(std::string_view line) {
  if (line.empty()) return {};
  if (line.size() > kLineBytesMax) {
    return wait("a line of the watch is longer than " + std::to_string(kLineBytesMax));
  }
  json event = parse_object(line);
  const std::string type = text_at(event, "type");
  if (type.empty() || !event.contains("object")) return wait("a line of the watch is not an event");
  json& object = event["object"];
  if (type == "ERROR") return on_error_event(object);
  const std::string version = version_of(object);
  if (version.empty()) return wait("an event without a resourceVersion");
  if (std::exchange(awaits_object_, false) && type == "BOOKMARK") {
    return list_again("the object was not there when the watch began");
  }
  is_productive_ = true;
  is_too_old_ = false;
  backoff_ = options_.backoff_first;
  if (!is_at_least(version, resource_version_)) return {};  // seen already
  if (type == "ADDED" || type == "MODIFIED") upsert(object);
  if (type == "DELETED") remove(object);
  progress(version);  // BOOKMARK does nothing else
  return {};
}

// Inside a stream that was answered 200 (B13).
WatchStep WatchMachine::on_error_event(const json& status) {
  const std::string message = text_at(status, "message");
  const std::string reason = text_at(status, "reason");
  const bool has_code =
      status.is_object() && status.contains("code") && status["code"].is_number_integer();
  const int code = has_code ? status["code"].get<int>() : 0;
  const std::string why = "the watch said " + std::to_string(code) + " " + reason + ": " + message;
  if (is_mutant(Mutant::kB13GoneIgnored)) return wait(why);
  if (code == 410 || reason == "Expired" || reason == "Gone") return gone(why);
  return wait(why);
}

WatchStep WatchMachine::on_stream_end(const Result<HttpResponse>& end,
                                      std::chrono::milliseconds lived) {
  if (awaits_object_) return list_again("the watch ended before it showed the object");
  const bool was_good = is_productive_ || lived >= kLongLife;
  if (was_good) backoff_ = options_.backoff_first;
  if (end && end->status == 200) return was_good ? watch() : wait("the watch ended at once");
  Error error;
  if (end) {
    const Result<json> body = read_response(asked_, *end);
    error = body ? Error{Code::kUnavailable, "a watch was answered " + std::to_string(end->status)}
                 : body.error();
  } else {
    error = end.error();
  }
  switch (error.code) {
    case Code::kGone:
      return gone(error.message);
    case Code::kThrottled:
    case Code::kUnavailable:
    case Code::kCancelled:
      return wait(error.message, error.retry_after);
    default:
      return list_again(error.message);  // the server does not know or allow it any more
  }
}

void WatchMachine::progress(const std::string& resource_version) {
  resource_version_ = resource_version;
  if (events_.on_progress) events_.on_progress(resource_version_);
}

void WatchMachine::upsert(json& object) {
  const json& metadata = metadata_of(object);
  const Key key{text_at(metadata, "namespace"), text_at(metadata, "name")};
  const std::string uid = text_at(metadata, "uid");
  const std::string version = version_of(object);
  if (key.second.empty() || uid.empty()) return;  // nothing that could be acted on
  if (is_listing_) listed_.insert(key);
  Known& known = known_[key];
  const bool is_older = known.uid == uid && !is_at_least(version, known.version);
  if (is_older && !is_mutant(Mutant::kB11BackInTime)) return;
  if (!known.uid.empty() && known.uid != uid) report_vanished(key, known.uid);
  known = {uid, version};
  // The items of a list do not say what they are; the objects of a watch do.
  const Resource& resource = options_.resource;
  object["kind"] = resource.kind;
  object["apiVersion"] =
      resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
  if (events_.on_upsert) events_.on_upsert(object);
}

void WatchMachine::remove(const json& object) {
  const json& metadata = metadata_of(object);
  const auto known = known_.find({text_at(metadata, "namespace"), text_at(metadata, "name")});
  const bool is_current = known != known_.end() && known->second.uid == text_at(metadata, "uid");
  if (is_current) known_.erase(known);
  if (events_.on_delete) events_.on_delete(object);
}

void WatchMachine::report_vanished(const Key& key, const std::string& uid) const {
  if (!events_.on_delete) return;
  json metadata = {{"name", key.second}, {"uid", uid}};
  if (!key.first.empty()) metadata["namespace"] = key.first;
  events_.on_delete({{"metadata", std::move(metadata)}});
}

}  // namespace pawl::kube
