// What a run trains on: samples by number, of which some are held out for validation. Immutable
// after open; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/include/pawl/config.h"

namespace pawl::data {

// Where a sample goes: as many numbers as the model's sample shape says (models/model.h).
struct SampleRoom {
  std::span<std::int32_t> inputs, targets;
  std::span<float> features;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  // Of all files. With the number of samples, what a checkpoint remembers of its data.
  virtual std::uint64_t bytes() const = 0;
  virtual std::uint64_t training_samples() const = 0;
  virtual std::uint64_t held_out_samples() const = 0;
  // Invalid: the sample cannot be used; says where it lies.
  virtual Status read_training(std::uint64_t index, const SampleRoom& room) const = 0;
  virtual Status read_held_out(std::uint64_t index, const SampleRoom& room) const = 0;
  // Of what the samples hold, where that has been read whole: other data of the same size differ.
  virtual std::string digest() const { return ""; }
  // What there is, for the log.
  virtual std::string about() const = 0;
  virtual bool has_bytes() const { return false; }  // as targets
  // Where they are: what the best model with one byte of context could reach on those held
  // out, in bits a byte.
  virtual std::optional<double> bigram_bits() const { return std::nullopt; }
};

// Invalid with what to change; Unavailable when storage failed and another try may help.
Result<std::unique_ptr<Dataset>> open_dataset(const TrainerConfig& config);

// Which samples a validation looks at: some at equal distances over those held out.
struct ValidationPlan {
  std::uint64_t of = 0, count = 0;              // count <= of
  std::uint64_t sample(std::uint64_t i) const;  // i < count
};
ValidationPlan validation_of(const TrainerConfig& config, std::uint64_t held_out);

// The file, or all files of the folder, sorted; without what has a name that begins with "..".
Result<std::vector<std::string>> files_of(const std::string& path);

// Unavailable also when it changes meanwhile.
Result<std::string> read_file(const std::string& path);

// What an errno about an input file says: Invalid when it is absent or not to be read, Unavailable
// for all that may pass (a stale handle, a time-out, too many open files).
Code code_of_file_error(int error);

}  // namespace pawl::data
