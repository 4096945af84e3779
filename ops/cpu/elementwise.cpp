// The elementwise kernels: floating types run vectorized rows, Dual and integers run plain loops.
#include "ops/cpu/elementwise.h"

#include <type_traits>

#include "core/convert.h"
#include "core/loop.h"
#include "core/simd/row_functions.h"
#include "ops/formulas_integer.h"
#include "ops/kernels.h"

namespace vitrine {

const char* name(Unary op) {
  switch (op) {
#define VITRINE_CASE(name, Formula) \
  case Unary::name: return #name;
    VITRINE_UNARY_FORMULAS(VITRINE_CASE)
#undef VITRINE_CASE
  }
  return "";
}

const char* name(Binary op) {
  switch (op) {
#define VITRINE_CASE(name, Formula) \
  case Binary::name: return #name;
    VITRINE_BINARY_FORMULAS(VITRINE_CASE)
#undef VITRINE_CASE
  }
  return "";
}

namespace cpu {
namespace {

constexpr int64_t kPiece = 512;  // elements that are copied to a buffer at a time

/// Elements first, first + stride, … as a contiguous run of the wide type: the original memory, or
/// a copy in `buffer`.
template <class S>
const AccumulatorOf<S>* read(const S* first, int64_t stride, int64_t n, AccumulatorOf<S>* buffer) {
  if constexpr (std::is_same_v<S, AccumulatorOf<S>>) {
    if (stride == 1) return first;
    for (int64_t i = 0; i < n; ++i) buffer[i] = first[i * stride];
  } else {
    if (stride == 1) {
      vecmath::convert(buffer, first, static_cast<size_t>(n));
    } else {
      for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<float>(first[i * stride]);
    }
  }
  return buffer;
}

template <class S>
void write(S* first, int64_t stride, int64_t n, const AccumulatorOf<S>* values) {
  if constexpr (!std::is_same_v<S, AccumulatorOf<S>>) {
    if (stride == 1) return vecmath::convert(first, values, static_cast<size_t>(n));
  }
  for (int64_t i = 0; i < n; ++i) first[i * stride] = convert<S>(values[i]);
}

/// Runs `row` over y and N operands of element type S.
template <class S, int N>
void run_rows(Tensor& y, const std::array<const Tensor*, N>& x, Row<AccumulatorOf<S>> row, double a,
              double b) {
  using T = AccumulatorOf<S>;
  std::array<Strides, N + 1> strides;
  strides[N] = y.strides();
  for (int k = 0; k < N; ++k) strides[k] = x[k]->strides();
  const StridedLoop<N + 1> loop(y.shape(), strides);
  const auto step = loop.inner_stride;
  bool direct = std::is_same_v<S, T>;
  for (int64_t s : step) direct &= s == 1;
  std::array<const S*, N> base;
  for (int k = 0; k < N; ++k) base[k] = x[k]->template data<S>();
  S* const out = y.data<S>();
  loop.parallel(8, [&](const std::array<int64_t, N + 1>& at, int64_t count) {
    std::array<const T*, N> from;
    alignas(64) T buffer[N + 1][kPiece];
    const int64_t piece = direct ? count : kPiece;
    for (int64_t i = 0; i < count; i += piece) {
      const int64_t n = std::min(piece, count - i);
      for (int k = 0; k < N; ++k) {
        // A repeated scalar is already in its buffer.
        if (step[k] == 0 && i > 0 && n <= kPiece) continue;
        from[k] = read(base[k] + at[k] + i * step[k], step[k], n, buffer[k]);
      }
      S* const to = out + at[N] + i * step[N];
      if constexpr (std::is_same_v<S, T>) {
        if (step[N] == 1) {
          row(to, from.data(), static_cast<size_t>(n), a, b);
          continue;
        }
      }
      row(buffer[N], from.data(), static_cast<size_t>(n), a, b);
      write(to, step[N], n, buffer[N]);
    }
  });
}

/// z[i] = f(x[i], y[i]), element by element: for types that have no vectors.
template <class Z, class X, class F>
void run_plain(Tensor& z, const Tensor& x, const Tensor& y, F&& f) {
  const StridedLoop<3> loop(z.shape(), {z.strides(), x.strides(), y.strides()});
  const auto step = loop.inner_stride;
  loop.parallel(2, [&](const std::array<int64_t, 3>& at, int64_t count) {
    Z* const a = z.data<Z>() + at[0];
    const X* const b = x.data<X>() + at[1];
    const X* const c = y.data<X>() + at[2];
    for (int64_t i = 0; i < count; ++i) a[i * step[0]] = f(b[i * step[1]], c[i * step[2]]);
  });
}

template <class T, class F>
void run_plain_unary(Tensor& y, const Tensor& x, F&& f) {
  run_plain<T, T>(y, x, x, [&](const T& v, const T&) { return f(v); });
}

/// Throws the errors of integer operations, element by element.
template <class I>
I checked_integer(Binary op, I x, I y) {
  check(op != Binary::pow || y >= 0, "pow: an integer cannot be raised to the negative integer {}", y);
  return integer(op, x, y);
}

}  // namespace

template <class S>
void unary_run(S* y, const S* x, int64_t n, Unary op) {
  using T = AccumulatorOf<S>;
  const Row<T> row = unary_row<T>(op);
  if constexpr (std::is_same_v<S, T>) {
    row(y, &x, static_cast<size_t>(n), 0, 0);
  } else {
    alignas(64) T buffer[kPiece];
    for (int64_t i = 0; i < n; i += kPiece) {
      const int64_t count = std::min(kPiece, n - i);
      const T* const values = read(x + i, 1, count, buffer);
      row(buffer, &values, static_cast<size_t>(count), 0, 0);
      write(y + i, 1, count, buffer);
    }
  }
}
template void unary_run(float*, const float*, int64_t, Unary);
template void unary_run(double*, const double*, int64_t, Unary);
template void unary_run(bfloat16*, const bfloat16*, int64_t, Unary);
template void unary_run(float16*, const float16*, int64_t, Unary);

void unary(Tensor& y, const Tensor& x, Unary op, double a, double b) {
  if (is_integer(x.dtype()) && has_integers(op))
    return visit_index(x.dtype(), name(op), [&](auto type) {
      using I = typename decltype(type)::type;
      run_plain_unary<I>(y, x, [&](I v) { return integer(op, v); });
    });
  visit_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    if constexpr (std::is_same_v<S, Dual>) {
      visit_formula(op, a, b,
                    [&](auto f) { run_plain_unary<Dual>(y, x, [&](const Dual& v) { return f.value(v); }); });
    } else {
      run_rows<S, 1>(y, {&x}, unary_row<AccumulatorOf<S>>(op), a, b);
    }
  });
}

void unary_backward(Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, Unary op, double a,
                    double b) {
  visit_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    if constexpr (std::is_same_v<S, Dual>) {
      fail("{}: dual numbers have no backward, they carry their derivative along", name(op));
    } else {
      run_rows<S, 3>(dx, {&dy, &x, &y}, unary_backward_row<AccumulatorOf<S>>(op), a, b);
    }
  });
}

void binary(Tensor& z, const Tensor& x, const Tensor& y, Binary op) {
  if (is_integer(x.dtype()))
    return visit_index(x.dtype(), name(op), [&](auto type) {
      using I = typename decltype(type)::type;
      run_plain<I, I>(z, x, y, [&](I v, I w) { return checked_integer(op, v, w); });
    });
  visit_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    if constexpr (std::is_same_v<S, Dual>) {
      visit_formula(op, [&](auto f) {
        run_plain<Dual, Dual>(z, x, y, [&](const Dual& v, const Dual& w) { return f.value(v, w); });
      });
    } else {
      run_rows<S, 2>(z, {&x, &y}, binary_row<AccumulatorOf<S>>(op), 0, 0);
    }
  });
}

void compare(Tensor& z, const Tensor& x, const Tensor& y, Comparison op) {
  visit_all(x.dtype(), [&](auto type) {
    using X = typename decltype(type)::type;
    const auto run = [&](auto f) {
      run_plain<bool, X>(z, x, y,
                         [f](const X& v, const X& w) { return f(AccumulatorOf<X>(v), AccumulatorOf<X>(w)); });
    };
    switch (op) {
      case Comparison::equal: return run([](const auto& v, const auto& w) { return v == w; });
      case Comparison::not_equal: return run([](const auto& v, const auto& w) { return v != w; });
      case Comparison::less: return run([](const auto& v, const auto& w) { return v < w; });
      case Comparison::less_equal: return run([](const auto& v, const auto& w) { return v <= w; });
      case Comparison::greater: return run([](const auto& v, const auto& w) { return v > w; });
      case Comparison::greater_equal: return run([](const auto& v, const auto& w) { return v >= w; });
    }
  });
}

void logic(Tensor& z, const Tensor& x, const Tensor& y, Logic op) {
  run_plain<bool, bool>(z, x, y, [op](bool v, bool w) {
    return op == Logic::logical_and ? (v && w) : op == Logic::logical_or ? (v || w) : v != w;
  });
}

void choose(Tensor& z, const Tensor& condition, const Tensor& x, const Tensor& y) {
  visit_all(z.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const StridedLoop<4> loop(z.shape(), {z.strides(), condition.strides(), x.strides(), y.strides()});
    const auto step = loop.inner_stride;
    loop.parallel(2, [&](const std::array<int64_t, 4>& at, int64_t count) {
      T* const to = z.data<T>() + at[0];
      const bool* const pick = condition.data<bool>() + at[1];
      const T* const a = x.data<T>() + at[2];
      const T* const b = y.data<T>() + at[3];
      for (int64_t i = 0; i < count; ++i)
        to[i * step[0]] = pick[i * step[1]] ? a[i * step[2]] : b[i * step[3]];
    });
  });
}

}  // namespace cpu
}  // namespace vitrine
