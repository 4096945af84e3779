// NVIDIA's cuBLASLt, which chooses among its own kernels: the measure of the ladder. It is 500 MB large, so nothing links it; it
// is opened by the first product that wants it.
#include "cuda/launch.h"
#include "cuda/matmul/steps.h"

#if VITRINE_CUDA_EMULATED

namespace vitrine::cuda {

std::string cublas_absence() { return "these kernels run in the emulator, where there is no cuBLASLt"; }
bool cublas_supports(const Product&) { return false; }
void cublas_matmul(const Product&) { fail("matmul: {}", cublas_absence()); }

}  // namespace vitrine::cuda

#else

#include <cublasLt.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

namespace vitrine::cuda {
namespace {

/// The functions that are used, under the names of cublasLt.h without their prefix.
struct Library {
  std::string absence;  // why there is none
  void* file = open();

#define VITRINE_CUBLASLT(name) decltype(&cublasLt##name) name = find<decltype(name)>("cublasLt" #name)
  VITRINE_CUBLASLT(Create);
  VITRINE_CUBLASLT(GetStatusString);
  VITRINE_CUBLASLT(Matmul);
  VITRINE_CUBLASLT(MatmulAlgoGetHeuristic);
  VITRINE_CUBLASLT(MatmulDescCreate);
  VITRINE_CUBLASLT(MatmulDescDestroy);
  VITRINE_CUBLASLT(MatmulDescSetAttribute);
  VITRINE_CUBLASLT(MatmulPreferenceCreate);
  VITRINE_CUBLASLT(MatmulPreferenceDestroy);
  VITRINE_CUBLASLT(MatmulPreferenceSetAttribute);
  VITRINE_CUBLASLT(MatrixLayoutCreate);
  VITRINE_CUBLASLT(MatrixLayoutDestroy);
  VITRINE_CUBLASLT(MatrixLayoutSetAttribute);
#undef VITRINE_CUBLASLT

 private:
  void* open() {
    const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
    void* const opened = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) absence = fmt::format("cuBLASLt cannot be opened: {}", dlerror());
    return opened;
  }

  template <class F>
  F find(const char* name) {
    void* const symbol = file == nullptr ? nullptr : dlsym(file, name);
    if (file != nullptr && symbol == nullptr) absence = fmt::format("cuBLASLt has no function {}", name);
    return reinterpret_cast<F>(symbol);
  }
};

const Library& library() {
  static const Library instance;
  return instance;
}

void check_status(cublasStatus_t status, const char* what) {
  check(status == CUBLAS_STATUS_SUCCESS, "matmul: cuBLASLt: {}: {}", what, library().GetStatusString(status));
}

constexpr size_t kWorkspace = size_t{32} << 20;

/// One a device, kept to the end of the program.
struct Context {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
};

const Context& context() {
  static std::mutex mutex;
  static std::map<std::pair<int, cudaStream_t>, Context> contexts;  // streams cannot share a workspace
  int device = 0;
  check_call(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  Context& c = contexts[{device, selected_stream()}];
  if (c.handle == nullptr) {
    check_call(cudaMalloc(&c.workspace, kWorkspace), "memory for cuBLASLt");
    check_status(library().Create(&c.handle), "cublasLtCreate");
  }
  return c;
}

/// Something that cuBLASLt makes and destroys.
template <class T>
class Handle {
 public:
  template <class Create, class... Arguments>
  Handle(cublasStatus_t (*destroy)(T), Create create, Arguments... arguments) : destroy_(destroy) {
    check_status(create(&value_, arguments...), "cublasLt…Create");
  }
  ~Handle() { destroy_(value_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator T() const { return value_; }

 private:
  T value_ = nullptr;
  cublasStatus_t (*destroy_)(T);
};

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return CUDA_R_32F;
    case DType::float64: return CUDA_R_64F;
    case DType::bfloat16: return CUDA_R_16BF;
    case DType::float16: return CUDA_R_16F;
    default: fail("matmul: cuBLASLt has no {}", name(dtype));
  }
}

/// A matrix for a library that counts down columns: it sees the transposed one, whose columns are our rows.
struct Layout : Handle<cublasLtMatrixLayout_t> {
  Layout(DType dtype, int64_t rows, int64_t columns, int64_t stride, int64_t batch, int64_t batch_stride)
      : Handle(library().MatrixLayoutDestroy, library().MatrixLayoutCreate, type_of(dtype),
               static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), stride) {
    const int32_t count = static_cast<int32_t>(batch);
    const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      check_status(library().MatrixLayoutSetAttribute(*this, attribute, &value, sizeof(value)),
                   "cublasLtMatrixLayoutSetAttribute");
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
  }
};

/// What every matrix of the batch begins at a multiple of, in bytes; 256 is the most that matters.
uint32_t alignment(const void* data, int64_t batch_stride, DType dtype) {
  uint32_t bytes = 256;
  while (reinterpret_cast<uintptr_t>(data) % bytes != 0 ||
         batch_stride * static_cast<int64_t>(size_of(dtype)) % bytes != 0)
    bytes /= 2;
  return bytes;
}

/// What p asks for beside the product. x and y change places: zᵀ = yᵀ·xᵀ.
void set_operation(const Product& p, cublasLtMatmulDesc_t operation) {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check_status(library().MatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.y.by_rows() ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.x.by_rows() ? CUBLAS_OP_N : CUBLAS_OP_T);
  if (p.bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  }
}

/// A batch along one axis, as cuBLASLt knows it.
struct Strides {
  int64_t count = 1, x = 0, y = 0, z = 0;
};

void run(const Product& p, const Strides& batch, const void* x, const void* y, void* z) {
  const Library& lt = library();
  const bool wide = p.dtype == DType::float64;
  const Handle<cublasLtMatmulDesc_t> operation(lt.MatmulDescDestroy, lt.MatmulDescCreate,
                                               wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                               wide ? CUDA_R_64F : CUDA_R_32F);
  set_operation(p, operation);
  const auto layout = [&](const Operand& o, int64_t rows, int64_t columns, int64_t stride) {
    return o.by_rows() ? Layout(p.dtype, rows, columns, o.line(), batch.count, stride)
                       : Layout(p.dtype, columns, rows, o.line(), batch.count, stride);
  };
  const Layout of_x = layout(p.x, p.M, p.K, batch.x), of_y = layout(p.y, p.K, p.N, batch.y);
  const Layout of_z(p.out, p.M, p.N, p.M == 1 ? p.N : p.z.row, batch.count, batch.z);

  const Handle<cublasLtMatmulPreference_t> preference(lt.MatmulPreferenceDestroy, lt.MatmulPreferenceCreate);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_status(lt.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(y, batch.y, p.dtype));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(x, batch.x, p.dtype));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(z, batch.z, p.out));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(z, batch.z, p.out));

  const Context& c = context();
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  check_status(
      lt.MatmulAlgoGetHeuristic(c.handle, operation, of_y, of_x, of_z, of_z, preference, 1, &found, &count),
      "cublasLtMatmulAlgoGetHeuristic");
  check(count > 0, "matmul: cuBLASLt has no algorithm for [{}, {}]·[{}, {}] of {}", p.M, p.K, p.K, p.N,
        name(p.dtype));
  const double one64 = 1, add64 = p.add ? 1 : 0;
  const float one32 = 1, add32 = p.add ? 1 : 0;
  check_status(lt.Matmul(c.handle, operation, wide ? static_cast<const void*>(&one64) : &one32, y, of_y, x,
                         of_x, wide ? static_cast<const void*>(&add64) : &add32, z, of_z, z, of_z,
                         &found.algo, c.workspace, kWorkspace, selected_stream()),
               "cublasLtMatmul");
}

}  // namespace

std::string cublas_absence() { return library().absence; }

bool cublas_supports(const Product& p) {
  const bool bias = p.bias != nullptr;
  return is_floating(p.dtype) && p.K > 0 &&
         !(bias && (p.dtype == DType::float64 || p.add || p.out != p.dtype)) && cublas_absence().empty();
}

void cublas_matmul(const Product& p) {
  // The last leading axis is one call; a loop walks the others.
  Strides batch;
  if (p.lead > 0) {
    const int last = p.lead - 1;
    batch = {p.sizes[last], p.x.batch[last], p.y.batch[last], p.z.batch[last]};
  }
  const int64_t loops = p.batch() / batch.count;
  const auto at = [&](const void* data, const Operand& o, int64_t index, DType dtype) {
    int64_t offset = 0;
    for (int axis = p.lead - 2; axis >= 0; --axis) {
      offset += index % p.sizes[axis] * o.batch[axis];
      index /= p.sizes[axis];
    }
    return static_cast<const char*>(data) + offset * static_cast<int64_t>(size_of(dtype));
  };
  for (int64_t i = 0; i < loops; ++i)
    run(p, batch, at(p.x_data, p.x, i, p.dtype), at(p.y_data, p.y, i, p.dtype),
        const_cast<char*>(at(p.z_data, p.z, i, p.out)));
}

}  // namespace vitrine::cuda

#endif
