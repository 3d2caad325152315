#include "common/base/result.h"

namespace pawl {

const char* code_name(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "Invalid";
    case Code::kNotFound:
      return "NotFound";
    case Code::kAlreadyExists:
      return "AlreadyExists";
    case Code::kConflict:
      return "Conflict";
    case Code::kGone:
      return "Gone";
    case Code::kForbidden:
      return "Forbidden";
    case Code::kThrottled:
      return "Throttled";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kOutcomeUnknown:
      return "OutcomeUnknown";
    case Code::kCancelled:
      return "Cancelled";
    case Code::kCorrupt:
      return "Corrupt";
    case Code::kIo:
      return "Io";
  }
  return "Unknown";
}

}  // namespace pawl
