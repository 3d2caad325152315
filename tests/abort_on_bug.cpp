// In every test program: what would be counted and logged in production fails the test.
#include "common/base/check.h"

namespace {
[[maybe_unused]] const bool is_set = (pawl::abort_on_bug(), true);
}  // namespace
