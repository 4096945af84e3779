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

#include <algorithm>
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
uint32_t alignment(const void* data, const Operand& o, DType dtype) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  uint32_t bytes = 256;
  const auto is_multiple = [&] {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0 &&
           std::ranges::all_of(o.batch, [&](int64_t stride) { return stride * size % bytes == 0; });
  };
  while (!is_multiple()) bytes /= 2;
  return bytes;
}

/// Elements from one row of z to the next.
int64_t row_of_z(const Product& p) { return p.M == 1 ? p.N : p.z.row; }

/// What p asks for beside the product. x and y change places: zᵀ = yᵀ·xᵀ.
void set_operation(const Product& p, cublasLtMatmulDesc_t operation) {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check_status(library().MatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.y.by_rows() ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.x.by_rows() ? CUBLAS_OP_N : CUBLAS_OP_T);
  const bool bias = p.bias != nullptr;
  if (bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.active != nullptr) {  // its result is the activation then, and z what is beside it
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.z_data);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, row_of_z(p));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX);
  } else if (bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  }
}

/// What cuBLASLt calls its result.
void* result(const Product& p) { return p.active != nullptr ? p.active : p.z_data; }

/// A batch along one axis, as cuBLASLt knows it.
struct Strides {
  int64_t count = 1, x = 0, y = 0, z = 0;

  /// The last leading axis.
  static Strides of(const Product& p) {
    const int last = p.lead - 1;
    return last < 0 ? Strides{} : Strides{p.sizes[last], p.x.batch[last], p.y.batch[last], p.z.batch[last]};
  }
};

Layout layout_of(const Product& p, const Operand& o, int64_t rows, int64_t columns, int64_t count,
                 int64_t stride) {
  return o.by_rows() ? Layout(p.dtype, rows, columns, o.line(), count, stride)
                     : Layout(p.dtype, columns, rows, o.line(), count, stride);
}

/// How cuBLASLt multiplies: one call for all matrices along the last leading axis.
class Plan {
 public:
  explicit Plan(const Product& p)
      : p_(p),
        batch_(Strides::of(p)),
        operation_(lt_.MatmulDescDestroy, lt_.MatmulDescCreate,
                   is_wide() ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, is_wide() ? CUDA_R_64F : CUDA_R_32F),
        x_(layout_of(p, p.x, p.M, p.K, batch_.count, batch_.x)),
        y_(layout_of(p, p.y, p.K, p.N, batch_.count, batch_.y)),
        z_(p.out, p.M, p.N, row_of_z(p), batch_.count, batch_.z) {
    set_operation(p, operation_);
    choose();
  }

  int64_t calls() const { return p_.batch() / batch_.count; }
  /// Whether there is an algorithm for this product.
  bool exists() const { return exists_; }

  void run(const void* x, const void* y, void* z) const {
    const double one64 = 1, add64 = p_.add ? 1 : 0;
    const float one32 = 1, add32 = p_.add ? 1 : 0;
    check_status(
        lt_.Matmul(context_.handle, operation_, is_wide() ? static_cast<const void*>(&one64) : &one32, y, y_,
                   x, x_, is_wide() ? static_cast<const void*>(&add64) : &add32, z, z_, z, z_,
                   &algorithm_.algo, context_.workspace, kWorkspace, selected_stream()),
        "cublasLtMatmul");
  }

 private:
  bool is_wide() const { return p_.dtype == DType::float64; }

  void choose() {
    const Handle<cublasLtMatmulPreference_t> preference(lt_.MatmulPreferenceDestroy,
                                                        lt_.MatmulPreferenceCreate);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_status(lt_.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Where k is split, the parts of a sum are added as float32 and not as z is stored.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p_.y_data, p_.y, p_.dtype));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p_.x_data, p_.x, p_.dtype));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(result(p_), p_.z, p_.out));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(result(p_), p_.z, p_.out));
    int count = 0;
    const cublasStatus_t status = lt_.MatmulAlgoGetHeuristic(context_.handle, operation_, y_, x_, z_, z_,
                                                             preference, 1, &algorithm_, &count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_status(status, "cublasLtMatmulAlgoGetHeuristic");
    exists_ = status == CUBLAS_STATUS_SUCCESS && count > 0;
  }

  const Library& lt_ = library();
  const Context& context_ = context();
  const Product& p_;
  const Strides batch_;
  const Handle<cublasLtMatmulDesc_t> operation_;
  const Layout x_, y_, z_;
  cublasLtMatmulHeuristicResult_t algorithm_;
  bool exists_ = false;
};

}  // namespace

std::string cublas_absence() { return library().absence; }

bool cublas_supports(const Product& p) {
  const bool bias = p.bias != nullptr, gelu = p.active != nullptr;
  return is_floating(p.dtype) && p.K > 0 &&
         !((bias || gelu) && (p.dtype == DType::float64 || p.add || p.out != p.dtype)) &&
         !(gelu && (p.lead > 0 || row_of_z(p) % 8 != 0 || !is_low_precision(p.dtype))) &&
         cublas_absence().empty();
}

/// What it has no algorithm for is left to the next step.
void cublas_matmul(const Product& p) {
  const Plan plan(p);
  if (!plan.exists()) return choose_matmul("hopper", p).run(p);
  const auto at = [&](const void* data, const Operand& o, int64_t index, DType dtype) {
    int64_t offset = 0;
    for (int axis = p.lead - 2; axis >= 0; --axis) {
      offset += index % p.sizes[axis] * o.batch[axis];
      index /= p.sizes[axis];
    }
    return static_cast<const char*>(data) + offset * static_cast<int64_t>(size_of(dtype));
  };
  for (int64_t i = 0; i < plan.calls(); ++i)
    plan.run(at(p.x_data, p.x, i, p.dtype), at(p.y_data, p.y, i, p.dtype),
             const_cast<char*>(at(result(p), p.z, i, p.out)));
}

}  // namespace vitrine::cuda

#endif
