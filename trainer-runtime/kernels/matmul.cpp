#include "trainer-runtime/kernels/matmul.h"

#ifdef PAWL_HAS_DNNL
#include <dlfcn.h>
#include <dnnl.h>
#endif

namespace pawl::kernels {

#ifdef PAWL_HAS_DNNL
namespace {

constexpr double kLargeProduct = 1.2e8;  // multiplications; above it oneDNN's blocking wins

// The ranks of a machine share its cores, so a rank computes on one thread. Debian's oneDNN uses
// OpenMP, whose thread count belongs to the calling thread.
bool use_one_thread() {
  using SetThreads = void (*)(int);
  if (void* found = ::dlsym(RTLD_DEFAULT, "omp_set_num_threads"); found != nullptr) {
    reinterpret_cast<SetThreads>(found)(1);
  }
  return true;
}

bool by_dnnl(const Gemm<float>& g) {
  const double size =
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const bool a_plain = g.a_column == 1, b_plain = g.b_column == 1;
  if (size < kLargeProduct || (!a_plain && g.a_row != 1) || (!b_plain && g.b_row != 1))
    return false;
  thread_local const bool is_set = use_one_thread();
  static_cast<void>(is_set);
  return dnnl_sgemm(a_plain ? 'N' : 'T', b_plain ? 'N' : 'T', g.m, g.n, g.k, 1.0F, g.a,
                    a_plain ? g.a_row : g.a_column, g.b, b_plain ? g.b_row : g.b_column,
                    g.is_adding ? 1.0F : 0.0F, g.c, g.c_row) == dnnl_success;
}

}  // namespace

void matmul(const Gemm<float>& g) {
  if (!by_dnnl(g)) table<float>().gemm(g);
}
const char* matmul_library() { return "oneDNN"; }
#else
void matmul(const Gemm<float>& g) { table<float>().gemm(g); }
const char* matmul_library() { return ""; }
#endif

void matmul(const Gemm<double>& g) { table<double>().gemm(g); }

}  // namespace pawl::kernels
