// Reductions: y[o, i] = the fold of x[o, :, i] for x [outer, n, inner].
//
//   If inner is 1, a row is contiguous, and one block takes it: neighbouring threads read
//   neighbouring elements, and their results are merged at the end. Otherwise a row of threads
//   takes neighbouring columns, so that reads are also of neighbouring elements. Sums read 16 bytes
//   of a row, or 8 bytes of a row of columns, at a time: then a warp reads 256 bytes, and enough
//   rows are in flight. The rounding of a sum depends on the alignment of its row to 16 bytes. A
//   long fold is cut into pieces of a fixed length, one per block, so that a few long rows still
//   fill the GPU. The results of the pieces are folded in order. Such a tree also has smaller
//   rounding errors than one long sum.
#include "core/convert.h"
#include "core/creation.h"
#include "cuda/block.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

// A fold has
//   Total<S>        the partial result of elements of type S; Total<Total<S>> is Total<S>
//   none<T>()       the partial result of no elements
//   start(x, i)     the partial result of element i with value x
//   merge(a, b)     the partial result of both parts
//   finish<D>(t)    the result

struct Sum {
  template <class S>
  using Total = std::conditional_t<std::is_floating_point_v<AccumulatorOf<S>>, AccumulatorOf<S>, int64_t>;
  template <class T>
  static __device__ T none() {
    return T(0);
  }
  template <class T, class S>
  static __device__ T start(S x, int64_t) {
    return static_cast<T>(x);
  }
  template <class T>
  static __device__ T merge(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a + b;
    // Integers wrap around
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  template <class D, class T>
  static __device__ D finish(T total) {
    return total;
  }
};

/// Whether y replaces x: NaN takes precedence over every number.
template <bool kMax, class T>
__device__ bool beats(T y, T x) {
  return (kMax ? y > x : y < x) || (y != y && x == x);
}

template <bool kMax, class T>
__device__ T worst() {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::has_infinity) return kMax ? -Limits::infinity() : Limits::infinity();
  return kMax ? Limits::lowest() : Limits::max();
}

template <bool kMax>
struct Extreme {
  template <class S>
  using Total = std::conditional_t<sizeof(S) == 1, int32_t, AccumulatorOf<S>>;
  template <class T>
  static __device__ T none() {
    return worst<kMax, T>();
  }
  template <class T, class S>
  static __device__ T start(S x, int64_t) {
    return static_cast<T>(x);
  }
  template <class T>
  static __device__ T merge(T a, T b) {
    return beats<kMax>(b, a) ? b : a;
  }
  template <class D, class T>
  static __device__ D finish(T total) {
    return convert<D>(total);
  }
};

/// A candidate for the extreme element.
template <class T>
struct Place {
  T value;
  int64_t index;
};
template <class S>
struct PlaceOf {
  using type = Place<std::conditional_t<sizeof(S) == 1, int64_t, AccumulatorOf<S>>>;
};
template <class T>
struct PlaceOf<Place<T>> {
  using type = Place<T>;
};

template <bool kMax>
struct WhereExtreme {
  template <class S>
  using Total = typename PlaceOf<S>::type;
  template <class T>
  static __device__ T none() {
    return {worst<kMax, decltype(T::value)>(), INT64_MAX};
  }
  template <class T, class S>
  static __device__ T start(S x, int64_t index) {
    if constexpr (std::is_same_v<T, S>)
      return x;
    else
      return {static_cast<decltype(T::value)>(x), index};
  }
  /// Of equal elements, and of NaNs, the first.
  template <class T>
  static __device__ T merge(T a, T b) {
    if (beats<kMax>(a.value, b.value)) return a;
    if (beats<kMax>(b.value, a.value)) return b;
    return a.index < b.index ? a : b;
  }
  template <class D, class T>
  static __device__ D finish(T total) {
    return total.index;
  }
};

/// With kAll: whether Holds is true for every element; otherwise, for any element.
template <bool kAll, class Holds>
struct Truth {
  template <class S>
  using Total = int32_t;
  template <class T>
  static __device__ T none() {
    return kAll;
  }
  template <class T, class S>
  static __device__ T start(S x, int64_t) {
    return Holds::test(x);
  }
  template <class T>
  static __device__ T merge(T a, T b) {
    return kAll ? a & b : a | b;
  }
  template <class D, class T>
  static __device__ D finish(T total) {
    return total != 0;
  }
};
struct NotZero {
  template <class S>
  static __device__ bool test(S x) {
    return convert<bool>(x);
  }
};
struct Finite {
  template <class S>
  static __device__ bool test(S x) {
    if constexpr (std::is_same_v<S, int32_t>)
      return x != 0;  // of a piece
    else
      return math::is_finite(static_cast<AccumulatorOf<S>>(x));
  }
};

template <class Fold, class S, class D>
__device__ void store(D& y, const typename Fold::template Total<S>& total) {
  if constexpr (std::is_same_v<D, typename Fold::template Total<S>>)
    y = total;
  else
    y = Fold::template finish<D>(total);
}

/// The shape of a pass over pieces: block b handles piece b % pieces of row (or stripe of columns)
/// b / pieces.
struct Pass {
  int64_t n, inner, height, pieces, stripes = 1;
};

/// Whether a thread reads several elements at once. Other folds are rare, and this would double
/// their compile time.
template <class Fold>
constexpr bool kReadsVectors = std::is_same_v<Fold, Sum>;

template <class Fold, class S, class D>
__global__ void __launch_bounds__(kMostThreads) fold_rows_kernel(D* y, const S* x, Pass pass) {
  using Total = typename Fold::template Total<S>;
  const int64_t row = blockIdx.x / pass.pieces, begin = blockIdx.x % pass.pieces * pass.height;
  const int64_t end = begin + pass.height < pass.n ? begin + pass.height : pass.n;
  Total mine = Fold::template none<Total>();
  if constexpr (kReadsVectors<Fold>)
    for_each_element(
        end - begin, [&](S x) { mine = Fold::merge(mine, Fold::template start<Total>(x, 0)); },
        x + row * pass.n + begin);
  else
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
      mine = Fold::merge(mine, Fold::template start<Total>(x[row * pass.n + i], i));
  mine = merge_block(mine, [](Total a, Total b) { return Fold::merge(a, b); });
  if (threadIdx.x == 0) store<Fold, S>(y[blockIdx.x], mine);
}

/// N: columns of a thread.
template <class Fold, int N, class S, class D>
__global__ void fold_columns_kernel(D* y, const S* x, Pass pass) {
  using Total = typename Fold::template Total<S>;
  const int64_t piece = blockIdx.x / pass.stripes, outer = piece / pass.pieces;
  const int64_t column = (blockIdx.x % pass.stripes * kWarp + threadIdx.x) * N;
  const int64_t begin = piece % pass.pieces * pass.height;
  const int64_t end = begin + pass.height < pass.n ? begin + pass.height : pass.n;
  Total mine[N];
  for (Total& of_column : mine) of_column = Fold::template none<Total>();
  if (column < pass.inner)
#pragma unroll 4
    for (int64_t i = begin + threadIdx.y; i < end; i += blockDim.y) {
      const Vector<S, N> row = load<N>(x + (outer * pass.n + i) * pass.inner + column);
#pragma unroll
      for (int k = 0; k < N; ++k) mine[k] = Fold::merge(mine[k], Fold::template start<Total>(row.at[k], i));
    }
  Vector<D, N> results;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    mine[k] = merge_column(mine[k], [](Total a, Total b) { return Fold::merge(a, b); });
    store<Fold, S>(results.at[k], mine[k]);
  }
  if (threadIdx.y == 0 && column < pass.inner) store(y + piece * pass.inner + column, results);
}

template <class Fold, class S, class D>
void fold_pieces(D* y, const S* x, int64_t outer, Pass pass) {
  constexpr int N = kReadsVectors<Fold> && sizeof(S) < 8 ? 8 / sizeof(S) : 1;
  const bool wide = N > 1 && pass.inner > 1 && pass.inner % N == 0 && is_aligned<N>(x) && is_aligned<N>(y);
  if (pass.inner > 1) pass.stripes = (pass.inner / (wide ? N : 1) + kWarp - 1) / kWarp;
  const int64_t blocks = outer * pass.pieces * pass.stripes;
  check(blocks <= INT32_MAX, "{}: a reduction of {} rows of {} is more than a grid of blocks holds",
        detail::KernelScope::innermost(), outer, pass.n);
  if (pass.inner == 1) {
    VITRINE_LAUNCH((fold_rows_kernel<Fold, S, D>), static_cast<unsigned>(blocks),
                   threads_for(pass.n < pass.height ? pass.n : pass.height), 0, y, x, pass);
  } else {
    const auto launch = [&](auto lanes) {
      VITRINE_LAUNCH((fold_columns_kernel<Fold, lanes, S, D>), static_cast<unsigned>(blocks),
                     dim3(kWarp, kDeep), 0, y, x, pass);
    };
    wide ? launch(Lanes<N>()) : launch(Lanes<1>());
  }
}

template <class Fold, class S, class D>
void fold(D* y, const S* x, int64_t outer, int64_t n, int64_t inner, Device device) {
  using Total = typename Fold::template Total<S>;
  if (outer * inner == 0) return;
  const int64_t height = inner == 1 ? 1 << 14 : 128, pieces = n <= height ? 1 : (n + height - 1) / height;
  const Pass pass{n, inner, height, pieces};
  if (pieces == 1) return fold_pieces<Fold>(y, x, outer, pass);
  const Tensor room =
      empty({outer * pieces * inner * static_cast<int64_t>(sizeof(Total))}, DType::boolean, device);
  auto* const totals = static_cast<Total*>(room.raw());
  fold_pieces<Fold>(totals, x, outer, pass);
  fold<Fold>(y, static_cast<const Total*>(totals), outer, pieces, inner, device);
}

template <class Fold, class D, class S>
void fold(Tensor& y, const Tensor& x) {
  fold<Fold>(y.data<D>(), static_cast<const S*>(x.data<S>()), x.size(0), x.size(1), x.size(2), x.device());
}

template <bool kMax>
void extreme(const char* kernel, Tensor& y, const Tensor& x) {
  visit_device(x.dtype(), kernel, [&](auto type) {
    using S = typename decltype(type)::type;
    fold<Extreme<kMax>, S, S>(y, x);
  });
}

template <bool kMax>
void where_extreme(const char* kernel, Tensor& y, const Tensor& x) {
  visit_device(x.dtype(), kernel,
               [&](auto type) { fold<WhereExtreme<kMax>, int64_t, typename decltype(type)::type>(y, x); });
}

template <bool kAll>
void truth(const char* kernel, Tensor& y, const Tensor& x) {
  visit_device(x.dtype(), kernel,
               [&](auto type) { fold<Truth<kAll, NotZero>, bool, typename decltype(type)::type>(y, x); });
}

}  // namespace

void sum(Tensor& y, const Tensor& x) {
  visit_device(x.dtype(), "sum", [&](auto type) {
    using S = typename decltype(type)::type;
    fold<Sum, Sum::Total<S>, S>(y, x);
  });
}

void max(Tensor& y, const Tensor& x) { extreme<true>("max", y, x); }
void min(Tensor& y, const Tensor& x) { extreme<false>("min", y, x); }
void argmax(Tensor& y, const Tensor& x) { where_extreme<true>("argmax", y, x); }
void argmin(Tensor& y, const Tensor& x) { where_extreme<false>("argmin", y, x); }
void any(Tensor& y, const Tensor& x) { truth<false>("any", y, x); }
void all(Tensor& y, const Tensor& x) { truth<true>("all", y, x); }

void all_finite(Tensor& finite, const Tensor& x) {
  Tensor row = x;
  if (!x.is_contiguous()) copy(row = empty(x.shape(), x.dtype(), x.device()), x);
  visit_device_floating(x.dtype(), "all_finite", [&](auto type) {
    using S = typename decltype(type)::type;
    fold<Truth<true, Finite>>(finite.data<bool>(), static_cast<const S*>(row.data<S>()), 1, x.numel(), 1,
                              x.device());
  });
}

}  // namespace vitrine::cuda
