// Sums of diagonals. A thread owns one diagonal. Neighbouring threads read neighbouring elements of
// a row.
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class T>
__global__ void sum_diagonals_kernel(T* y, const T* x, int64_t rows, int64_t columns, int64_t total) {
  const int64_t count = rows + columns - 1;
  for (int64_t at = first_index(); at < total; at += grid_stride()) {
    const T* const matrix = x + at / count * rows * columns;
    T sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t j = at % count + i - (rows - 1);
      if (j >= 0 && j < columns) sum += matrix[i * columns + j];
    }
    y[at] = sum;
  }
}

}  // namespace

void sum_diagonals(Tensor& y, const Tensor& x) {
  if (x.numel() == 0) return;
  visit_device_wide(x.dtype(), "sum_diagonals", [&]<class T>(Type<T>) {
    VITRINE_LAUNCH((sum_diagonals_kernel<T>), blocks_for(y.numel()), kThreads, 0, y.data<T>(), x.data<T>(),
                   x.size(-2), x.size(-1), y.numel());
  });
}

}  // namespace vitrine::cuda
