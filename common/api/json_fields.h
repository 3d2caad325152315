// How the codecs read and write JSON objects: Fields reads the members it is asked for and keeps
// the first wrong type as an Error that names the field's path; the put functions write a member
// only when it is set. Included by the codec .cpp files only (it pulls in json.hpp). Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/result.h"

namespace pawl::api {

class Fields {
 public:
  // `object` must outlive the reader; `error` is shared with every reader below this one.
  Fields(const nlohmann::json& object, std::string path, std::optional<Error>& error);

  // An absent or null member leaves `out` as it is.
  void read(const char* name, std::string& out);
  void read(const char* name, bool& out);
  void read(const char* name, int& out);
  void read(const char* name, std::int64_t& out);
  void read(const char* name, std::optional<int>& out);
  void read(const char* name, std::optional<std::int64_t>& out);
  void read(const char* name, std::optional<TimePoint>& out);
  void read(const char* name, std::map<std::string, std::string>& out);
  void read(const char* name, std::map<std::string, int>& out);
  void read(const char* name, std::vector<std::string>& out);
  void read(const char* name, std::vector<int>& out);
  // An integer or the word "auto", which leaves `out` empty.
  void read_auto(const char* name, std::optional<int>& out);
  // An integer or a string, as text.
  void read_quantity(const char* name, std::string& out);
  // Any object, as compact JSON.
  void read_object_text(const char* name, std::string& out);

  // Calls use(Fields&) when the member is there.
  template <typename Use>
  void child(const char* name, Use use) {
    if (const nlohmann::json* value = find(name, nlohmann::json::value_t::object)) {
      Fields fields(*value, path_of(name), error_);
      use(fields);
    }
  }
  // Calls use(Fields&) for each element of the list.
  template <typename Use>
  void each(const char* name, Use use) {
    const nlohmann::json* list = find(name, nlohmann::json::value_t::array);
    if (list == nullptr) return;
    for (std::size_t i = 0; i < list->size(); ++i) {
      Fields fields((*list)[i], path_of(name) + "[" + std::to_string(i) + "]", error_);
      use(fields);
    }
  }

  bool has(const char* name) const;
  std::string path_of(const char* name) const;
  void set_error(const std::string& path, const std::string& what);

 private:
  const nlohmann::json* find(const char* name, nlohmann::json::value_t type);
  const nlohmann::json* find_any(const char* name) const;
  std::optional<std::int64_t> integer(const char* name, std::int64_t min, std::int64_t max);
  std::optional<std::int64_t> integer_of(const nlohmann::json& value, const std::string& path,
                                         std::int64_t min, std::int64_t max);

  const nlohmann::json& object_;
  std::string path_;
  std::optional<Error>& error_;
};

void put(nlohmann::json& object, const char* name, const std::string& value);  // unless empty
void put(nlohmann::json& object, const char* name, const std::optional<int>& value);
void put(nlohmann::json& object, const char* name, const std::optional<std::int64_t>& value);
void put(nlohmann::json& object, const char* name, const std::optional<TimePoint>& value);

// Text that stands in the API server's answers and in logs: never throws on bytes that are not
// UTF-8.
std::string dump(const nlohmann::json& value);
// At most `max` bytes of valid UTF-8: the first ones, or the last ones.
std::string clip_front(const std::string& text, std::size_t max);
std::string clip_back(const std::string& text, std::size_t max);

}  // namespace pawl::api
