// PAWL_CHECK: a broken invariant ends the process, in every build. PAWL_BUG: a survivable surprise
// that is counted and logged, and that aborts in tests. Neither is for input from outside. Any
// thread.
#pragma once

namespace pawl {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* message);
void bug_seen(const char* file, int line, const char* message);

// How many PAWL_BUGs this process has seen; a metric.
long bug_count();
// From then on PAWL_BUG aborts: every test program calls it (tests/abort_on_bug.cpp), and pawl-sim.
void abort_on_bug();

}  // namespace pawl

#define PAWL_CHECK(condition, message) \
  ((condition) ? static_cast<void>(0)  \
               : ::pawl::check_failed(__FILE__, __LINE__, #condition, message))
#define PAWL_BUG(message) ::pawl::bug_seen(__FILE__, __LINE__, message)
