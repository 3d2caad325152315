#include "trainer-runtime/data/csv_table.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include "tests/unit/trainer/samples.h"

using namespace pawl;
using test::Folder;

namespace {

TrainerConfig table_config(const std::string& path, std::int64_t inputs = 2) {
  TrainerConfig config;
  config.model.kind = "mlp";
  config.model.inputs = inputs;
  config.model.classes = 3;
  config.data.kind = "csv";
  config.data.paths = {path};
  config.data.validation_fraction = 0;
  config.data.normalize = "none";
  return config;
}

struct Row {
  std::vector<float> features;
  std::int32_t label = -1;
  bool operator==(const Row&) const = default;
};

// In no order.
std::vector<Row> rows_of(const data::Dataset& table, std::size_t inputs, bool is_held_out = false) {
  std::vector<Row> rows;
  const std::uint64_t count = is_held_out ? table.held_out_samples() : table.training_samples();
  for (std::uint64_t i = 0; i < count; ++i) {
    Row row{std::vector<float>(inputs), -1};
    const data::SampleRoom room{{}, std::span(&row.label, 1), row.features};
    REQUIRE((is_held_out ? table.read_held_out(i, room) : table.read_training(i, room)));
    rows.push_back(row);
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return row.features; });
  return rows;
}

std::string table_complaint(const TrainerConfig& config) {
  const auto table = data::open_dataset(config);
  return table ? "accepted" : table.error().message;
}

}  // namespace

TEST_CASE("csv: numbers with and without quotes, a header, empty lines, and either end of line",
          "[trainer]") {
  const Folder folder;
  const std::string path =
      folder.write("t", "a,\"the class\",b\r\n1, 2 ,-3.5\r\n\r\n\"4\",0,+5e-1\r\n7,1,8");
  TrainerConfig config = table_config(path);
  config.data.label = "the class";
  const auto table = data::open_dataset(config);
  REQUIRE(table);
  CHECK((*table)->held_out_samples() == 0);
  CHECK(rows_of(**table, 2) == std::vector<Row>{{{1, -3.5F}, 2}, {{4, 0.5F}, 0}, {{7, 8}, 1}});
  const auto plain = data::open_dataset(table_config(folder.write("u", "1,2,0\n3,4,2\n")));
  REQUIRE(plain);
  CHECK(rows_of(**plain, 2) == std::vector<Row>{{{1, 2}, 0}, {{3, 4}, 2}});
}

TEST_CASE("csv: what is wrong is said with its line, and left out where that is allowed",
          "[trainer]") {
  const Folder folder;
  const auto told = [&](const std::string& text) {
    const std::string message = table_complaint(table_config(folder.write("t", text)));
    const std::size_t place = message.find("/t:");
    return place == std::string::npos ? message : message.substr(place + 3);
  };
  CHECK(told("1,2\n") == "1 has 2 columns; with a class and model.inputs features it would be 3");
  CHECK(told("1,2,0\n1,2\n") == "2: 2 fields; data.bad_rows_max is 0");
  CHECK(told("1,2,0\n1e39,2,0\n") ==
        "2: field 1 is no finite 32-bit number; data.bad_rows_max is 0");
  CHECK(told("1,2,0\n1,x,0\n") == "2: field 2 is no finite 32-bit number; data.bad_rows_max is 0");
  CHECK(told("1,2,0\n1,nan,0\n") ==
        "2: field 2 is no finite 32-bit number; data.bad_rows_max is 0");
  CHECK(told("1,2,0\n1,,0\n") == "2: field 2 is no finite 32-bit number; data.bad_rows_max is 0");
  for (const char* label : {"3", "-1", "0.5"}) {
    CHECK(told(std::string("1,2,0\n1,2,") + label) ==
          "2: the class is no whole number from 0 to 2; data.bad_rows_max is 0");
  }
  CHECK(told("1,2,0\n\"1,2,0\n").starts_with("2: a quote is not closed"));
  CHECK(told(" \t\n1,2,0\n  \n1,x,0\n").starts_with("4: field 2"));
  CHECK(told("").find("0 rows are too few") != std::string::npos);
  TrainerConfig config = table_config(folder.write("t", "1,2,0\n1,2\n1,2,7\n3,4,1\n"));
  config.data.bad_rows_max = 2;
  const auto table = data::open_dataset(config);
  REQUIRE(table);
  CHECK(rows_of(**table, 2) == std::vector<Row>{{{1, 2}, 0}, {{3, 4}, 1}});
  CHECK((*table)->about().find("2 bad rows are left out, the first: " + folder.path() +
                               "/t:2: 2 fields") != std::string::npos);
  config.data.label = "c";
  CHECK(table_complaint(config).find("has no column \"c\"; its last field is \"0\"") !=
        std::string::npos);
  config.data.paths = {folder.write("h", "a,b,k\n1,2,0\n")};
  CHECK(table_complaint(config).find("has no column \"c\"; its last field is \"k\"") !=
        std::string::npos);
  config.data.paths = {folder.write("n", "a,b,c\n1,2\n")};
  const std::string none = table_complaint(config);
  CHECK(none.find("0 rows are too few") != std::string::npos);
  CHECK(
      none.ends_with("; 1 bad rows are left out, the first: " + folder.path() + "/n:2: 2 fields"));
  config.data.paths = {folder.path() + "/none"};
  CHECK(table_complaint(config).find("does not exist") != std::string::npos);
  config.data.paths = {folder.write("d", "c,a,c\n1,2,1\n")};
  CHECK(table_complaint(config).find("has several columns \"c\"") != std::string::npos);
}

TEST_CASE("csv: the files of a ConfigMap are read once", "[trainer]") {
  const Folder folder;
  folder.write("m/..2026_11/t.csv", "1,2,0\n3,4,2\n");
  std::filesystem::create_symlink("..2026_11", folder.path() + "/m/..data");
  std::filesystem::create_symlink("..data/t.csv", folder.path() + "/m/t.csv");
  const auto table = data::open_dataset(table_config(folder.path() + "/m"));
  REQUIRE(table);
  CHECK(rows_of(**table, 2) == std::vector<Row>{{{1, 2}, 0}, {{3, 4}, 2}});
}

TEST_CASE("csv: numbers of all kinds that programs write", "[trainer]") {
  const Folder folder;
  const auto first_number = [&](const std::string& text) -> std::optional<float> {
    const auto table = data::open_dataset(table_config(folder.write("t", text + ",7,0\n")));
    if (!table) return std::nullopt;
    return rows_of(**table, 2)[0].features[0];
  };
  for (const auto& [text, number] :
       std::vector<std::pair<std::string, float>>{{"\t0.5\t", 0.5F},
                                                  {" \"0.5\" ", 0.5F},
                                                  {"\t\" +0.5\"", 0.5F},
                                                  {"-.5", -0.5F},
                                                  {"3.4e38", 3.4e38F},
                                                  {"1e-60", 0},
                                                  {"-1e-400", 0},
                                                  {"0.5E+0", 0.5F}}) {
    INFO(text);
    CHECK(first_number(text) == number);
  }
  for (const char* text :
       {"+-5", "++5", "1e39", "-1e400", "inf", "nan", "0x10", "1 2", "1,5", "\"1\"2"}) {
    INFO(text);
    CHECK(!first_number(text));
  }
}

TEST_CASE("csv: which first lines name the columns", "[trainer]") {
  const Folder folder;
  const auto opened = [&](const std::string& text, const std::string& label,
                          std::int64_t bad_rows_max = 0) {
    TrainerConfig config = table_config(folder.write("t", text));
    config.data.label = label;
    config.data.bad_rows_max = bad_rows_max;
    return data::open_dataset(config);
  };
  const std::vector<Row> wanted{{{1, 2}, 0}, {{3, 4}, 1}};
  struct Case {
    const char *text, *label;
  };
  for (const Case& c : std::vector<Case>{{"a,b,c\n1,2,0\n3,4,1\n", ""},
                                         {",x,y\n1,2,0\n3,4,1\n", ""},
                                         {"\xEF\xBB\xBF\"c\",a,b\n0,1,2\n1,3,4\n", "c"},
                                         {"\xEF\xBB\xBFtype,a,b\n0,1,2\n1,3,4\n", "type"},
                                         {"\xEF\xBB\xBF\"1\",2,0\n3,4,1\n", ""},
                                         {"0,1,target\n1,2,0\n3,4,1\n", "target"},
                                         {"2,0,1\n0,1,2\n1,3,4\n", "2"}}) {
    INFO(c.text);
    const auto table = opened(c.text, c.label);
    REQUIRE(table);
    CHECK(rows_of(**table, 2) == wanted);
  }
  // Rows that are bad, and no names.
  for (const char* first : {"NA,NA,NA", "?,nan,", "0,1,target"}) {
    INFO(first);
    const auto table = opened(first + std::string("\n1,2,0\n3,4,1\n"), "", 1);
    REQUIRE(table);
    CHECK((*table)->about().find("1 bad rows are left out") != std::string::npos);
    const auto strict = opened(first + std::string("\n1,2,0\n"), "");
    REQUIRE(!strict);
    CHECK(strict.error().message.ends_with(
        "if this line names the columns, set data.label to that of the class"));
  }
  // What cannot be read may have been names, so it is never left out.
  const auto unread = opened("\"a,b,c\n1,2,0\n", "", 10);
  REQUIRE(!unread);
  CHECK(unread.error().message.find("/t:1: a quote is not closed") != std::string::npos);
}

TEST_CASE("csv: later files have the columns of the first, named or not", "[trainer]") {
  const Folder folder;
  TrainerConfig config = table_config(folder.write("1", "c,a,b\n0,1,2\n"));
  config.data.paths.push_back(folder.write("2", "1,3,4\n"));
  config.data.paths.push_back(folder.write("3", "\"c\",a,b\r\n2,5,6\n"));
  config.data.label = "c";
  const auto table = data::open_dataset(config);
  REQUIRE(table);
  CHECK(rows_of(**table, 2) == std::vector<Row>{{{1, 2}, 0}, {{3, 4}, 1}, {{5, 6}, 2}});
  for (const char* header : {"c,b,a", "b,a,c", "a,b,k", "1,a,c"}) {
    config.data.paths[1] = folder.write("2", header + std::string("\n1,2,0\n"));
    const std::string complaint = table_complaint(config);
    INFO(complaint);
    CHECK(complaint.find("/2:1 names column ") != std::string::npos);
    CHECK(complaint.find("/1:1 \"") != std::string::npos);
  }
  // Names that are numbers: the row "0,1,2" of a file without them is one.
  config.data.label = "2";
  config.data.paths = {folder.write("1", "0,1,2\n5,6,0\n"), folder.write("2", "3,2,1\n")};
  const auto numbered = data::open_dataset(config);
  REQUIRE(numbered);
  CHECK(rows_of(**numbered, 2) == std::vector<Row>{{{3, 2}, 1}, {{5, 6}, 0}});
}

TEST_CASE("csv: a small difference of large numbers is kept, and what is always the same is 0",
          "[trainer]") {
  const Folder folder;
  TrainerConfig config = table_config("");
  config.data.normalize = "standard";
  // The seconds of an hour since 1970.
  std::string text;
  for (int i = 0; i < 20; ++i) text += std::to_string(1'700'000'000 + 180 * i) + ",1e9,0\n";
  config.data.paths = {folder.write("t", text)};
  const auto rows = rows_of(**data::open_dataset(config), 2);
  CHECK(std::abs(rows.front().features[0] + 1.65F) < 0.15F);
  CHECK(std::abs(rows.back().features[0] - 1.65F) < 0.15F);
  for (const Row& row : rows) CHECK(row.features[1] == 0);
  // Another value in a row that is held out says nothing either.
  config.data.validation_fraction = 0.05;
  const auto table = [&](int odd, const char* normalize) {
    text.clear();
    for (int i = 0; i < 20; ++i)
      text += std::string(i == odd ? "9e9," : "1,") + std::to_string(i) + ",0\n";
    config.data.paths = {folder.write("t", text)};
    config.data.normalize = normalize;
    return *data::open_dataset(config);
  };
  const auto held_out = static_cast<int>(rows_of(*table(-1, "none"), 2, true)[0].features[1]);
  CHECK(rows_of(*table(held_out, "none"), 2, true)[0].features[0] == 9e9F);
  CHECK(rows_of(*table(held_out, "standard"), 2, true)[0].features[0] == 0);
  // Nor does one that is further away than a float can say become infinite.
  text.clear();
  for (int i = 0; i < 20; ++i)
    text += std::string(i == held_out ? "3e38," : i % 2 ? "1e-6," : "0,") + "1,0\n";
  config.data.paths = {folder.write("t", text)};
  const auto far = rows_of(**data::open_dataset(config), 2, true)[0].features[0];
  CHECK(far == std::numeric_limits<float>::max());
}

TEST_CASE(
    "csv: the seed says which rows are held out, and training rows have mean 0 and deviation 1",
    "[trainer]") {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += std::to_string(i) + "," + std::to_string(i % 7) + ",5," + std::to_string(i % 3) + "\n";
  TrainerConfig config = table_config(folder.write("t", text), 3);
  config.data.validation_fraction = 0.25;
  const auto first = data::open_dataset(config);
  REQUIRE(first);
  CHECK((*first)->held_out_samples() == 50);
  const auto training = rows_of(**first, 3), held_out = rows_of(**first, 3, true);
  std::map<float, int> seen;
  for (const Row& row : training) ++seen[row.features[0]];
  for (const Row& row : held_out) ++seen[row.features[0]];
  CHECK(seen.size() == 200);  // each once
  CHECK(rows_of(**data::open_dataset(config), 3, true) == held_out);
  config.seed += 1;
  CHECK(rows_of(**data::open_dataset(config), 3, true) != held_out);
  config.data.normalize = "standard";
  const auto normal = rows_of(**data::open_dataset(config), 3);
  for (const std::size_t i : {0U, 1U, 2U}) {
    double sum = 0, squares = 0;
    for (const Row& row : normal) {
      sum += double{row.features[i]};
      squares += double{row.features[i]} * double{row.features[i]};
    }
    CHECK(std::abs(sum / 150) < 1e-6);
    CHECK(std::abs(squares / 150 - (i == 2 ? 0 : 1)) < 1e-5);  // the last is the same in all rows
  }
}
