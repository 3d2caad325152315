// Tables of what `pawl why` is asked, and of what has to be in its answers.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/why/why.h"
#include "tests/unit/cli/snapshot_fixture.h"

namespace pawl::cli {

using Change = std::function<void(SnapshotFixture&)>;

struct Case {
  std::string name;
  Change change;
  std::string because, next;  // parts of the answer
};

inline void fail_with(SnapshotFixture& fixture, const api::Failure& failure) {
  fixture.job.status.last_failure = failure;
}

inline api::Failure failure_of(const std::string& cause, std::optional<int> exit_code = {}) {
  api::Failure failure;
  failure.rank = 3;
  failure.pod = "gpt-1-3-0";
  failure.node = "node-3";
  failure.cause = cause;
  failure.exit_code = exit_code;
  failure.attempt = 1;
  return failure;
}

// Each answer has its parts, and is one paragraph.
inline void check_answers(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    SnapshotFixture fixture;
    each.change(fixture);
    const Answer answer = answer_why(fixture.snapshot());
    INFO(each.name << ": " << answer.because << " | " << answer.next);
    CHECK(answer.because.find(each.because) != std::string::npos);
    CHECK(answer.next.find(each.next) != std::string::npos);
    const std::string text = why_paragraph(fixture.snapshot());
    CHECK(text.find('\n') == text.size() - 1);
    CHECK(text.find("..") == std::string::npos);
  }
}

}  // namespace pawl::cli
