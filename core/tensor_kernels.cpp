// The CPU kernels of core/tensor_kernels.h.
#include "core/tensor_kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "core/convert.h"
#include "core/creation.h"
#include "core/loop.h"
#include "core/philox.h"
#include "core/simd/row_functions.h"
#include "core/uniform.h"

namespace vitrine::cpu {
namespace {

template <class To, class From, class F>
void each(Tensor& y, const Tensor& x, F&& f) {
  const StridedLoop<2> loop(y.shape(), {y.strides(), x.strides()});
  To* const to = y.data<To>();
  const From* const from = x.data<From>();
  const int64_t ys = loop.inner_stride[0], xs = loop.inner_stride[1];
  loop.parallel(1, [&](const std::array<int64_t, 2>& at, int64_t count) {
    To* a = to + at[0];
    const From* b = from + at[1];
    if (ys == 1 && xs == 1) {
      for (int64_t i = 0; i < count; ++i) f(a[i], b[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) f(a[i * ys], b[i * xs]);
    }
  });
}

void check_same_shape(const char* op, const Tensor& y, const Tensor& x) {
  check(y.shape() == x.shape(), "{}: the shapes {} and {} differ", op, y.shape(), x.shape());
}

/// A tensor as a contiguous matrix whose rows are its slices along the first axis, with row numbers
/// as int64. The row numbers are in the allocator's memory, because the C library's heap would grow
/// at some step of a training run.
struct GatheredRows {
  int64_t count, width, limit;
  Tensor numbers;
  const int64_t* index;

  GatheredRows(const char* op, const Tensor& whole, const Tensor& part, const Tensor& rows) {
    check(whole.is_contiguous() && part.is_contiguous(), "{}: wanted contiguous tensors", op);
    check(
        whole.rank() >= 1 && rows.rank() == 1 && part.rank() == whole.rank() && part.size(0) == rows.size(0),
        "{}: rows {} of {} do not fit {}", op, rows.shape(), whole.shape(), part.shape());
    count = rows.size(0);
    limit = whole.size(0);
    width = limit == 0 ? 0 : whole.numel() / limit;
    check(is_integer(rows.dtype()), "{}: the rows are {}, wanted int64, int32 or uint8", op,
          name(rows.dtype()));
    numbers = rows.dtype() == DType::int64 && rows.is_contiguous() ? rows : copy_as(rows, DType::int64);
    index = numbers.data<int64_t>();
    for (int64_t i = 0; i < count; ++i)
      check(index[i] >= 0 && index[i] < limit, "{}: index {} at position {} is outside [0, {})", op, index[i],
            i, limit);
  }
};

/// The numbers 0, 1, … of the rows, or those of equal places one after the other.
Tensor order_of_rows(const GatheredRows& r, bool grouped) {
  const Tensor order = empty({r.count}, DType::int64);
  int64_t* const at = order.data<int64_t>();
  std::iota(at, at + r.count, int64_t{0});
  if (grouped)
    std::sort(at, at + r.count, [&](int64_t a, int64_t b) {  // not stable_sort, which takes memory
      return r.index[a] != r.index[b] ? r.index[a] < r.index[b] : a < b;
    });
  return order;
}

}  // namespace

namespace {

/// Converts between uint8 and other dtypes by way of int32, so that uint8 adds three conversions
/// instead of two for each dtype.
void copy_bytes(Tensor& y, const Tensor& x) {
  if (x.dtype() == y.dtype()) return each<uint8_t, uint8_t>(y, x, [](uint8_t& a, uint8_t b) { a = b; });
  if (y.dtype() == DType::int32) return each<int32_t, uint8_t>(y, x, [](int32_t& a, uint8_t b) { a = b; });
  Tensor whole = x;
  if (x.dtype() != DType::int32) copy(whole = empty(x.shape(), DType::int32), x);
  if (y.dtype() != DType::uint8) return copy(y, whole);
  const bool limited = is_floating(x.dtype());  // integers wrap around
  each<uint8_t, int32_t>(y, whole, [limited](uint8_t& a, int32_t b) {
    a = static_cast<uint8_t>(limited ? std::clamp(b, 0, 255) : b);
  });
}

}  // namespace

void fill(Tensor& y, double value) {
  visit_all(y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T filler = convert<T>(value);
    const StridedLoop<1> loop(y.shape(), {y.strides()});
    T* const data = y.data<T>();
    const int64_t stride = loop.inner_stride[0];
    loop.parallel(1, [&](const std::array<int64_t, 1>& at, int64_t count) {
      T* a = data + at[0];
      if (stride == 1) {
        std::fill_n(a, count, filler);
      } else {
        for (int64_t i = 0; i < count; ++i) a[i * stride] = filler;
      }
    });
  });
}

void arange(Tensor& y, double start, double step) {
  visit_all(y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* const data = y.data<T>();
    parallel_for(0, y.numel(), grain_for(1), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) data[i] = convert<T>(start + static_cast<double>(i) * step);
    });
  });
}

void copy(Tensor& y, const Tensor& x) {
  check_same_shape("copy", y, x);
  if (x.dtype() == DType::uint8 || y.dtype() == DType::uint8) return copy_bytes(y, x);
  visit_but_uint8(y.dtype(), [&](auto to) {
    visit_but_uint8(x.dtype(), [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      each<To, From>(y, x, [](To& a, const From& b) { a = convert<To>(b); });
    });
  });
}

void split_halves(Tensor& high, Tensor& low, const Tensor& x) {
  const HalvesPointer to{high.data<bfloat16>(), reinterpret_cast<uint16_t*>(low.data<uint8_t>())};
  const float* const from = x.data<float>();
  parallel_for(0, x.numel(), grain_for(1), [&](int64_t b, int64_t e) {
    vecmath::split(to + static_cast<size_t>(b), from + b, static_cast<size_t>(e - b));
  });
}

void join_halves(Tensor& x, const Tensor& high, const Tensor& low) {
  float* const to = x.data<float>();
  const HalvesPointer from{high.data<bfloat16>(), reinterpret_cast<uint16_t*>(low.data<uint8_t>())};
  parallel_for(0, x.numel(), grain_for(1), [&](int64_t b, int64_t e) {
    vecmath::join(to + b, from + static_cast<size_t>(b), static_cast<size_t>(e - b));
  });
}

void accumulate(Tensor& y, const Tensor& x) {
  check_same_shape("accumulate", y, x);
  visit_floating(y.dtype(), "accumulate", [&](auto to) {
    visit_floating(x.dtype(), "accumulate", [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      each<To, From>(y, x, [](To& a, const From& b) {
        a = To(static_cast<AccumulatorOf<To>>(a) + convert<AccumulatorOf<To>>(b));
      });
    });
  });
}

void gather_rows(Tensor& y, const Tensor& x, const Tensor& rows) {
  const GatheredRows r("gather_rows", x, y, rows);
  check(y.dtype() == x.dtype(), "gather_rows: the dtypes {} and {} differ", name(y.dtype()), name(x.dtype()));
  const int64_t bytes = r.width * x.element_size();
  auto* to = static_cast<char*>(y.raw());
  const auto* from = static_cast<const char*>(x.raw());
  if (bytes == 0) return;
  parallel_for(0, r.count, grain_for(r.width), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) std::memcpy(to + i * bytes, from + r.index[i] * bytes, bytes);
  });
}

void accumulate_rows(Tensor& y, const Tensor& x, const Tensor& rows) {
  const GatheredRows r("accumulate_rows", y, x, rows);
  visit_floating(y.dtype(), "accumulate_rows", [&](auto to) {
    visit_floating(x.dtype(), "accumulate_rows", [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      To* const into = y.data<To>();
      const From* const add = x.data<From>();
      using Wide = AccumulatorOf<To>;
      const Tensor order = order_of_rows(r, !std::is_same_v<To, Wide>);
      const int64_t* const at = order.data<int64_t>();
      // Threads share the columns, not the rows, so that one thread adds to each element in the
      // order of i.
      constexpr int64_t kColumns = 64;
      parallel_for(0, r.width, kColumns, [&](int64_t b, int64_t e) {
        Wide sums[kColumns];
        for (int64_t i = 0; i < r.count;) {
          const int64_t row = r.index[at[i]];
          To* const sum = into + row * r.width;
          for (int64_t c = b; c < e; ++c) sums[c - b] = static_cast<Wide>(sum[c]);
          for (; i < r.count && r.index[at[i]] == row; ++i) {
            const From* const source = add + at[i] * r.width;
            for (int64_t c = b; c < e; ++c) sums[c - b] += convert<Wide>(source[c]);
          }
          for (int64_t c = b; c < e; ++c) sum[c] = To(sums[c - b]);
        }
      });
    });
  });
}

void clear_rows(Tensor& y, const Tensor& rows) {
  check(y.is_contiguous(), "clear_rows: wanted a contiguous tensor");
  const int64_t bytes = y.size(0) == 0 ? 0 : y.numel() / y.size(0) * y.element_size();
  const auto* const index = rows.data<int64_t>();
  auto* const to = static_cast<char*>(y.raw());
  for (int64_t i = 0; i < rows.numel(); ++i)
    std::memset(to + index[i] * bytes, 0, static_cast<size_t>(bytes));
}

void all_finite(Tensor& finite, const Tensor& x) {
  std::atomic<bool> all{true};
  visit_floating(x.dtype(), "all_finite", [&](auto type) {
    using T = typename decltype(type)::type;
    const StridedLoop<1> loop(x.shape(), {x.strides()});
    const T* const data = x.data<T>();
    const int64_t stride = loop.inner_stride[0];
    loop.parallel(1, [&](const std::array<int64_t, 1>& at, int64_t count) {
      AccumulatorOf<T> poison = 0;  // 0·x is 0 for a finite x and NaN for the others
      for (int64_t i = 0; i < count; ++i)
        poison += AccumulatorOf<T>(0) * static_cast<AccumulatorOf<T>>(data[at[0] + i * stride]);
      if (!(poison == AccumulatorOf<T>(0))) all = false;
    });
  });
  *finite.data<bool>() = all;
}

void transfer(Tensor& y, const Tensor& x, bool) { copy(y, x); }

namespace {

/// Calls f(i, four 32-bit words) for elements 4i .. 4i+3.
template <class F>
void for_each_philox_block(const Tensor& y, Draw draw, F&& f) {
  check(y.is_contiguous(), "random: wanted a contiguous tensor");
  parallel_for(0, (y.numel() + 3) / 4, 2048, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) f(i, philox(draw.seed, draw.offset + static_cast<uint64_t>(i)));
  });
}

template <class T, class F>
void store_four(Tensor& y, int64_t block, F&& value) {
  T* const data = y.data<T>();
  const int64_t end = std::min<int64_t>(4, y.numel() - 4 * block);
  for (int64_t k = 0; k < end; ++k) data[4 * block + k] = value(k);
}

}  // namespace

void random_uniform(Tensor& y, Draw draw, double low, double high) {
  visit_floating(y.dtype(), "random_uniform", [&](auto type) {
    using T = typename decltype(type)::type;
    const Uniform<T> uniform(low, high);
    for_each_philox_block(y, draw, [&](int64_t i, const std::array<uint32_t, 4>& words) {
      store_four<T>(y, i, [&](int64_t k) { return uniform(words[static_cast<size_t>(k)]); });
    });
  });
}

void random_whole(Tensor& y, Draw draw, int64_t low, int64_t count) {
  check(y.is_contiguous() && y.dtype() == DType::int64, "random_whole: wanted a contiguous int64 tensor");
  auto* const data = y.data<int64_t>();
  const auto limit = static_cast<uint64_t>(count);
  parallel_for(0, y.numel(), 512, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i)
      data[i] =
          low + static_cast<int64_t>(to_whole(draw.seed, draw.offset + static_cast<uint64_t>(i), limit));
  });
}

void random_normal(Tensor& y, Draw draw, double mean, double deviation) {
  visit_floating(y.dtype(), "random_normal", [&](auto type) {
    using T = typename decltype(type)::type;
    for_each_philox_block(y, draw, [&](int64_t i, const std::array<uint32_t, 4>& words) {
      const auto normals = to_normals(words);
      store_four<T>(
          y, i, [&](int64_t k) { return convert<T>(mean + deviation * normals[static_cast<size_t>(k)]); });
    });
  });
}

}  // namespace vitrine::cpu
