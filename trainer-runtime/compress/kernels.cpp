#include "trainer-runtime/compress/kernels.h"

#include <array>

#include "common/base/check.h"

namespace pawl::compress {

const KernelTable& kernel_table() { return kernel_table_at(kernels::table_count() - 1); }

const KernelTable& kernel_table_at(int index) {
  constexpr std::array<const KernelTable*, 3> kTables{&kCompressSse2, &kCompressAvx2,
                                                      &kCompressAvx512};
  PAWL_CHECK(index >= 0 && index < kernels::table_count(), "no such kernel table");
  return *kTables[static_cast<std::size_t>(index)];
}

}  // namespace pawl::compress
