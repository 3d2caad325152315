// The tables that isa.cpp defines, one per instruction set; used by dispatch.cpp alone.
#pragma once

#include "trainer-runtime/kernels/kernels.h"

namespace pawl::kernels {

extern const Table<float> kTableSse2, kTableAvx2, kTableAvx512;
extern const ExactTable kExactSse2, kExactAvx2, kExactAvx512;
extern const Table<double> kTableReference;

}  // namespace pawl::kernels
