// A program that breaks on a GPU by its own fault, as a bug in a kernel does. The driver tells of
// it by an XID, and the GPU is well afterwards.
#pragma once

namespace pawl::test {

enum class Broken { kYes, kNo, kNoCuda };

// In a child process, because CUDA does not survive it: a kernel stores to an address that is not
// mapped on the first GPU. kYes: CUDA refused the kernel's work, as it must.
Broken run_broken_program();

}  // namespace pawl::test
