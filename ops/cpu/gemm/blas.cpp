// The matrix product through OpenBLAS: float64 everywhere, and every type on CPUs for which this
// folder has no kernels. 16-bit operands are first converted to float.
#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <mutex>

#include "ops/cpu/gemm/task.h"

// Weak symbols, because another BLAS that is linked instead of OpenBLAS does not have them.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int count);
extern "C" __attribute__((weak)) int openblas_get_parallel();

namespace vitrine::cpu {
namespace {

/// Keeps OpenBLAS on the calling thread. The threads of parallel_for call it on one block each, so
/// OpenBLAS must not use its own threads: they would compete for the cores, and the bits of a
/// result would depend on their number. The method depends on the OpenBLAS build:
///   pthread  openblas_set_num_threads(1) holds for all calls.
///   OpenMP   Each call reads the calling thread's OpenMP setting, which is therefore 1 while an
///            object of this class exists.
///   serial   Calls take turns, since without locks two of them could use the same work buffer.
class OneBlasThread {
 public:
  OneBlasThread() {
    static const int build = openblas_get_parallel != nullptr ? openblas_get_parallel() : OPENBLAS_THREAD;
    static const bool once =
        (openblas_set_num_threads != nullptr ? openblas_set_num_threads(1) : void(), true);
    static_cast<void>(once);
    if (build == OPENBLAS_SEQUENTIAL) turn_.lock();
    if (build == OPENBLAS_OPENMP && openmp().set != nullptr) {
      before_ = openmp().get();
      openmp().set(1);
    }
  }
  ~OneBlasThread() {
    if (before_ != 0) openmp().set(before_);
  }
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;

 private:
  /// The OpenMP runtime that OpenBLAS has loaded. This library is not linked to one.
  struct OpenMp {
    int (*get)();
    void (*set)(int);
  };
  static const OpenMp& openmp() {
    static const OpenMp functions = {
        reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads")),
        reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))};
    return functions;
  }
  static std::mutex& serial() {
    static std::mutex mutex;
    return mutex;
  }
  std::unique_lock<std::mutex> turn_{serial(), std::defer_lock};
  int before_ = 0;
};

CBLAS_TRANSPOSE flag(Trans t) { return t == Trans::yes ? CblasTrans : CblasNoTrans; }

void product(Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, float alpha, const float* A, int64_t lda,
             const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, flag(ta), flag(tb), M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
void product(Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, double alpha, const double* A, int64_t lda,
             const double* B, int64_t ldb, double beta, double* C, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, flag(ta), flag(tb), M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

/// A float copy of rows [0, rows) by [0, columns) of x, without gaps.
template <class T>
const float* widened(Scratch slot, const T* x, int64_t ldx, int64_t rows, int64_t columns) {
  float* to = scratch(slot, rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = static_cast<float>(x[i * ldx + j]);
  return to;
}

template <class T>
void add_bias(const GemmTask<T, T>& t) {
  if (t.epilogue.bias == nullptr) return;
  for (int64_t i = 0; i < t.M; ++i)
    for (int64_t j = 0; j < t.N; ++j) t.C[i * t.ldc + j] += t.epilogue.bias[j];
}

/// BLAS refuses a distance less than the length of a row even if there is only one row, where
/// gemm() accepts any.
int64_t leading(int64_t ld, int64_t columns) { return std::max<int64_t>({ld, columns, 1}); }

/// float and double are passed unchanged.
template <class T>
void wide_product(const GemmTask<T, T>& t) {
  product(t.ta, t.tb, t.M, t.N, t.K, t.alpha, t.A, leading(t.lda, t.ta == Trans::yes ? t.M : t.K), t.B,
          leading(t.ldb, t.tb == Trans::yes ? t.K : t.N), t.beta, t.C, leading(t.ldc, t.N));
  add_bias(t);
}

/// 16-bit A and B; C of float or 16 bits.
template <class T, class TC>
void narrow_product(const GemmTask<T, TC>& t) {
  const bool ta = t.ta == Trans::yes, tb = t.tb == Trans::yes;
  const int64_t a_rows = ta ? t.K : t.M, a_columns = ta ? t.M : t.K;
  const int64_t b_rows = tb ? t.N : t.K, b_columns = tb ? t.K : t.N;
  const float* a = widened(Scratch::a, t.A, t.lda, a_rows, a_columns);
  const float* b = widened(Scratch::b, t.B, t.ldb, b_rows, b_columns);
  float* sums = scratch(Scratch::c, t.M * t.N);
  product(t.ta, t.tb, t.M, t.N, t.K, t.alpha, a, std::max<int64_t>(a_columns, 1), b,
          std::max<int64_t>(b_columns, 1), 0.0f, sums, t.N);
  for (int64_t i = 0; i < t.M; ++i) {
    for (int64_t j = 0; j < t.N; ++j) {
      TC& c = t.C[i * t.ldc + j];
      float x = sums[i * t.N + j];
      if (t.beta != 0) x += t.beta * static_cast<float>(c);
      if (t.epilogue.bias != nullptr) x += static_cast<float>(t.epilogue.bias[j]);
      c = static_cast<TC>(x);
    }
  }
}

}  // namespace

template <class T, class TC>
void blas::gemm(const GemmTask<T, TC>& task) {
  {
    const OneBlasThread guard;
    if constexpr (std::is_same_v<T, AccumulatorOf<T>>)
      wide_product(task);
    else
      narrow_product(task);
  }
  task.finish(0, task.M, 0, task.N);
}
template void blas::gemm(const GemmTask<float, float>&);
template void blas::gemm(const GemmTask<double, double>&);
template void blas::gemm(const GemmTask<bfloat16, float>&);
template void blas::gemm(const GemmTask<bfloat16, bfloat16>&);
template void blas::gemm(const GemmTask<float16, float>&);
template void blas::gemm(const GemmTask<float16, float16>&);

}  // namespace vitrine::cpu
