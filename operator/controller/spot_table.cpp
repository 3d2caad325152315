#include "operator/controller/spot_table.h"

#include "common/base/json.h"

namespace pawl::controller {
namespace {

using nlohmann::json;

// What is wrong with it; "": nothing.
std::string fault_of(const json& row) {
  if (!row.is_object()) return "is no object";
  for (const auto& [key, value] : row.items()) {
    if (key != "label" && key != "value" && key != "taint") return "has an unknown field " + key;
    if (!value.is_string()) return key + " must be a text";
  }
  const bool is_whole = !text_at(row, "label").empty() && row.contains("value");
  return is_whole ? "" : "needs label and value, which name a node's label";
}

}  // namespace

Result<api::SpotTable> parse_spot_table(const std::string& text) {
  const json list = parse_json(text);
  if (!list.is_array())
    return fail(Code::kInvalid, "the table of spot labels must be a JSON array of rows");
  api::SpotTable table;
  for (const json& row : list) {
    const std::string fault = fault_of(row);
    if (!fault.empty()) {
      return fail(Code::kInvalid, "row " + std::to_string(table.size() + 1) +
                                      " of the spot labels " + fault + ": " + row.dump());
    }
    table.push_back({text_at(row, "label"), text_at(row, "value"), text_at(row, "taint")});
  }
  return table;
}

}  // namespace pawl::controller
