#include "launcher/membership/message.h"

#include <type_traits>
#include <utility>

#include "common/api/codec.h"
#include "common/base/json.h"

namespace pawl::membership {
namespace {

using nlohmann::json;

// Every message lists its fields once, for both directions. Compound fields have a pair of
// functions of their own: to_field(value) and from_field(json, value).
template <typename T>
json to_field(const T& value) {
  return value;
}
template <typename T>
void from_field(const json& text, T& value) {
  value = text.get<T>();
}
json to_field(const api::MemberRef& ref) { return {{"uid", ref.uid}, {"start", ref.start}}; }
void from_field(const json& text, api::MemberRef& ref) {
  ref.uid = text.at("uid").get<std::string>();
  ref.start = text.at("start").get<std::string>();
}
json to_field(const api::Failure& failure) { return api::encode_termination(failure); }
void from_field(const json& text, api::Failure& failure) {
  auto decoded = api::decode_termination(text.get<std::string>());
  if (decoded) failure = std::move(*decoded);
}
json to_field(const api::WorkerGroup& group) { return api::encode_worker_group(group); }
void from_field(const json& text, api::WorkerGroup& group) {
  auto decoded = api::decode_worker_group(text);
  if (decoded) group = std::move(*decoded);
}
json to_field(const api::channel::Report& report) {
  return api::channel::encode(api::channel::FromProcess{report});
}
void from_field(const json& text, api::channel::Report& report) {
  const auto decoded = api::channel::decode_from_process(text.get<std::string>());
  if (decoded && std::holds_alternative<api::channel::Report>(*decoded)) {
    report = std::get<api::channel::Report>(*decoded);
  }
}
json to_field(const std::vector<Holding>& held) {
  json list = json::array();
  for (const Holding& one : held) list.push_back({one.generation, one.step});
  return list;
}
void from_field(const json& text, std::vector<Holding>& held) {
  for (const json& one : text)
    held.push_back({one.at(0).get<std::int64_t>(), one.at(1).get<std::int64_t>()});
}
json to_field(const StopReason& reason) { return stop_reason_name(reason); }
void from_field(const json& text, StopReason& reason) {
  for (const StopReason known : {StopReason::kSuspended, StopReason::kDrained, StopReason::kFailed,
                                 StopReason::kGone, StopReason::kStale}) {
    if (text.get<std::string>() == stop_reason_name(known)) reason = known;
  }
}

template <typename M, typename Wanted>
concept Is = std::is_same_v<std::remove_const_t<M>, Wanted>;

template <typename M, typename V>
void fields(M& m, V&& visit) {
  if constexpr (Is<M, Join>) {
    visit("version", m.version);
    visit("self", m.self);
    visit("attempt", m.attempt);
    visit("slot", m.slot);
    visit("pod", m.pod);
    visit("node", m.node);
    visit("token", m.token);
    visit("address", m.address);
    visit("masterPort", m.master_port);
    visit("ports", m.ports);
    visit("processes", m.processes);
    visit("fingerprint", m.fingerprint);
    visit("leaving", m.is_leaving);
  } else if constexpr (Is<M, Ready>) {
    visit("dataPorts", m.data_ports);
    visit("configHash", m.config_hash);
    visit("holdsPart", m.holds_part);
  } else if constexpr (Is<M, Progress>) {
    visit("report", m.report);
  } else if constexpr (Is<M, ShardDone>) {
    visit("rank", m.rank);
    visit("generation", m.generation);
    visit("step", m.step);
    visit("file", m.file);
    visit("bytes", m.bytes);
    visit("crc32c", m.crc32c);
    visit("sha256", m.sha256);
    visit("manifest", m.manifest_json);
  } else if constexpr (Is<M, ShardFailed>) {
    visit("rank", m.rank);
    visit("generation", m.generation);
    visit("step", m.step);
    visit("why", m.why);
  } else if constexpr (Is<M, Exit> || Is<M, ProcessLost>) {
    visit("failure", m.failure);
  } else if constexpr (Is<M, Broken>) {
    visit("generation", m.generation);
    visit("why", m.why);
    visit("rank", m.rank);
    visit("unreachedRank", m.unreached_rank);
  } else if constexpr (Is<M, Parked>) {
    visit("generation", m.generation);
    visit("held", m.held);
    visit("neverHeld", m.has_never_held);
    visit("ended", m.has_ended);
    visit("rested", m.has_rested);
    visit("writing", m.is_writing);
  } else if constexpr (Is<M, Park>) {
    visit("generation", m.generation);
    visit("calm", m.is_calm);
  } else if constexpr (Is<M, Refused>) {
    visit("why", m.why);
    visit("final", m.is_final);
  } else if constexpr (Is<M, Commit>) {
    visit("group", m.group);
    visit("masterAddress", m.master_address);
    visit("masterPort", m.master_port);
    visit("key", m.key);
    visit("loadUri", m.load_uri);
    visit("sourceRank", m.source_rank);
    visit("addresses", m.addresses);
  } else if constexpr (Is<M, Peers>) {
    visit("addresses", m.addresses);
  } else if constexpr (Is<M, StopGang>) {
    visit("reason", m.reason);
    visit("saving", m.is_saving);
    visit("programBlamed", m.is_program_blamed);
    visit("why", m.why);
  } else if constexpr (Is<M, Published>) {
    visit("step", m.step);
  } else if constexpr (Is<M, Stand>) {
    visit("term", m.term);
  } else if constexpr (Is<M, Leads>) {
    visit("group", m.group);
  }
}

template <typename M>
constexpr const char* name_of() {
  if constexpr (Is<M, Join>) return "join";
  if constexpr (Is<M, Ready>) return "ready";
  if constexpr (Is<M, Progress>) return "progress";
  if constexpr (Is<M, ShardDone>) return "shard_done";
  if constexpr (Is<M, ShardFailed>) return "shard_failed";
  if constexpr (Is<M, Leaving>) return "leaving";
  if constexpr (Is<M, Exit>) return "exit";
  if constexpr (Is<M, ProcessLost>) return "process_lost";
  if constexpr (Is<M, Broken>) return "broken";
  if constexpr (Is<M, Parked>) return "parked";
  if constexpr (Is<M, Park>) return "park";
  if constexpr (Is<M, HasApi>) return "has_api";
  if constexpr (Is<M, AskApi>) return "ask_api";
  if constexpr (Is<M, Stand>) return "stand";
  if constexpr (Is<M, Leads>) return "leads";
  if constexpr (Is<M, Finished>) return "finished";
  if constexpr (Is<M, Left>) return "left";
  if constexpr (Is<M, Refused>) return "refused";
  if constexpr (Is<M, Commit>) return "commit";
  if constexpr (Is<M, Peers>) return "peers";
  if constexpr (Is<M, StopGang>) return "stop_gang";
  if constexpr (Is<M, AskCheckpoint>) return "ask_checkpoint";
  if constexpr (Is<M, Published>) return "published";
  if constexpr (Is<M, Goodbye>) return "goodbye";
  if constexpr (Is<M, Heartbeat>) return "heartbeat";
}

// A field that is absent keeps its default; one of a wrong type throws, which decode() turns into
// Invalid.
template <typename M>
bool read_as(const std::string& type, const json& object, Message& message) {
  if (type != name_of<M>()) return false;
  M value;
  fields(value, [&](const char* name, auto& field) {
    const auto found = object.find(name);
    if (found != object.end()) from_field(*found, field);
  });
  message = std::move(value);
  return true;
}

template <typename... Ms>
bool read_any(std::variant<Ms...>*, const std::string& type, const json& object, Message& message) {
  return (read_as<Ms>(type, object, message) || ...);
}

}  // namespace

std::string encode(const Message& message) {
  json object;
  std::visit(
      [&]<typename M>(const M& value) {
        object["type"] = name_of<M>();
        fields(value, [&](const char* name, const auto& field) { object[name] = to_field(field); });
      },
      message);
  // Log tails and messages of foreign processes may hold bytes that are no UTF-8.
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Message> decode(const std::string& text) {
  try {
    const json object = parse_json(text);
    const std::string type = object.at("type").get<std::string>();
    Message message;
    if (read_any(static_cast<Message*>(nullptr), type, object, message)) return message;
    return fail(Code::kNotFound, "unknown message type \"" + type + "\"");
  } catch (const json::exception& error) {
    return fail(Code::kInvalid, std::string{"not a launcher's message: "} + error.what());
  }
}

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kSuspended:
      return "suspended";
    case StopReason::kDrained:
      return "drained";
    case StopReason::kFailed:
      return "failed";
    case StopReason::kGone:
      return "gone";
    case StopReason::kStale:
      return "stale";
  }
  return "failed";
}

}  // namespace pawl::membership
