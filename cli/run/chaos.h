// --chaos kill-rank=R@S: kills the training process of one rank when the job has come to a step.
// Once. For people who want to see the job survive it, and for the test that it does.
#pragma once

#include <optional>
#include <string>

#include "cli/local/process_node.h"
#include "cli/run/observer.h"
#include "cli/run/options.h"

namespace pawl::cli {

// The line to show if it struck just now.
std::optional<std::string> strike(const Chaos& chaos, const Observer& observer,
                                  const local::ProcessNode& node);

}  // namespace pawl::cli
