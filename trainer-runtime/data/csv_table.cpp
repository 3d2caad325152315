#include "trainer-runtime/data/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/hash.h"

namespace pawl::data {
namespace {

// Rows that are held out come from an order of their own, of no epoch.
constexpr std::uint64_t kSplitEpoch = ~std::uint64_t{0};

constexpr const char* kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// A number that a float can hold; what is too small for that is 0.
std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  // Too large or too small: from_chars does not say which.
  if (error != std::errc{}) value = std::strtod(std::string(text).c_str(), nullptr);
  if (!(std::abs(value) <= double{std::numeric_limits<float>::max()})) return std::nullopt;
  return value;
}

// What is too far from all training rows lies at the end of a float's range.
float float_of(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

// What programs write for a number that they do not have.
bool is_missing(std::string_view text) {
  constexpr std::string_view kMarks[] = {"",    "NA",   "N/A",  "nan",  "NaN",  "NAN",
                                         "inf", "-inf", "null", "NULL", "None", "?"};
  return std::ranges::find(kMarks, trimmed(text)) != std::end(kMarks);
}

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The fields of one line; false if a quote is not closed or has text behind it.
bool split_fields(std::string_view line, std::vector<std::string>& fields) {
  const auto skip_blanks = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
  };
  fields.clear();
  while (true) {
    std::string field;
    if (const std::string_view rest = skip_blanks(line); rest.starts_with('"')) {
      line = rest.substr(1);
      while (true) {
        const std::size_t quote = line.find('"');
        if (quote == std::string_view::npos) return false;
        field += line.substr(0, quote);
        line.remove_prefix(quote + 1);
        if (!line.starts_with('"')) break;
        field += '"';
        line.remove_prefix(1);
      }
      line = skip_blanks(line);
      if (!line.empty() && line.front() != ',') return false;
    } else {
      const std::size_t end = std::min(line.find(','), line.size());
      field = trimmed(line.substr(0, end));
      line.remove_prefix(end);
    }
    fields.push_back(std::move(field));
    if (line.empty()) return true;
    line.remove_prefix(1);
  }
}

}  // namespace

CsvTable::CsvTable(const TrainerConfig& config)
    : data_(config.data),
      classes_(config.model.classes),
      features_(static_cast<std::size_t>(config.model.inputs)),
      label_(features_) {}

Result<std::unique_ptr<CsvTable>> CsvTable::open(const TrainerConfig& config) {
  std::unique_ptr<CsvTable> table(new CsvTable(config));
  for (const std::string& path : config.data.paths) {
    PAWL_TRY(files, files_of(path));
    for (const std::string& file : files) PAWL_TRY_VOID(table->add(file));
  }
  table->values_.shrink_to_fit();
  table->labels_.shrink_to_fit();
  table->split(config.data.validation_fraction, config.seed);
  const bool has_held_out = config.data.validation_fraction == 0 || table->held_out_ > 0;
  if (table->training_samples() == 0 || !has_held_out) {
    return fail(Code::kInvalid, "data.paths: " + std::to_string(table->labels_.size()) +
                                    " rows are too few to train on and hold some out" +
                                    table->about_bad_rows());
  }
  table->digest_ = sha256_hex(bytes_of(table->values_)) + sha256_hex(bytes_of(table->labels_));
  table->digest_ = sha256_hex(table->digest_).substr(0, 16);
  if (config.data.normalize == "standard") table->normalize();
  return table;
}

Status CsvTable::add(const std::string& path) {
  PAWL_TRY(text, read_file(path));
  bytes_ += text.size();
  std::string_view rest = text;
  // A byte order mark, which spreadsheets write.
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  bool is_first = true;
  for (std::uint64_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view row = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (trimmed(row).empty()) continue;
    const std::string place = path + ":" + std::to_string(line);
    const bool is_split = split_fields(row, fields_);
    if (is_first && !is_split) {
      return fail(Code::kInvalid, "data.paths: " + place +
                                      ": a quote is not closed, or has text behind it; the first "
                                      "line of a file may name its columns, and is not left out");
    }
    if (is_first) {
      PAWL_TRY_VOID(add_first_line(place));
    } else if (is_split) {
      PAWL_TRY_VOID(add_row(place));
    } else {
      PAWL_TRY_VOID(bad_row(place, "a quote is not closed, or has text behind it"));
    }
    is_first = false;
  }
  return {};
}

Status CsvTable::add_first_line(const std::string& place) {
  if (fields_.size() != features_ + 1) {
    return fail(Code::kInvalid,
                "data.paths: " + place + " has " + std::to_string(fields_.size()) +
                    " columns; with a class and model.inputs features it would be " +
                    std::to_string(features_ + 1));
  }
  if (is_header()) return take_header(place);
  const Status added = add_row(place);
  if (added || !header_.empty()) return added;
  return fail(added.error().code,
              added.error().message +
                  "; if this line names the columns, set data.label to that of the class");
}

bool CsvTable::is_header() const {
  if (fields_ == header_) return true;
  if (!data_.label.empty()) {
    if (header_.empty()) return true;  // it has to be; take_header says what is missing
    const bool has_label = std::ranges::find(fields_, data_.label) != fields_.end();
    // A name that is a number may be just that in a file that need not have names.
    if (has_label && !number_of(data_.label)) return true;
  }
  const auto is_number = [](const std::string& field) { return number_of(field).has_value(); };
  return std::ranges::none_of(fields_, is_number) && !std::ranges::all_of(fields_, is_missing);
}

Status CsvTable::take_header(const std::string& place) {
  if (header_.empty()) {
    header_ = fields_;
    header_place_ = place;
    if (data_.label.empty()) return {};
    const auto found = std::ranges::find(fields_, data_.label);
    if (found == fields_.end()) {
      return fail(Code::kInvalid, "data.label: " + place + " has no column \"" + data_.label +
                                      "\"; its last field is \"" + fields_.back() + "\"");
    }
    if (std::ranges::count(fields_, data_.label) > 1) {
      return fail(Code::kInvalid, "data.label: " + place + " has several columns \"" + data_.label +
                                      "\"; leave one of them");
    }
    label_ = static_cast<std::size_t>(found - fields_.begin());
    return {};
  }
  const auto [here, there] = std::ranges::mismatch(fields_, header_);
  if (here == fields_.end()) return {};
  return fail(Code::kInvalid, "data.paths: " + place + " names column " +
                                  std::to_string(here - fields_.begin() + 1) + " \"" + *here +
                                  "\", " + header_place_ + " \"" + *there +
                                  "\"; all files need the same columns");
}

Status CsvTable::add_row(const std::string& place) {
  if (fields_.size() != features_ + 1)
    return bad_row(place, std::to_string(fields_.size()) + " fields");
  const std::size_t begin = values_.size();
  std::int64_t label = -1;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const auto value = number_of(fields_[i]);
    if (!value) {
      values_.resize(begin);
      return bad_row(place, "field " + std::to_string(i + 1) + " is no finite 32-bit number");
    }
    if (i != label_) {
      values_.push_back(static_cast<float>(*value));
    } else if (*value == std::floor(*value) && *value >= 0 &&
               *value < static_cast<double>(classes_)) {
      label = static_cast<std::int64_t>(*value);
    }
  }
  if (label < 0) {
    values_.resize(begin);
    return bad_row(place, "the class is no whole number from 0 to " + std::to_string(classes_ - 1));
  }
  labels_.push_back(static_cast<std::int32_t>(label));
  return {};
}

Status CsvTable::bad_row(const std::string& place, const std::string& why) {
  if (first_bad_row_.empty()) first_bad_row_ = place + ": " + why;
  if (++bad_row_count_ <= static_cast<std::uint64_t>(data_.bad_rows_max)) return {};
  return fail(Code::kInvalid, "data.paths: " + place + ": " + why + "; data.bad_rows_max is " +
                                  std::to_string(data_.bad_rows_max));
}

void CsvTable::split(double fraction, std::uint64_t seed) {
  if (labels_.empty()) return;
  held_out_ = static_cast<std::uint64_t>(static_cast<double>(labels_.size()) * fraction);
  order_ = Permutation(labels_.size(), seed, kSplitEpoch);
}

// By the training rows alone, in the order of the files: the same on all ranks.
void CsvTable::normalize() {
  std::vector<bool> is_held_out(labels_.size());
  for (std::uint64_t i = 0; i < held_out_; ++i) is_held_out[order_.at(i)] = true;
  const auto count = static_cast<double>(training_samples());
  std::vector<double> means(features_), deviations(features_);
  const auto each = [&](const auto& look) {
    for (std::size_t row = 0; row < labels_.size(); ++row) {
      for (std::size_t i = 0; !is_held_out[row] && i < features_; ++i)
        look(i, static_cast<double>(values_[row * features_ + i]));
    }
  };
  each([&](std::size_t i, double value) { means[i] += value / count; });
  each([&](std::size_t i, double value) {
    deviations[i] += (value - means[i]) * (value - means[i]) / count;
  });
  // What differs by less than a float's rounding is the same in all training rows, and says
  // nothing.
  const auto is_constant = [&](std::size_t i) {
    return deviations[i] <= 1e-7 * std::abs(means[i]);
  };
  for (double& deviation : deviations) deviation = std::sqrt(deviation);
  for (std::size_t at = 0; at < values_.size(); ++at) {
    const std::size_t i = at % features_;
    const double distance = static_cast<double>(values_[at]) - means[i];
    values_[at] = is_constant(i) ? 0 : float_of(distance / deviations[i]);
  }
}

Status CsvTable::read(std::uint64_t row, const SampleRoom& room) const {
  std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(row * features_), features_,
              room.features.begin());
  room.targets[0] = labels_[row];
  return {};
}

std::string CsvTable::about_bad_rows() const {
  if (bad_row_count_ == 0) return "";
  return "; " + std::to_string(bad_row_count_) +
         " bad rows are left out, the first: " + first_bad_row_;
}

std::string CsvTable::about() const {
  return std::to_string(labels_.size()) + " rows of " + std::to_string(features_) +
         " features, of which " + std::to_string(held_out_) + " are held out" + about_bad_rows();
}

}  // namespace pawl::data
