// Running sums: y[o, i, c] = Σ x[o, j, c] over j ≤ i.
//
//   If there are several columns, a thread goes down one column, and its neighbours down the next
//   columns. If there is only a row, a block takes one element per thread at a time. In five rounds
//   each lane adds the value of the lane 1, 2, 4, 8 and 16 before it, so that lane l has the sum of
//   lanes 0 … l (Hillis and Steele 1986). Then it adds the totals of the earlier warps and the
//   block's sum so far. Floats are summed in double.
#include "core/convert.h"
#include "cuda/block.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// The type of the result in memory, and the type of its sums. Integers wrap around.
template <class S>
using Element = std::conditional_t<is_floating(dtype_v<S>), S, int64_t>;
template <class S>
using Total = std::conditional_t<is_floating(dtype_v<S>), double, uint64_t>;

struct Scan {
  int64_t n, inner;
  bool exclusive, reverse;

  /// The offset of element i of the line that begins at `begin`.
  __device__ int64_t place(int64_t begin, int64_t i) const {
    return begin + (reverse ? n - 1 - i : i) * inner;
  }
};

template <class S>
__global__ void cumsum_columns_kernel(Element<S>* y, const S* x, int64_t lines, Scan scan) {
  for (int64_t line = first_index(); line < lines; line += grid_stride()) {
    const int64_t begin = line / scan.inner * scan.n * scan.inner + line % scan.inner;
    Total<S> total = 0;
    for (int64_t i = 0; i < scan.n; ++i) {
      const int64_t at = scan.place(begin, i);
      const Total<S> before = total;
      total += convert<Total<S>>(x[at]);
      y[at] = convert<Element<S>>(scan.exclusive ? before : total);
    }
  }
}

template <class S>
__global__ void __launch_bounds__(kMostThreads) cumsum_row_kernel(Element<S>* y, const S* x, Scan scan) {
  __shared__ Total<S> of_warp[kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  Total<S> carried = 0;
  for (int64_t first = 0; first < scan.n; first += blockDim.x) {
    const int64_t i = first + threadIdx.x, at = scan.place(int64_t{blockIdx.x} * scan.n, i);
    const Total<S> own = i < scan.n ? convert<Total<S>>(x[at]) : Total<S>(0);
    Total<S> up_to_here = own;
    for (unsigned step = 1; step < kWarp; step *= 2) {
      const Total<S> before = __shfl_up_sync(kAllLanes, up_to_here, step);
      if (lane >= step) up_to_here += before;
    }
    const Total<S> of_previous = __shfl_up_sync(kAllLanes, up_to_here, 1u);
    __syncthreads();  // all threads have read the totals of the last round
    if (lane == kWarp - 1) of_warp[warp] = up_to_here;
    __syncthreads();
    Total<S> before = carried;
    for (unsigned w = 0; w < blockDim.x / kWarp; ++w) {
      if (w < warp) before += of_warp[w];
      carried += of_warp[w];
    }
    const Total<S> in_warp = !scan.exclusive ? up_to_here : lane == 0 ? Total<S>(0) : of_previous;
    if (i < scan.n) y[at] = convert<Element<S>>(before + in_warp);
  }
}

}  // namespace

void cumsum(Tensor& y, const Tensor& x, bool exclusive, bool reverse) {
  if (x.numel() == 0) return;
  const Scan scan{x.size(1), x.size(2), exclusive, reverse};
  visit_device(x.dtype(), "cumsum", [&](auto type) {
    using S = typename decltype(type)::type;
    auto* const to = y.data<Element<S>>();
    const int64_t lines = x.size(0) * scan.inner;
    if (scan.inner == 1) {
      VITRINE_LAUNCH((cumsum_row_kernel<S>), grid_of(lines, "cumsum", "rows"), threads_for(scan.n), 0, to,
                     x.data<S>(), scan);
    } else {
      VITRINE_LAUNCH((cumsum_columns_kernel<S>), blocks_for(lines), kThreads, 0, to, x.data<S>(), lines,
                     scan);
    }
  });
}

}  // namespace vitrine::cuda
