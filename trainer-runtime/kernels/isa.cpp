// This file is compiled once for each instruction set (CMakeLists.txt gives PAWL_ISA and
// PAWL_VECTOR_BYTES). Everything in it has internal linkage and it uses no inline function of the
// standard library: the linker must never pick an AVX-512 copy of shared code for a processor that
// lacks it.
#include <cstddef>
#include <cstdint>

#include "trainer-runtime/kernels/isa_tables.h"

namespace pawl::kernels {
namespace {

#include "trainer-runtime/kernels/isa_gemm.inc"
#include "trainer-runtime/kernels/isa_math.inc"
#include "trainer-runtime/kernels/isa_rows.inc"

template <typename T>
constexpr Table<T> table_named(const char* name) {
  return {.name = name,
          .gemm = gemm<T>,
          .layernorm = layernorm<T>,
          .layernorm_backward = layernorm_backward<T>,
          .add_bias = add_bias<T>,
          .gelu = gelu<T>,
          .gelu_backward = gelu_backward<T>,
          .column_sums = column_sums<T>,
          .softmax = softmax<T>,
          .softmax_again = softmax_again<T>,
          .softmax_backward = softmax_backward<T>,
          .row_dots = row_dots<T>,
          .cross_entropy = cross_entropy<T>,
          .add = add<T>};
}

}  // namespace

#define PAWL_TEXT_INNER(x) #x
#define PAWL_TEXT(x) PAWL_TEXT_INNER(x)
constexpr Table<float> PAWL_ISA_FLOAT = table_named<float>(PAWL_TEXT(PAWL_ISA));
#ifdef PAWL_ISA_DOUBLE
constexpr Table<double> PAWL_ISA_DOUBLE = table_named<double>("reference");
#endif

}  // namespace pawl::kernels
