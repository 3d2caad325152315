#include <array>

#include "common/base/check.h"
#include "trainer-runtime/kernels/isa_tables.h"

namespace pawl::kernels {
namespace {

struct Choice {
  std::array<const Table<float>*, 3> tables{};
  int count = 0;
};

Choice choose() {
  Choice choice;
  choice.tables[0] = &kTableSse2;
  choice.count = 1;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return choice;
  choice.tables[1] = &kTableAvx2;
  choice.count = 2;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")) {
    return choice;
  }
  choice.tables[2] = &kTableAvx512;
  choice.count = 3;
#endif
  return choice;
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

template <>
const Table<float>& table<float>() {
  return *choice().tables[static_cast<std::size_t>(choice().count - 1)];
}
template <>
const Table<double>& table<double>() {
  return kTableReference;
}

const ExactTable& exact() { return exact_at(choice().count - 1); }
const ExactTable& exact_at(int index) {
  constexpr std::array<const ExactTable*, 3> kTables{&kExactSse2, &kExactAvx2, &kExactAvx512};
  PAWL_CHECK(index >= 0 && index < choice().count, "no such kernel table");
  return *kTables[static_cast<std::size_t>(index)];
}

int table_count() { return choice().count; }
const Table<float>& table_at(int index) {
  PAWL_CHECK(index >= 0 && index < choice().count, "no such kernel table");
  return *choice().tables[static_cast<std::size_t>(index)];
}

}  // namespace pawl::kernels
