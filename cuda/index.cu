// Checking of indices; reading and adding by index.
//
//   gather:      y[…, i, …] = x[…, index[…, i, …], …]
//   scatter_add: y[…, index[…, i, …], …] += source[…, i, …]
//
// For reading there is one thread per element. Adding is harder: two threads may add to one
// element, and atomics would add in another order in every run. So the indices are sorted first
// (cuda/sort.cu: stable). Then equal indices are neighbours, in their original order. The thread at
// the beginning of a run of equal indices adds the whole run, alone.
#include <algorithm>
#include <utility>

#include "core/convert.h"
#include "core/creation.h"
#include "cuda/block.h"
#include "cuda/runtime/device_error.h"
#include "cuda/strided.h"
#include "cuda/vector.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// IndexRule, for a kernel.
struct Range {
  HostText op, argument;
  int64_t low, limit, except;
  bool has_except;
};

template <class I>
__global__ void check_index_kernel(int64_t* y, const I* index, Strided<1> layout, Range range,
                                   DeviceError* error) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[1];
    layout.locate(i, at);
    const auto x = static_cast<int64_t>(index[at[0]]);
    const bool excepted = range.has_except && x == range.except;
    if (excepted || (x >= range.low && x < range.limit)) {
      y[i] = x < 0 && !excepted ? x + range.limit : x;
      continue;
    }
    y[i] = range.has_except ? range.except : 0;
    leave(error, {.op = range.op,
                  .argument = range.argument,
                  .index = x,
                  .position = i,
                  .low = range.low,
                  .high = range.limit});
  }
}

/// Element i of `index` (contiguous) selects places[at[1]]; at[0] is the destination.
template <class S>
__global__ void gather_kernel(S* y, const S* x, const int64_t* index, Strided<3> layout, int64_t step) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[3];
    layout.locate(i, at);
    y[at[0]] = x[at[1] + index[at[2]] * step];
  }
}

/// For index [lines, n] and order, the places of each line's indices in sorted order.
template <class S>
__global__ void scatter_add_kernel(AccumulatorOf<S>* y, const S* source, const int64_t* index,
                                   const int64_t* order, Strided<2> layout, int64_t n, int64_t y_step,
                                   int64_t source_step) {
  using T = AccumulatorOf<S>;
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    const int64_t line = i - i % n, end = line + n, place = index[line + order[i]];
    // An earlier thread adds this element
    if (i > line && index[line + order[i - 1]] == place) continue;
    int64_t at[2];
    layout.locate(line, at);
    T& sum = y[at[0] + place * y_step];
    T total = sum;
    for (int64_t next = i; next < end && index[line + order[next]] == place; ++next)
      total += convert<T>(source[at[1] + order[next] * source_step]);
    sum = total;
  }
}

template <class S>
__global__ void gather_rows_kernel(S* y, const S* x, const int64_t* rows, int64_t width, int64_t count) {
  for (int64_t i = first_index(); i < count; i += grid_stride())
    y[i] = x[rows[i / width] * width + i % width];
}

constexpr int kAhead =
    8;  // rows in flight: with only one, a thread would wait for the memory latency at each row

/// y += x[order[0]] + … + x[order[count − 1]], one after the other: rows of `width` elements; a
/// thread takes N elements at a time.
template <int N, class To, class From>
__device__ void accumulate_run(To* y, const From* x, const int64_t* order, int64_t count, int64_t width) {
  using T = AccumulatorOf<To>;
  for (int64_t column = int64_t{threadIdx.x} * N; column < width; column += int64_t{blockDim.x} * N) {
    auto total = map<N>([](To y) { return static_cast<T>(y); }, load<N>(y + column));
    const auto add = [&](int64_t i, auto rows) {
      Vector<From, N> ahead[rows];
#pragma unroll
      for (int k = 0; k < rows; ++k) ahead[k] = load<N>(x + order[i + k] * width + column);
#pragma unroll
      for (int k = 0; k < rows; ++k)
        total = map<N>([](T sum, From x) { return sum + convert<T>(x); }, total, ahead[k]);
    };
    int64_t i = 0;
    for (; i + kAhead <= count; i += kAhead) add(i, Lanes<kAhead>{});
    for (; i < count; ++i) add(i, Lanes<1>{});
    store(y + column, map<N>([](T sum) { return To(sum); }, total));
  }
}

/// Block b handles position b of the sorted rows; its threads share the columns.
template <class To, class From>
__global__ void __launch_bounds__(kMostThreads)
    accumulate_rows_kernel(To* y, const From* x, const int64_t* rows, const int64_t* order, int64_t width) {
  const int64_t first = blockIdx.x, row = rows[order[first]];
  if (first > 0 && rows[order[first - 1]] == row) return;  // an earlier block adds this row
  // The threads find the length of the run together; each thread tests another position.
  int64_t end = first;
  unsigned found;
  do {
    const int64_t i = end + threadIdx.x;
    found = sum_block(unsigned{i < gridDim.x && rows[order[i]] == row});
    end += found;
  } while (found == blockDim.x);
  constexpr int N = kLanes<To, From>;
  if (width % N == 0 && is_aligned<N>(y) && is_aligned<N>(x))
    accumulate_run<N>(y + row * width, x, order + first, end - first, width);
  else
    accumulate_run<1>(y + row * width, x, order + first, end - first, width);
}

/// View with one axis moved to the end.
Tensor with_last(const Tensor& x, int axis) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  for (int i = axis; i + 1 < x.rank(); ++i) {
    std::swap(shape[i], shape[i + 1]);
    std::swap(strides[i], strides[i + 1]);
  }
  return x.alias(shape, strides);
}

Tensor contiguous_index(const Tensor& x) {
  if (x.is_contiguous() && x.dtype() == DType::int64) return x;
  Tensor y = empty(x.shape(), DType::int64, x.device());
  copy(y, x);
  return y;
}

/// The same elements as a view with the shape of `index`; along `axis`, always element 0.
Tensor line_starts(const Tensor& x, const Tensor& index, int axis) {
  Strides strides = x.strides();
  strides[axis] = 0;
  return x.alias(index.shape(), strides);
}

}  // namespace

void check_index(Tensor& y, const Tensor& index, const IndexRule& rule) {
  if (y.numel() == 0) return;
  if (index.dtype() == DType::uint8) return check_index(y, contiguous_index(index), rule);
  const Range range{rule.op,    rule.argument,           rule.negative ? -rule.limit : 0,
                    rule.limit, rule.except.value_or(0), rule.except.has_value()};
  const auto launch = [&](auto type) {
    using I = typename decltype(type)::type;
    VITRINE_LAUNCH((check_index_kernel<I>), blocks_for(y.numel()), kThreads, 0, y.data<int64_t>(),
                   index.data<I>(), Strided<1>::of(index), range, device_error());
  };
  index.dtype() == DType::int64 ? launch(Type<int64_t>{}) : launch(Type<int32_t>{});
}

void gather(Tensor& y, const Tensor& x, const Tensor& index, int axis) {
  if (y.numel() == 0) return;
  const Tensor lines = line_starts(x, index, axis);
  visit_device(x.dtype(), "gather", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((gather_kernel<S>), blocks_for(y.numel()), kThreads, 0, y.data<S>(), x.data<S>(),
                   index.data<int64_t>(), Strided<3>::of(y, lines, index), x.strides()[axis]);
  });
}

void scatter_add(Tensor& y, const Tensor& index, const Tensor& source, int axis) {
  if (index.numel() == 0) return;
  const Tensor places = contiguous_index(with_last(index, axis));
  const Tensor lines = with_last(line_starts(y, index, axis), axis), from = with_last(source, axis);
  Tensor order = empty(places.shape(), DType::int64, places.device());
  argsort(order, places, false);
  visit_device(source.dtype(), "scatter_add", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((scatter_add_kernel<S>), blocks_for(places.numel()), kThreads, 0,
                   y.data<AccumulatorOf<S>>(), source.data<S>(), places.data<int64_t>(),
                   order.data<int64_t>(), Strided<2>::of(lines, from), places.size(-1), y.strides()[axis],
                   source.strides()[axis]);
  });
}

void gather_rows(Tensor& y, const Tensor& x, const Tensor& rows) {
  check(x.is_contiguous() && y.is_contiguous(), "gather_rows: wanted contiguous tensors");
  if (y.numel() == 0) return;
  const Tensor places = contiguous_index(rows);
  visit_device(x.dtype(), "gather_rows", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((gather_rows_kernel<S>), blocks_for(y.numel()), kThreads, 0, y.data<S>(), x.data<S>(),
                   places.data<int64_t>(), y.numel() / y.size(0), y.numel());
  });
}

void accumulate_rows(Tensor& y, const Tensor& x, const Tensor& rows) {
  check(x.is_contiguous() && y.is_contiguous(), "accumulate_rows: wanted contiguous tensors");
  if (x.numel() == 0) return;
  const Tensor places = contiguous_index(rows);
  Tensor order = empty(places.shape(), DType::int64, places.device());
  argsort(order, places, false);
  const int64_t width = x.numel() / x.size(0);
  visit_device_floating(y.dtype(), "accumulate_rows", [&](auto to) {
    visit_device_floating(x.dtype(), "accumulate_rows", [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      const int64_t warps = (width / kLanes<To, From> + kWarp - 1) / kWarp;
      VITRINE_LAUNCH((accumulate_rows_kernel<To, From>), grid_of(x.size(0), "accumulate_rows", "rows"),
                     static_cast<unsigned>(std::clamp<int64_t>(warps * kWarp, kWarp, kMostThreads)), 0,
                     y.data<To>(), x.data<From>(), places.data<int64_t>(), order.data<int64_t>(), width);
    });
  });
}

}  // namespace vitrine::cuda
