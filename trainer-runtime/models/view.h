// A matrix inside a larger array, and products of such; so that a model's arithmetic reads as
// arithmetic. One thread.
#pragma once

#include "trainer-runtime/kernels/matmul.h"

namespace pawl::models {

using kernels::Index;

template <typename T>
struct View {
  T* data = nullptr;
  Index rows = 0, columns = 0;
  Index row = 0, step = 1;  // distances in memory of neighbours in a column and in a row

  View transposed() const { return {data, columns, rows, step, row}; }
  View block(Index first, Index count) const {
    return {data + first * row, count, columns, row, step};
  }
  operator View<const T>() const { return {data, rows, columns, row, step}; }
};

// Rows one behind the other.
template <typename T>
View<T> dense(T* data, Index rows, Index columns) {
  return {data, rows, columns, columns, 1};
}

template <typename T>
class Multiplier {
 public:
  explicit Multiplier(T* scratch) : scratch_(scratch) {}
  // c = a · b
  void set(View<const T> a, View<const T> b, View<T> c) const { multiply(a, b, c, false); }
  // c += a · b
  void add(View<const T> a, View<const T> b, View<T> c) const { multiply(a, b, c, true); }

 private:
  void multiply(View<const T> a, View<const T> b, View<T> c, bool is_adding) const {
    kernels::matmul({.m = a.rows,
                     .n = b.columns,
                     .k = a.columns,
                     .a = a.data,
                     .a_row = a.row,
                     .a_column = a.step,
                     .b = b.data,
                     .b_row = b.row,
                     .b_column = b.step,
                     .c = c.data,
                     .c_row = c.row,
                     .is_adding = is_adding,
                     .scratch = scratch_});
  }
  T* scratch_;
};

}  // namespace pawl::models
