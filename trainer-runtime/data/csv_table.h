// Tables of numbers with a class in each row (RFC 4180, one line a row), read whole into memory.
// The first line of a file may name the columns: it does where one of its fields is data.label or,
// without a label, where no field is a number and not all stand for a missing one. Later files have
// the columns of the first, whether they name them or not. The seed says which rows are held out.
// Immutable after open; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/data/permutation.h"

namespace pawl::data {

class CsvTable final : public Dataset {
 public:
  // Invalid with file and line; Unavailable when storage failed and another try may help.
  static Result<std::unique_ptr<CsvTable>> open(const TrainerConfig& config);

  std::uint64_t bytes() const override { return bytes_; }
  std::uint64_t training_samples() const override { return labels_.size() - held_out_; }
  std::uint64_t held_out_samples() const override { return held_out_; }
  Status read_training(std::uint64_t index, const SampleRoom& room) const override {
    return read(order_.at(held_out_ + index), room);
  }
  Status read_held_out(std::uint64_t index, const SampleRoom& room) const override {
    return read(order_.at(index), room);
  }
  std::string digest() const override { return digest_; }  // of all rows, as the files have them
  std::string about() const override;

 private:
  explicit CsvTable(const TrainerConfig& config);
  Status add(const std::string& path);
  // A line that lies in fields_; `place` is its file and number.
  Status add_first_line(const std::string& place);
  Status add_row(const std::string& place);
  bool is_header() const;
  Status take_header(const std::string& place);
  Status bad_row(const std::string& place, const std::string& why);
  std::string about_bad_rows() const;
  void split(double fraction, std::uint64_t seed);
  void normalize();
  Status read(std::uint64_t row, const SampleRoom& room) const;

  DataConfig data_;
  std::int64_t classes_;
  std::size_t features_;
  std::vector<std::string> fields_;  // of the line
  std::vector<std::string> header_;  // the names of the columns, where a file had them
  std::string header_place_;
  std::size_t label_;          // its column
  std::vector<float> values_;  // rows * features
  std::vector<std::int32_t> labels_;
  std::uint64_t bytes_ = 0, held_out_ = 0, bad_row_count_ = 0;
  std::string first_bad_row_;  // its place, and why
  std::string digest_;
  Permutation order_{1, 0, 0};
};

}  // namespace pawl::data
