#include "operator/placement/resources.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "common/base/json.h"

namespace pawl::placement {
namespace {

using nlohmann::json;
__extension__ using Wide = __int128;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Wide saturated(Wide value) { return std::min<Wide>(value, kMost); }

// Powers of ten and of two behind a number; an exponent is read apart.
struct Suffix {
  std::string_view text;
  int tens = 0, twos = 0;
};
constexpr std::array kSuffixes{
    Suffix{""},          Suffix{"n", -9},     Suffix{"u", -6},     Suffix{"m", -3},
    Suffix{"k", 3},      Suffix{"M", 6},      Suffix{"G", 9},      Suffix{"T", 12},
    Suffix{"P", 15},     Suffix{"E", 18},     Suffix{"Ki", 0, 10}, Suffix{"Mi", 0, 20},
    Suffix{"Gi", 0, 30}, Suffix{"Ti", 0, 40}, Suffix{"Pi", 0, 50}, Suffix{"Ei", 0, 60}};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

std::optional<Suffix> read_suffix(std::string_view text) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.text == text) return suffix;
  }
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  text.remove_prefix(1);
  const bool is_negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  if (text.empty() || text.size() > 3 || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  int tens = 0;
  for (const char digit : text) tens = tens * 10 + (digit - '0');
  return Suffix{"", is_negative ? -tens : tens};
}

struct Number {
  std::int64_t digits = 0;
  int tens = 0;
};

// Digits that an int64 cannot hold are dropped, as is what they say of a fraction.
std::optional<Number> take_number(std::string_view& text) {
  constexpr std::int64_t kRoom = kMost / 10 - 1;
  Number number;
  bool has_digits = false, has_point = false;
  for (; !text.empty(); text.remove_prefix(1)) {
    if (text[0] == '.' && !has_point) {
      has_point = true;
      continue;
    }
    if (!is_digit(text[0])) break;
    has_digits = true;
    if (number.digits > kRoom) {
      number.tens += has_point ? 0 : 1;
      continue;
    }
    number.digits = number.digits * 10 + (text[0] - '0');
    number.tens -= has_point ? 1 : 0;
  }
  return has_digits ? std::optional{number} : std::nullopt;
}

void read_quantities(const json& object, Resources& resources) {
  if (!object.is_object()) return;
  for (const auto& [name, value] : object.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    // Others take none but whole ones: a fraction counts as one more.
    if (const auto quantity = parse_quantity(text, name == kCpu ? 1'000 : 1))
      resources[name] = *quantity;
  }
}

void raise(Resources& most, const Resources& other) {
  for (const auto& [name, quantity] : other) {
    std::int64_t& known = most[name];
    known = std::max(known, quantity);
  }
}

// What the kubelet has given, by container: less than what is asked for now where a resize waits,
// more where one is yet to be made.
std::map<std::string, Resources> given_by_container(const json& status) {
  std::map<std::string, Resources> given;
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    for (const json& one : member_of(status, list)) {
      Resources& resources = given[text_at(one, "name")];
      read_quantities(member_of(one, "allocatedResources"), resources);
      Resources actual;
      read_quantities(member_of(member_of(one, "resources"), "requests"), actual);
      raise(resources, actual);
    }
  }
  return given;
}

Resources of_container(const json& container, const std::map<std::string, Resources>& given) {
  Resources resources;
  // The API server has filled in requests from limits; a template is as the user wrote it.
  read_quantities(member_of(member_of(container, "resources"), "limits"), resources);
  read_quantities(member_of(member_of(container, "resources"), "requests"), resources);
  const auto found = given.find(text_at(container, "name"));
  if (found != given.end()) raise(resources, found->second);
  return resources;
}

}  // namespace

std::optional<std::int64_t> parse_quantity(std::string_view text, std::int64_t scale) {
  const bool is_negative = text.starts_with('-');
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  const auto suffix = read_suffix(text);
  if (!suffix) return std::nullopt;
  if (is_negative) return 0;
  Wide value = static_cast<Wide>(number->digits) * scale;
  int tens = number->tens + suffix->tens;
  bool has_rest = false;
  // 2^10 at a time, and divided in between, so that nothing gets too wide.
  for (int twos = suffix->twos; twos > 0; twos -= 10) {
    value *= 1'024;
    for (; tens < 0 && value > kMost; ++tens) {
      has_rest = has_rest || value % 10 != 0;
      value /= 10;
    }
    if (tens >= 0) value = saturated(value);
  }
  for (; tens > 0 && value < kMost && value > 0; --tens) value = saturated(value * 10);
  for (; tens < 0 && (value > 0); ++tens) {
    has_rest = has_rest || value % 10 != 0;
    value /= 10;
  }
  return static_cast<std::int64_t>(saturated(value + (has_rest ? 1 : 0)));
}

Resources allocatable_of(const json& node) {
  Resources resources;
  read_quantities(member_of(member_of(node, "status"), "allocatable"), resources);
  return resources;
}

Resources requests_of(const json& pod) {
  const json& spec = member_of(pod, "spec");
  const auto given = given_by_container(member_of(pod, "status"));
  Resources running, starting, sidecars;
  for (const json& container : member_of(spec, "containers"))
    add(running, of_container(container, given));
  for (const json& container : member_of(spec, "initContainers")) {
    Resources needs = of_container(container, given);
    if (text_at(container, "restartPolicy") == "Always") {  // it runs on beside the others
      add(running, needs);
      add(sidecars, needs);
      needs = sidecars;
    } else {
      add(needs, sidecars);
    }
    raise(starting, needs);
  }
  raise(running, starting);
  Resources of_pod;
  read_quantities(member_of(member_of(spec, "resources"), "requests"), of_pod);
  for (const auto& [name, quantity] : of_pod) running[name] = quantity;
  Resources overhead;
  read_quantities(member_of(spec, "overhead"), overhead);
  add(running, overhead);
  running[kPods] = 1;
  return running;
}

std::int64_t amount_of(const Resources& resources, const std::string& resource) {
  const auto found = resources.find(resource);
  return found == resources.end() ? 0 : found->second;
}

void add(Resources& sum, const Resources& more) {
  for (const auto& [name, quantity] : more) {
    std::int64_t& known = sum[name];
    known = quantity > kMost - known ? kMost : known + quantity;
  }
}

Resources times(Resources each, int pods) {
  for (auto& [name, quantity] : each)
    quantity = static_cast<std::int64_t>(std::min<Wide>(Wide{quantity} * pods, kAmountMax));
  std::erase_if(each, [](const auto& entry) { return entry.second == 0; });
  return each;
}

int bounded_units(std::int64_t units) {
  constexpr std::int64_t kUnitsMax = 1'000'000;
  return static_cast<int>(std::clamp<std::int64_t>(units, 0, kUnitsMax));
}

}  // namespace pawl::placement
