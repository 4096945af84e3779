// NVIDIA's cuBLASLt, which chooses among its own kernels: the comparison for the ladder. cuBLASLt
// is asked once which kernel is best for a product. The answer is stored as a plan, for all
// products of the same sizes and layouts.
#include "cuda/launch.h"
#include "cuda/matmul/steps.h"

#if VITRINE_CUDA_EMULATED

namespace vitrine::cuda {

bool cublas_supports(const Product&) { return false; }
std::string cublas_refusal(const Product&) { return ""; }
void cublas_matmul(const Product&) { fail("matmul: {}", cublas_absence()); }

}  // namespace vitrine::cuda

#else

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "core/creation.h"
#include "core/kernel_macros.h"
#include "cuda/matmul/cublas_library.h"

namespace vitrine::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t{32} << 20;

/// The first failed call of several, and its status.
struct Outcome {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const char* call = "";

  bool is_success() const { return status == CUBLAS_STATUS_SUCCESS; }
  void add(cublasStatus_t next, const char* name) {
    if (is_success()) status = next, call = name;
  }
  std::string text() const {
    return fmt::format("cuBLASLt: {}: {}", call, cublas_library().GetStatusString(status));
  }
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

bool is_wide(const Product& p) { return p.dtype == DType::float64; }
/// Elements from one row of z to the next.
int64_t row_of_z(const Product& p) { return p.M == 1 ? p.N : p.z.row; }
/// cuBLASLt's name for the dtype of the result.
void* result(const Product& p) { return p.active != nullptr ? p.active : p.z_data; }

/// A batch along one axis, as cuBLASLt supports it.
struct Strides {
  int64_t count = 1, x = 0, y = 0, z = 0;

  /// The last leading axis.
  static Strides of(const Product& p) {
    const int last = p.lead - 1;
    return last < 0 ? Strides{} : Strides{p.sizes[last], p.x.batch[last], p.y.batch[last], p.z.batch[last]};
  }
};

/// The alignment of every matrix of the batch, in bytes; more than 256 makes no difference.
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

struct Alignments {
  uint32_t x, y, z;

  /// The alignment of z also covers the bias and the result, because cuBLASLt has only this number.
  explicit Alignments(const Product& p)
      : x(alignment(p.x_data, p.x, p.dtype)),
        y(alignment(p.y_data, p.y, p.dtype)),
        z(std::min({alignment(p.z_data, p.z, p.out), alignment(result(p), p.z, p.out),
                    alignment(p.bias, Operand{}, p.dtype)})) {}
};

/// A matrix for a column-major library, which sees the transposed matrix: its columns are our rows.
class Layout {
 public:
  Layout(DType dtype, int64_t rows, int64_t columns, int64_t line, int64_t count, int64_t stride,
         Outcome& outcome) {
    const CublasLibrary& lt = cublas_library();
    outcome.add(
        lt.MatrixLayoutInit_internal(&layout_, sizeof(layout_), type_of(dtype),
                                     static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), line),
        "cublasLtMatrixLayoutInit");
    const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      outcome.add(lt.MatrixLayoutSetAttribute(&layout_, attribute, &value, sizeof(value)),
                  "cublasLtMatrixLayoutSetAttribute");
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(count));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  /// An operand of p; transposed once more if its columns are contiguous.
  Layout(const Product& p, const Operand& o, int64_t rows, int64_t columns, int64_t count, int64_t stride,
         Outcome& outcome)
      : Layout(p.dtype, o.by_rows() ? rows : columns, o.by_rows() ? columns : rows, o.line(), count, stride,
               outcome) {}

  cublasLtMatrixLayout_t get() const { return &layout_; }

 private:
  mutable cublasLtMatrixLayoutOpaque_t layout_;  // cublasLt.h knows no const
};

/// The operation of p: bias, activation and pointers. x and y are exchanged: zᵀ = yᵀ·xᵀ.
class Operation {
 public:
  Operation(const Product& p, Outcome& outcome) {
    const CublasLibrary& lt = cublas_library();
    outcome.add(lt.MatmulDescInit_internal(&operation_, sizeof(operation_),
                                           is_wide(p) ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                           is_wide(p) ? CUDA_R_64F : CUDA_R_32F),
                "cublasLtMatmulDescInit");
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      outcome.add(lt.MatmulDescSetAttribute(&operation_, attribute, &value, sizeof(value)),
                  "cublasLtMatmulDescSetAttribute");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.y.by_rows() ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.x.by_rows() ? CUBLAS_OP_N : CUBLAS_OP_T);
    const bool bias = p.bias != nullptr;
    if (bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    if (p.active != nullptr) {  // the result is the activation, z is auxiliary
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.z_data);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, row_of_z(p));
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX);
    } else if (bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    }
  }

  cublasLtMatmulDesc_t get() { return &operation_; }

 private:
  cublasLtMatmulDescOpaque_t operation_;
};

/// How cuBLASLt computes a product: one call for all matrices along the last leading axis.
class Plan {
 public:
  explicit Plan(const Product& p)
      : batch_(Strides::of(p)),
        x_(p, p.x, p.M, p.K, batch_.count, batch_.x, outcome_),
        y_(p, p.y, p.K, p.N, batch_.count, batch_.y, outcome_),
        z_(p.out, p.M, p.N, row_of_z(p), batch_.count, batch_.z, outcome_) {
    choose(p);
  }

  /// Whether there is an algorithm for this product.
  bool exists() const { return outcome_.is_success() && found_ > 0; }
  /// The error, or "". The absence of an algorithm is no error.
  std::string refusal() const {
    return outcome_.is_success() || outcome_.status == CUBLAS_STATUS_NOT_SUPPORTED ? "" : outcome_.text();
  }

  void run(const Product& p) const {
    Outcome outcome;
    Operation operation(p, outcome);
    check(outcome.is_success(), "matmul: {}", outcome.text());
    const int64_t calls = p.batch() / batch_.count;
    const Tensor workspace = algorithm_.workspaceSize == 0 ? Tensor() : take_workspace();
    for (int64_t i = 0; i < calls; ++i)
      multiply(p, operation, at(p, p.x_data, p.x, i, p.dtype), at(p, p.y_data, p.y, i, p.dtype),
               const_cast<char*>(at(p, result(p), p.z, i, p.out)),
               workspace.defined() ? workspace.raw() : nullptr);
  }

 private:
  void choose(const Product& p) {
    const CublasLibrary& lt = cublas_library();
    Operation operation(p, outcome_);
    cublasLtMatmulPreferenceOpaque_t preference;
    outcome_.add(lt.MatmulPreferenceInit_internal(&preference, sizeof(preference)),
                 "cublasLtMatmulPreferenceInit");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      outcome_.add(lt.MatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    const Alignments aligned(p);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    // If k is split, the parts of a sum are added in float32, not in the dtype of z.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.y);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.x);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.z);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.z);
    if (!outcome_.is_success()) return;
    outcome_.add(lt.MatmulAlgoGetHeuristic(cublas_handle().handle, operation.get(), y_.get(), x_.get(),
                                           z_.get(), z_.get(), &preference, 1, &algorithm_, &found_),
                 "cublasLtMatmulAlgoGetHeuristic");
  }

  /// The workspace, from the allocator: the next product of the stream may use it at once, and in a
  /// graph it is part of the graph's memory.
  Tensor take_workspace() const {
    return empty({static_cast<int64_t>(algorithm_.workspaceSize)}, DType::boolean,
                 {DeviceKind::cuda, static_cast<int8_t>(current_device())});
  }

  /// The matrices of call i.
  static const char* at(const Product& p, const void* data, const Operand& o, int64_t i, DType dtype) {
    int64_t offset = 0;
    for (int axis = p.lead - 2; axis >= 0; --axis) {
      offset += i % p.sizes[axis] * o.batch[axis];
      i /= p.sizes[axis];
    }
    return static_cast<const char*>(data) + offset * static_cast<int64_t>(size_of(dtype));
  }

  void multiply(const Product& p, Operation& operation, const void* x, const void* y, void* z,
                void* workspace) const {
    const double one64 = 1, add64 = p.add ? 1 : 0;
    const float one32 = 1, add32 = p.add ? 1 : 0;
    Outcome outcome;
    outcome.add(cublas_library().Matmul(cublas_handle().handle, operation.get(),
                                        is_wide(p) ? static_cast<const void*>(&one64) : &one32, y, y_.get(),
                                        x, x_.get(), is_wide(p) ? static_cast<const void*>(&add64) : &add32,
                                        z, z_.get(), z, z_.get(), &algorithm_.algo, workspace,
                                        algorithm_.workspaceSize, selected_stream()),
                "cublasLtMatmul");
    if (!outcome.is_success()) {
      const std::string op = detail::KernelScope::innermost();
      fail("{}: {}", op.empty() ? "matmul" : op, outcome.text());
    }
    check_launch("cublasLtMatmul");
  }

  Outcome outcome_;
  const Strides batch_;
  const Layout x_, y_, z_;
  cublasLtMatmulHeuristicResult_t algorithm_{};
  int found_ = 0;
};

/// Everything that a plan depends on.
using Key = std::array<int64_t, 20>;
Key key_of(const Product& p) {
  const Strides s = Strides::of(p);
  const Alignments aligned(p);
  return {current_device(),
          static_cast<int64_t>(p.dtype),
          static_cast<int64_t>(p.out),
          p.bias != nullptr,
          p.active != nullptr,
          p.M,
          p.N,
          p.K,
          s.count,
          s.x,
          s.y,
          s.z,
          p.x.by_rows(),
          p.x.line(),
          p.y.by_rows(),
          p.y.line(),
          row_of_z(p),
          aligned.x,
          aligned.y,
          aligned.z};
}

std::shared_ptr<const Plan> plan_of(const Product& p) {
  constexpr size_t kMostPlans = 4096;  // sizes may grow with each token
  static std::mutex mutex;
  static std::map<Key, std::shared_ptr<const Plan> > plans;
  const Key key = key_of(p);
  const std::lock_guard lock(mutex);
  if (plans.size() > kMostPlans) plans.clear();
  std::shared_ptr<const Plan>& plan = plans[key];
  if (plan == nullptr) plan = std::make_shared<const Plan>(p);
  return plan;
}

/// Whether a plan may exist.
bool may_support(const Product& p) {
  const bool bias = p.bias != nullptr, gelu = p.active != nullptr;
  return is_floating(p.dtype) && p.K > 0 &&
         !((bias || gelu) && (p.dtype == DType::float64 || p.add || p.out != p.dtype)) &&
         !(gelu && (p.lead > 0 || row_of_z(p) % 8 != 0 || !is_low_precision(p.dtype))) &&
         cublas_handle().absence.empty();
}

}  // namespace

bool cublas_supports(const Product& p) { return may_support(p) && plan_of(p)->exists(); }
std::string cublas_refusal(const Product& p) { return may_support(p) ? plan_of(p)->refusal() : ""; }
void cublas_matmul(const Product& p) { plan_of(p)->run(p); }

}  // namespace vitrine::cuda

#endif
