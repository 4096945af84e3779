// Finds cuBLASLt: first with the system's loader, then in the folder of the toolkit that compiled
// Vitrine.
#include "cuda/launch.h"
#include "cuda/matmul/steps.h"

#if VITRINE_CUDA_EMULATED

namespace vitrine::cuda {

std::string cublas_absence() { return "these kernels run in the emulator, where there is no cuBLASLt"; }
std::string cublas_origin() { return cublas_absence(); }

}  // namespace vitrine::cuda

#else

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "cuda/matmul/cublas_library.h"

namespace vitrine::cuda {

void* CublasLibrary::open() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  std::string reasons;
  for (const std::string& path : {name, VITRINE_CUDA_LIBRARY_FOLDER "/" + name}) {
    if (void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", dlerror());
  }
  absence = fmt::format("cuBLASLt cannot be opened: {}", reasons);
  return nullptr;
}

void* CublasLibrary::find_symbol(const char* name) {
  void* const symbol = file == nullptr ? nullptr : dlsym(file, name);
  if (file != nullptr && symbol == nullptr) absence = fmt::format("cuBLASLt has no function {}", name);
  return symbol;
}

std::string CublasLibrary::origin() const {
  if (!absence.empty()) return absence;
  Dl_info place{};
  dladdr(reinterpret_cast<const void*>(Matmul), &place);
  return fmt::format("cuBLASLt {} of {}", GetVersion(), place.dli_fname == nullptr ? "?" : place.dli_fname);
}

const CublasLibrary& cublas_library() {
  static const CublasLibrary instance;
  return instance;
}

const CublasHandle& cublas_handle() {
  static std::mutex mutex;
  static std::map<int, CublasHandle> handles;
  const int device = current_device();
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = handles.try_emplace(device);
  CublasHandle& h = place->second;
  if (!is_new) return h;
  const CublasLibrary& lt = cublas_library();
  h.absence = lt.absence;
  if (!h.absence.empty()) return h;
  const cublasStatus_t status = lt.Create(&h.handle);
  if (status != CUBLAS_STATUS_SUCCESS)
    h.absence = fmt::format("{} cannot use GPU {}: {}", lt.origin(), device, lt.GetStatusString(status));
  return h;
}

std::string cublas_absence() { return cublas_handle().absence; }
std::string cublas_origin() { return cublas_library().origin(); }

}  // namespace vitrine::cuda

#endif
