#include "common/api/channel.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "common/base/json.h"

namespace pawl::api::channel {
namespace {

using nlohmann::json;

// Every message lists its fields once, for both directions: `visit(name, member)`.
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Hello>
void fields(M& m, V&& visit) {
  visit("version", m.version);
  visit("rank", m.rank);
  visit("dataPort", m.data_port);
  visit("configHash", m.config_hash);
  visit("holdsPart", m.holds_part);
}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Buffers>
void fields(M& m, V&& visit) {
  visit("bytes", m.bytes);
}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Sealed>
void fields(M& m, V&& visit) {
  visit("buffer", m.buffer);
  visit("step", m.step);
  visit("bytes", m.bytes);
  visit("manifest", m.manifest_json);
}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Report>
void fields(M& m, V&& visit) {
  visit("step", m.step);
  visit("totalSteps", m.total_steps);
  visit("loss", m.loss);
  visit("samplesPerSecond", m.samples_per_second);
  visit("tokensPerSecond", m.tokens_per_second);
  visit("epoch", m.epoch);
  visit("note", m.note);
  visit("hasLoss", m.has_loss);
  visit("slowRank", m.slow_rank);
  visit("slowFactor", m.slow_factor);
  visit("validationStep", m.validation_step);
  visit("validationLoss", m.validation_loss);
  visit("validationAccuracy", m.validation_accuracy);
  visit("bestStep", m.best_step);
  visit("bestLoss", m.best_loss);
}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Done>
void fields(M& m, V&& visit) {
  visit("step", m.step);
}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Parked>
void fields(M& m, V&& visit) {
  visit("generation", m.generation);
  visit("step", m.step);
  visit("why", m.why);
  visit("unreachedRank", m.unreached_rank);
}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, PeerAddress>
void fields(M& m, V&& visit) {
  visit("rank", m.rank);
  visit("address", m.address);
}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Welcome>
void fields(M& m, V&& visit) {
  visit("rank", m.rank);
  visit("worldSize", m.world_size);
  visit("localRank", m.local_rank);
  visit("attempt", m.attempt);
  visit("generation", m.generation);
  visit("startStep", m.start_step);
  visit("loadUri", m.load_uri);
  visit("baseGeneration", m.base_generation);
  visit("sourceRank", m.source_rank);
  visit("canPark", m.can_park);
  visit("key", m.key);
  visit("peers", m.peers);
  visit("checkpointSeconds", m.checkpoint_seconds);
}
template <typename M, typename V>
  requires(std::is_same_v<std::remove_const_t<M>, BuffersReady> ||
           std::is_same_v<std::remove_const_t<M>, CheckpointNow> ||
           std::is_same_v<std::remove_const_t<M>, Park>)
void fields(M&, V&&) {}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Released>
void fields(M& m, V&& visit) {
  visit("buffer", m.buffer);
}
template <typename M, typename V>
  requires std::is_same_v<std::remove_const_t<M>, Stop>
void fields(M& m, V&& visit) {
  visit("isSaving", m.is_saving);
}

constexpr const char* type_of(const Hello&) { return "hello"; }
constexpr const char* type_of(const Buffers&) { return "buffers"; }
constexpr const char* type_of(const Sealed&) { return "sealed"; }
constexpr const char* type_of(const Report&) { return "report"; }
constexpr const char* type_of(const Done&) { return "done"; }
constexpr const char* type_of(const Parked&) { return "parked"; }
constexpr const char* type_of(const Welcome&) { return "welcome"; }
constexpr const char* type_of(const BuffersReady&) { return "buffers_ready"; }
constexpr const char* type_of(const Released&) { return "released"; }
constexpr const char* type_of(const CheckpointNow&) { return "checkpoint_now"; }
constexpr const char* type_of(const Stop&) { return "stop"; }
constexpr const char* type_of(const Park&) { return "park"; }

// A loss may be NaN, which JSON writes as null.
template <typename T>
json to_json(const T& value) {
  return value;
}
json to_json(const std::vector<PeerAddress>& peers) {
  json list = json::array();
  for (const PeerAddress& peer : peers) {
    json entry = json::object();
    fields(peer, [&](const char* name, const auto& member) { entry[name] = member; });
    list.push_back(std::move(entry));
  }
  return list;
}

template <typename Message>
std::string encode_one(const Message& message) {
  json object = {{"type", type_of(message)}};
  fields(message, [&](const char* name, const auto& member) { object[name] = to_json(member); });
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool read(const json& value, bool& member) {
  if (!value.is_boolean()) return false;
  member = value.get<bool>();
  return true;
}
bool read(const json& value, std::string& member) {
  if (!value.is_string()) return false;
  member = value.get<std::string>();
  return true;
}
bool read(const json& value, double& member) {
  if (!value.is_number() && !value.is_null()) return false;
  member = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  return true;
}
template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
bool read(const json& value, T& member) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    member = static_cast<T>(number);
    return std::in_range<T>(number);
  }
  if (!value.is_number_integer()) return false;
  const auto number = value.get<std::int64_t>();
  member = static_cast<T>(number);
  return std::in_range<T>(number);
}
bool read(const json& value, std::vector<PeerAddress>& member);

// Fields that are absent keep their defaults. Returns the name of the first field that does not
// fit, or null.
template <typename Message>
const char* read_fields(const json& object, Message& message) {
  const char* wrong = nullptr;
  fields(message, [&](const char* name, auto& member) {
    const auto found = object.find(name);
    if (wrong == nullptr && found != object.end() && !read(*found, member)) wrong = name;
  });
  return wrong;
}

bool read(const json& value, std::vector<PeerAddress>& member) {
  if (!value.is_array()) return false;
  for (const json& entry : value) {
    PeerAddress peer;
    if (!entry.is_object() || read_fields(entry, peer) != nullptr) return false;
    member.push_back(std::move(peer));
  }
  return true;
}

template <typename Variant, std::size_t I = 0>
Result<Variant> decode_as(const json& object, const std::string& type) {
  if constexpr (I == std::variant_size_v<Variant>) {
    return fail(Code::kNotFound, "unknown channel message \"" + type + "\"");
  } else {
    std::variant_alternative_t<I, Variant> message;
    if (type != type_of(message)) return decode_as<Variant, I + 1>(object, type);
    if (const char* wrong = read_fields(object, message); wrong != nullptr) {
      return fail(Code::kInvalid, "channel message \"" + type + "\": field \"" + wrong +
                                      "\" has the wrong type or range");
    }
    return Variant{std::move(message)};
  }
}

template <typename Variant>
Result<Variant> decode(const std::string& text) {
  const json object = parse_json(text);
  if (!object.is_object()) return fail(Code::kInvalid, "a channel message is one JSON object");
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string()) {
    return fail(Code::kInvalid, "a channel message needs the string field \"type\"");
  }
  return decode_as<Variant>(object, type->get<std::string>());
}

}  // namespace

std::string encode(const FromProcess& message) {
  return std::visit([](const auto& one) { return encode_one(one); }, message);
}
std::string encode(const ToProcess& message) {
  return std::visit([](const auto& one) { return encode_one(one); }, message);
}
Result<FromProcess> decode_from_process(const std::string& text) {
  return decode<FromProcess>(text);
}
Result<ToProcess> decode_to_process(const std::string& text) { return decode<ToProcess>(text); }

}  // namespace pawl::api::channel
