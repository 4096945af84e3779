// Sums of diagonals: each row of a matrix is added to a part of the result.
#include <algorithm>

#include "core/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/kernels.h"

namespace vitrine::cpu {
namespace {

template <class T>
void sums(Tensor& y, const Tensor& x) {
  const int64_t rows = x.size(-2), columns = x.size(-1), count = rows + columns - 1;
  parallel_for(0, x.numel() / (rows * columns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      T* const to = y.data<T>() + n * count;
      std::fill_n(to, count, T(0));
      for (int64_t i = 0; i < rows; ++i) {
        const T* const row = x.data<T>() + (n * rows + i) * columns;
        T* const part = to + rows - 1 - i;
        for (int64_t j = 0; j < columns; ++j) part[j] += row[j];
      }
    }
  });
}

}  // namespace

void sum_diagonals(Tensor& y, const Tensor& x) {
  if (x.numel() == 0) return;
  visit_wide(x.dtype(), "sum_diagonals", [&]<class T>(Type<T>) { sums<T>(y, x); });
}

}  // namespace vitrine::cpu
