// Where checkpoints live: a flat space of keys with atomic, durable, no-replace publication. One
// Store is a URI
// ("file:///data/run1"); keys are relative paths ("step-00000010-a01-g0001/manifest.json").
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::store {

struct Entry {
  std::string key;
  std::uint64_t bytes = 0;
};

class Store {
 public:
  virtual ~Store() = default;
  // Durable and whole when it returns: a reader never sees a part of it. AlreadyExists if the key
  // is taken and is_replacing is false.
  virtual Status put(const std::string& key, std::span<const std::byte> bytes,
                     bool is_replacing) = 0;
  virtual Result<std::vector<std::byte>> get(const std::string& key) const = 0;
  // Exactly bytes.size() bytes from `offset`; Corrupt when the object is shorter.
  virtual Status read(const std::string& key, std::uint64_t offset,
                      std::span<std::byte> bytes) const = 0;
  virtual Result<Entry> stat(const std::string& key) const = 0;
  // All keys below `prefix`, sorted; unfinished writes are not listed.
  virtual Result<std::vector<Entry>> list(const std::string& prefix) const = 0;
  // Names directly below `prefix` (one level), sorted.
  virtual Result<std::vector<std::string>> list_folders(const std::string& prefix) const = 0;
  // Makes the whole folder invisible at once (rename), then removes it. Absent is success.
  virtual Status remove_folder(const std::string& folder) = 0;
  // Renames a folder; AlreadyExists when `to` is there.
  virtual Status rename_folder(const std::string& from, const std::string& to) = 0;
  virtual std::string uri_of(const std::string& key) const = 0;
};

// "file:///absolute/path" (made by the first put if absent). Invalid for anything else, with what
// to write instead.
Result<std::unique_ptr<Store>> open_store(const std::string& uri);

}  // namespace pawl::store
