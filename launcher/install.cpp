#include "launcher/install.h"

#include <filesystem>
#include <system_error>

namespace pawl::launcher {

namespace fs = std::filesystem;

Status install(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_directories(to, error);
  for (const char* folder : {"lib", "bin"}) {
    const fs::path source = fs::path{from} / folder, target = fs::path{to} / folder;
    const fs::path fresh = fs::path{to} / (std::string{"."} + folder + ".new");
    if (!fs::is_directory(source, error))
      return fail(Code::kInvalid,
                  source.string() + " is not there: name the launcher's folder with --from");
    fs::remove_all(fresh, error);
    fs::copy(source, fresh, fs::copy_options::recursive, error);
    if (error)
      return fail(Code::kIo,
                  "copying " + source.string() + " to " + fresh.string() + ": " + error.message());
    fs::remove_all(target, error);
    fs::rename(fresh, target, error);
    if (error) return fail(Code::kIo, "making " + target.string() + ": " + error.message());
  }
  return {};
}

}  // namespace pawl::launcher
