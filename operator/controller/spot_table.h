// By what nodes are known as spot: a table of labels, and of the taints that such pools carry. Data
// (charts/pawl/spot.json, and the chart's values), so that a cluster adds its own; common/api puts
// it into pods. Pure.
//
// A row is an object with "label" and "value", and with "taint", where there is one: its key, with
// whatever value and effect.
#pragma once

#include <string>

#include "common/api/capacity.h"
#include "common/base/result.h"

namespace pawl::controller {

// A JSON array of rows. An error names the row and says what is expected.
Result<api::SpotTable> parse_spot_table(const std::string& text);

}  // namespace pawl::controller
