// Sends a matrix of gradients as the product of two thin ones (Vogels, Karimireddy and Jaggi,
// "PowerSGD: practical low-rank gradient compression for distributed optimization", 2019): one step
// of subspace iteration, begun from the last step's. Both factors are sums over ranks, so that an
// all-reduce serves. The caller makes the sums, of several matrices at once if it wants; this class
// does the arithmetic of one matrix. All ranks hold the same basis, from the same seed, and decode
// equal bits if the sums are.
//
// A step: 1. project → left; the caller sums left over all ranks. 2. project_back → right; the
// caller sums right. 3. decode_add. One thread; a step allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer-runtime/compress/kernels.h"

namespace pawl::compress {

struct MatrixShape {
  Index rows = 0, columns = 0;
  int rank = 1;  // 1 … 4

  std::size_t elements() const { return static_cast<std::size_t>(rows * columns); }
  std::size_t left_count() const { return static_cast<std::size_t>(rank * rows); }
  std::size_t right_count() const { return static_cast<std::size_t>(rank * columns); }
  // Ten times smaller or more; else a matrix is better sent as it is.
  bool is_worth() const { return elements() >= 10 * (left_count() + right_count()); }
};

// What is not finite on one rank makes the decoded matrix not finite, on all ranks. A residual that
// was finite stays so, and the basis too.
class PowerSgd {
 public:
  PowerSgd(const MatrixShape& shape, std::uint64_t seed, const KernelTable& table = kernel_table());

  const MatrixShape& shape() const { return shape_; }
  // residual += values: the matrix to be sent. left = matrix · basis.
  void project(std::span<const float> values, std::span<float> residual,
               std::span<float> left) const;
  // `left`, summed, gets orthonormal vectors. right = matrixᵀ · left; residual = matrix - left ·
  // rightᵀ, which is what this rank's part does not say (the paper's algorithm 2).
  void project_back(std::span<float> residual, std::span<float> left, std::span<float> right) const;
  // sum += left · rightᵀ; the next step begins from `right`.
  void decode_add(std::span<const float> left, std::span<const float> right, std::span<float> sum);

  // rank × columns, orthonormal: all that is to be saved, beside the residual.
  std::span<float> basis() { return basis_; }

 private:
  LowRank factors(const float* left, const float* right) const;
  bool is_finite(std::span<const float> values) const;
  bool orthonormalise(std::span<float> vector, std::span<const float> before) const;
  void draw(int index);

  const MatrixShape shape_;
  const std::uint64_t seed_;
  const KernelTable& table_;
  std::vector<float> basis_;
};

}  // namespace pawl::compress
