// Which optimizer states a rank holds: those of all parameters, or, where they are sharded (ZeRO
// stage 1: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", 2020), those of some ranges of the flat array, one behind the other. Immutable.
#pragma once

#include <vector>

#include "trainer-runtime/kernels/kernels.h"

namespace pawl::optim {

// Elements [first, last) of the flat array; the states of `first` are number `at` of those held.
struct Owned {
  kernels::Index first = 0, last = 0, at = 0;
  kernels::Index count() const { return last - first; }
};

class Ownership {
 public:
  // Of a rank that holds all.
  explicit Ownership(kernels::Index count) : ranges_{{0, count, 0}}, count_(count) {}
  // Of `ranges` in rising order, without overlap; `at` is computed here, and ranges that touch
  // become one.
  static Ownership of(std::vector<Owned> ranges);

  const std::vector<Owned>& ranges() const { return ranges_; }
  kernels::Index count() const { return count_; }
  // The parts of [first, last) that are held, in rising order.
  std::vector<Owned> within(kernels::Index first, kernels::Index last) const;

 private:
  Ownership() = default;
  std::vector<Owned> ranges_;
  kernels::Index count_ = 0;
};

}  // namespace pawl::optim
