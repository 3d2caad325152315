#include "operator/controller/signal_table.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <iomanip>
#include <locale>
#include <map>
#include <sstream>

#include "common/base/json.h"

namespace pawl::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr std::int64_t kNoticeSecondsMax = 7 * 24 * 3600;

tl::unexpected<Error> wrong(const std::string& what) { return fail(Code::kInvalid, what); }

const json* array_at(const json& object, const char* child, const char* key) {
  const auto part = object.find(child);
  if (part == object.end() || !part->is_object()) return nullptr;
  const auto list = part->find(key);
  return list == part->end() || !list->is_array() ? nullptr : &*list;
}

std::optional<TimePoint> time_at(const json& object, const char* key) {
  const auto time = parse_time(text_at(object, key));
  return time ? std::optional{*time} : std::nullopt;
}

// The date of RFC 9110 wherever it stands.
std::optional<TimePoint> find_date(const std::string& text) {
  for (const char* day : {"Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, "}) {
    const auto at = text.find(day);
    if (at == std::string::npos) continue;
    std::istringstream in(text.substr(at));
    in.imbue(std::locale::classic());
    std::tm parts{};
    in >> std::get_time(&parts, "%a, %d %b %Y %H:%M:%S GMT");
    if (!in.fail()) return TimePoint{seconds{::timegm(&parts)}};
  }
  return std::nullopt;
}

bool is_as(const json& object, const char* key, const std::optional<std::string>& wanted) {
  return !wanted || text_at(object, key) == *wanted;
}

// What the row's mark is on the node: the taint, the condition, or the annotations.
const json* find_entry(const json* list, const auto& matches) {
  if (list == nullptr) return nullptr;
  const auto found = std::ranges::find_if(*list, matches);
  return found == list->end() ? nullptr : &*found;
}

const json& annotations_of(const json& node) {
  static const json kNone = json::object();
  const auto meta = node.find("metadata");
  if (meta == node.end() || !meta->is_object()) return kNone;
  const auto found = meta->find("annotations");
  return found == meta->end() || !found->is_object() ? kNone : *found;
}

}  // namespace

Result<SignalTable::Row> SignalTable::parse_row(const json& row) {
  if (!row.is_object()) return wrong("is no object");
  Row out;
  const std::map<std::string, std::function<void(const std::string&)>> texts{
      {"taint", [&](const auto& text) { out.key = text; }},
      {"condition",
       [&](const auto& text) {
         out.key = text;
         out.mark = Mark::kCondition;
       }},
      {"annotation",
       [&](const auto& text) {
         out.key = text;
         out.mark = Mark::kAnnotation;
       }},
      {"about", [&](const auto& text) { out.about = text; }},
      {"value", [&](const auto& text) { out.value = text; }},
      {"effect", [&](const auto& text) { out.effect = text; }},
      {"reason", [&](const auto& text) { out.reason = text; }},
      {"deadlineAnnotation", [&](const auto& text) { out.deadline_annotation = text; }}};
  for (const auto& [key, value] : row.items()) {
    if (key == "noticeSeconds") {
      const bool is_time = value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
                           value.get<std::int64_t>() <= kNoticeSecondsMax;
      if (!is_time) return wrong(key + " must be a whole number from 0 to a week");
      out.notice = seconds{value.get<std::int64_t>()};
    } else if (key == "deadlineInMessage") {
      if (!value.is_boolean()) return wrong(key + " must be true or false");
      out.has_deadline_in_message = value.get<bool>();
    } else if (!texts.contains(key)) {
      return wrong("has an unknown field " + key);
    } else if (!value.is_string()) {
      return wrong(key + " must be a text");
    } else {
      texts.at(key)(value.get<std::string>());
    }
  }
  const auto marks = row.contains("taint") + row.contains("condition") + row.contains("annotation");
  if (marks != 1 || out.key.empty())
    return wrong("needs one of taint, condition and annotation, which names it");
  const bool is_condition = out.mark == Mark::kCondition;
  if (out.effect && out.mark != Mark::kTaint) return wrong("effect is of taints only");
  if (out.value && is_condition) return wrong("value is of taints and annotations only");
  if ((out.reason || out.has_deadline_in_message) && !is_condition)
    return wrong("reason and deadlineInMessage are of conditions only");
  return out;
}

Result<SignalTable> SignalTable::parse(const std::string& text) {
  const json list = parse_json(text);
  if (!list.is_array()) return wrong("the table of signals must be a JSON array of rows");
  SignalTable table;
  for (const json& one : list) {
    Result<Row> row = parse_row(one);
    if (!row) {
      return wrong("row " + std::to_string(table.rows_.size() + 1) + " of the signals " +
                   row.error().message + ": " + one.dump());
    }
    table.rows_.push_back(std::move(*row));
  }
  return table;
}

std::optional<core::NodeSignal> SignalTable::match(const Row& row, const json& node,
                                                   TimePoint now) {
  core::NodeSignal signal{.seen_at = now};
  std::optional<TimePoint> since, deadline;
  if (row.mark == Mark::kTaint) {
    const json* taint = find_entry(array_at(node, "spec", "taints"), [&](const json& one) {
      return text_at(one, "key") == row.key && is_as(one, "value", row.value) &&
             is_as(one, "effect", row.effect);
    });
    if (taint == nullptr) return std::nullopt;
    signal.what = "taint " + row.key;
    since = time_at(*taint, "timeAdded");
  } else if (row.mark == Mark::kCondition) {
    const json* condition =
        find_entry(array_at(node, "status", "conditions"), [&](const json& one) {
          return text_at(one, "type") == row.key && text_at(one, "status") == "True" &&
                 is_as(one, "reason", row.reason);
        });
    if (condition == nullptr) return std::nullopt;
    signal.what = "condition " + row.key;
    since = time_at(*condition, "lastTransitionTime");
    if (row.has_deadline_in_message) deadline = find_date(text_at(*condition, "message"));
  } else {
    const json& annotations = annotations_of(node);
    if (!annotations.contains(row.key)) return std::nullopt;
    if (!is_as(annotations, row.key.c_str(), row.value)) return std::nullopt;
    signal.what = "annotation " + row.key;
  }
  if (!row.about.empty()) signal.what += " (" + row.about + ")";
  if (!row.deadline_annotation.empty() && !deadline)
    deadline = time_at(annotations_of(node), row.deadline_annotation.c_str());
  if (!deadline && row.notice && since) deadline = *since + *row.notice;
  signal.is_exact = deadline.has_value();
  if (!deadline && row.notice) deadline = now + *row.notice;
  signal.deadline = deadline;
  return signal;
}

std::optional<core::NodeSignal> SignalTable::read(const json& node, TimePoint now) const {
  std::optional<core::NodeSignal> first;
  for (const Row& row : rows_) {
    auto signal = match(row, node, now);
    if (!signal) continue;
    const auto due = [](const core::NodeSignal& one) {
      return one.deadline.value_or(TimePoint::max());
    };
    if (!first || due(*signal) < due(*first)) first = std::move(signal);
  }
  return first;
}

}  // namespace pawl::controller
