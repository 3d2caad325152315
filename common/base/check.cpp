#include "common/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace pawl {
namespace {
std::atomic<long> bugs{0};
std::atomic<bool> abort_on_bugs{false};
}  // namespace

void check_failed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  std::abort();
}

void bug_seen(const char* file, int line, const char* message) {
  bugs.fetch_add(1, std::memory_order_relaxed);
  std::fprintf(stderr, "%s:%d: bug: %s\n", file, line, message);
  if (abort_on_bugs.load(std::memory_order_relaxed)) std::abort();
}

long bug_count() { return bugs.load(std::memory_order_relaxed); }
void abort_on_bug() { abort_on_bugs.store(true, std::memory_order_relaxed); }

}  // namespace pawl
