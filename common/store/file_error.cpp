#include "common/store/file_error.h"

#include <cerrno>

#include "common/os/process.h"

namespace pawl::store {

tl::unexpected<Error> file_error(int result, const char* doing, const std::string& path) {
  const int error = -result;
  const std::string text = std::string{doing} + " " + path + ": ";
  switch (error) {
    case ENOSPC:
      return fail(Code::kIo, text + "no space left on the volume (" + os::errno_text(error) + ")");
    case EDQUOT:
      return fail(Code::kIo,
                  text + "the volume's quota is used up (" + os::errno_text(error) + ")");
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
      return fail(Code::kNotFound, text + os::errno_text(error));
    case EEXIST:
      return fail(Code::kAlreadyExists, text + os::errno_text(error));
    case EACCES:
    case EPERM:
    case EROFS:
      return fail(Code::kForbidden, text + os::errno_text(error));
    case ENAMETOOLONG:
      return fail(Code::kInvalid, text + os::errno_text(error));
    default:
      return fail(Code::kIo, text + os::errno_text(error));
  }
}

}  // namespace pawl::store
