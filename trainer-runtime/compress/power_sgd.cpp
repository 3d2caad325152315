#include "trainer-runtime/compress/power_sgd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/base/random.h"

namespace pawl::compress {
namespace {

// Of a vector's length: what is left of it beside the others is rounding.
constexpr double kLost = 1e-6;

std::size_t size_of(Index count) { return static_cast<std::size_t>(count); }

}  // namespace

PowerSgd::PowerSgd(const MatrixShape& shape, std::uint64_t seed, const KernelTable& table)
    : shape_(shape), seed_(seed), table_(table), basis_(shape.right_count()) {
  PAWL_CHECK(shape.rank >= 1 && shape.rank <= 4 && shape.rows > 0 && shape.columns > 0,
             "no matrix, or of no rank that can be sent");
  for (int k = 0; k < shape.rank; ++k) draw(k);
}

void PowerSgd::project(std::span<const float> values, std::span<float> residual,
                       std::span<float> left) const {
  PAWL_CHECK(values.size() == shape_.elements() && residual.size() == values.size() &&
                 left.size() == shape_.left_count(),
             "a buffer has not the matrix's size");
  table_.accumulate(static_cast<Index>(values.size()), values.data(), residual.data());
  table_.times_right(factors(nullptr, basis_.data()), residual.data(), left.data());
}

void PowerSgd::project_back(std::span<float> residual, std::span<float> left,
                            std::span<float> right) const {
  PAWL_CHECK(residual.size() == shape_.elements() && left.size() == shape_.left_count() &&
                 right.size() == shape_.right_count(),
             "a buffer has not the matrix's size");
  const std::size_t rows = size_of(shape_.rows);
  bool is_sendable = is_finite(left);
  for (std::size_t k = 0; is_sendable && k < size_of(shape_.rank); ++k) {
    const std::span<float> vector = left.subspan(k * rows, rows);
    // Zero says nothing, and what would have to be said stays in the residuals.
    if (!orthonormalise(vector, left.first(k * rows))) std::ranges::fill(vector, 0.0F);
  }
  if (is_sendable) {
    table_.times_left(factors(left.data(), nullptr), residual.data(), right.data());
    is_sendable = is_finite(right);
  }
  if (is_sendable) {
    table_.subtract_product(factors(left.data(), right.data()), residual.data());
  } else {
    std::ranges::fill(right, std::numeric_limits<float>::quiet_NaN());
    table_.drop_not_finite(static_cast<Index>(residual.size()), residual.data());
  }
}

void PowerSgd::decode_add(std::span<const float> left, std::span<const float> right,
                          std::span<float> sum) {
  PAWL_CHECK(left.size() == shape_.left_count() && right.size() == shape_.right_count() &&
                 sum.size() == shape_.elements(),
             "a buffer has not the matrix's size");
  table_.add_product(factors(left.data(), right.data()), sum.data());
  if (!is_finite(right)) return;
  const std::size_t columns = size_of(shape_.columns);
  std::ranges::copy(right, basis_.begin());
  for (int k = 0; k < shape_.rank; ++k) {
    const std::size_t first = size_of(k) * columns;
    const std::span<float> basis(basis_);
    // A matrix of lower rank has no further direction; one that comes later has to be found.
    if (!orthonormalise(basis.subspan(first, columns), basis.first(first))) draw(k);
  }
}

LowRank PowerSgd::factors(const float* left, const float* right) const {
  return {shape_.rows, shape_.columns, shape_.rank, left, right};
}

bool PowerSgd::is_finite(std::span<const float> values) const {
  return table_.largest_key(static_cast<Index>(values.size()), values.data()) < kInfinity;
}

// Makes the vector orthogonal to those before it and of length 1 (Gram–Schmidt, twice, as the first
// time leaves the rounding errors of a long vector). False: it depends on them.
bool PowerSgd::orthonormalise(std::span<float> vector, std::span<const float> before) const {
  const auto count = static_cast<Index>(vector.size());
  float* const data = vector.data();
  for (int pass = 0; pass < 2; ++pass) {
    const double length = std::sqrt(table_.dot(count, data, data));
    for (std::size_t first = 0; first < before.size(); first += vector.size()) {
      const float* const other = before.data() + first;
      table_.add_scaled(count, static_cast<float>(-table_.dot(count, other, data)), other, data);
    }
    const double rest = std::sqrt(table_.dot(count, data, data));
    if (!(rest > kLost * length)) return false;
    for (float& value : vector) value = static_cast<float>(static_cast<double>(value) / rest);
  }
  return true;
}

void PowerSgd::draw(int index) {
  const std::size_t columns = size_of(shape_.columns), first = size_of(index) * columns;
  const std::span<float> vector = std::span(basis_).subspan(first, columns);
  for (std::size_t i = 0; i < columns; ++i) {
    const std::uint64_t bits = keyed_random(seed_, size_of(index), i) >> 11;
    vector[i] = static_cast<float>(static_cast<double>(bits) * 0x1p-52 - 1);
  }
  if (!orthonormalise(vector, std::span(basis_).first(first))) std::ranges::fill(vector, 0.0F);
}

}  // namespace pawl::compress
