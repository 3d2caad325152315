#include <string_view>

#include "common/store/file_store.h"
#include "common/store/store.h"

namespace pawl::store {
namespace {

constexpr std::string_view kFileScheme = "file://";

tl::unexpected<Error> not_usable(const std::string& uri, const std::string& why) {
  return fail(Code::kInvalid, "checkpoint URI \"" + uri + "\": " + why);
}

}  // namespace

Result<std::unique_ptr<Store>> open_store(const std::string& uri) {
  if (uri.starts_with("s3://")) {
    return not_usable(uri, "s3:// is not supported by this version; use file:///…");
  }
  if (!uri.starts_with(kFileScheme)) {
    return not_usable(uri, "write file:///absolute/path, a folder that all workers share");
  }
  std::string path = uri.substr(kFileScheme.size());
  if (path.empty() || path.front() != '/') {
    return not_usable(uri, "a host is not supported; write three slashes, file:///absolute/path");
  }
  if (path.find_first_of("%?#") != std::string::npos) {
    return not_usable(uri, "the path must not have any of % ? #; use a plain folder name");
  }
  while (!path.empty() && path.back() == '/') path.pop_back();
  if (path.empty()) return not_usable(uri, "name a folder below /");
  // The same rules as for keys, but hidden folders are the user's business.
  for (const std::string_view part : {"/../", "/./", "//"}) {
    if ((path + "/").find(part) != std::string::npos) {
      return not_usable(uri, "the path must not have \"..\", \".\" or empty parts");
    }
  }
  return FileStore::open(make_posix_file_system(), std::move(path));
}

}  // namespace pawl::store
