#include "tests/gpu/broken_program.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pawl::test {
namespace {

// For the oldest GPU that CUDA 13 knows; the driver compiles it for the one that is there.
constexpr const char* kKernel = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry store() {
  .reg .b64 %address;
  mov.b64 %address, 64;
  st.global.u32 [%address], 1;
  ret;
}
)";

// CUDA's driver API, of which no header is at hand where no toolkit is installed.
struct Cuda {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);

  template <typename... Args>
  bool call(const char* name, Args... args) const {
    auto* function = reinterpret_cast<int (*)(Args...)>(::dlsym(library, name));
    return function != nullptr && function(args...) == 0;
  }
};

Broken break_here() {
  const Cuda cuda;
  int device = 0;
  void *context = nullptr, *module = nullptr, *kernel = nullptr;
  const bool is_ready =
      cuda.library != nullptr && cuda.call("cuInit", 0U) && cuda.call("cuDeviceGet", &device, 0) &&
      cuda.call("cuDevicePrimaryCtxRetain", &context, device) &&
      cuda.call("cuCtxSetCurrent", context) &&
      cuda.call("cuModuleLoadData", &module, static_cast<const void*>(kKernel)) &&
      cuda.call("cuModuleGetFunction", &kernel, module, "store") &&
      cuda.call("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, static_cast<void*>(nullptr),
                static_cast<void**>(nullptr), static_cast<void**>(nullptr));
  if (!is_ready) return Broken::kNoCuda;
  return cuda.call("cuCtxSynchronize") ? Broken::kNo : Broken::kYes;
}

}  // namespace

Broken run_broken_program() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(static_cast<int>(break_here()));
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status))
    return Broken::kNoCuda;
  return static_cast<Broken>(WEXITSTATUS(status));
}

}  // namespace pawl::test
