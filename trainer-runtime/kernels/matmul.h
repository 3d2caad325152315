// Matrix products of the model: oneDNN for large ones where this build has it, our own kernel
// otherwise. The limit exists because oneDNN generates its code at the first call (46 ms), which a
// small model never earns back. One thread a caller.
#pragma once

#include "trainer-runtime/kernels/kernels.h"

namespace pawl::kernels {

// g.scratch must hold gemm_scratch(g.n) elements, whichever way is taken.
void matmul(const Gemm<float>& g);
void matmul(const Gemm<double>& g);

// "oneDNN", or "" when this build has none.
const char* matmul_library();

}  // namespace pawl::kernels
