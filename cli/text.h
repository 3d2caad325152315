// How numbers, durations and tables look in everything that `pawl` prints. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace pawl::cli {

// "4m05s", "1h23m"; two units at most.
std::string format_seconds(std::int64_t seconds);
// How long `time` is past at `now`: "4m05s"; "-" if it is not known.
std::string age_text(const std::optional<TimePoint>& time, TimePoint now);
// Whole numbers above 100, three digits below; `text` itself if it is no number.
std::string short_number(const std::string& text);
// Four digits behind the point; "-" if `text` is no number.
std::string loss_text(const std::string& text);
std::string format_bytes(std::int64_t bytes);  // "1.2 GiB"
// "1 worker", "3 workers".
std::string count_text(std::int64_t count, const std::string& noun);

// Lines with the columns aligned, two spaces between them; each line starts with `indent`.
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::string& indent = "");

}  // namespace pawl::cli
