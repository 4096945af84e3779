#include "ops/matmul.h"

#include <algorithm>

#include "ops/cpu/gemm.h"
#include "ops/cpu/gemm_plain.h"
#include "ops/elementwise.h"
#include "ops/kernel_op.h"
#include "ops/kernels.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// A matrix operand that a product can read as it lies: one of the last two strides is 1 and the other spans it. Others
/// are copied.
bool reads_in_place(const Tensor& x) {
  const int r = x.rank();
  const int64_t rows = x.shape()[r - 2], columns = x.shape()[r - 1];
  const int64_t row = x.strides()[r - 2], column = x.strides()[r - 1];
  const bool by_rows = (column == 1 || columns == 1) && (row >= columns || rows == 1);
  const bool by_columns = (row == 1 || rows == 1) && (column >= rows || columns == 1);
  return by_rows || by_columns;
}

Tensor readable(const Tensor& x) { return reads_in_place(x) ? x : packed(x); }

/// op(x)·op(y) of batched matrices with equal or broadcast leading axes.
Tensor product(const Tensor& x, const Tensor& y) {
  const auto leading = [](const Shape& s) {
    return Shape(std::span(s.begin(), static_cast<size_t>(s.rank() - 2)));
  };
  Shape shape = broadcast("matmul, axes before the last two", leading(x.shape()), leading(y.shape()));
  shape.push_back(x.size(-2));
  shape.push_back(y.size(-1));
  Tensor z = empty(shape, x.dtype(), x.device(), "matmul");
  const Tensor a = readable(x), b = readable(y);
  VITRINE_RUN(matmul, z, a, b, false);
  return z;
}

Tensor matrices(const Tensor& x, const Tensor& y) {
  return record("matmul", {x, y}, product(x, y), [x = Saved(x), y = Saved(y)](const Backward& b) -> Grads {
    const Tensor& dz = b.dy();
    Grads grads(2);
    if (b.needs(0)) grads[0] = sum_to(matmul(dz, transpose(y)), x->shape());
    if (b.needs(1)) grads[1] = sum_to(matmul(transpose(x), dz), y->shape());
    return grads;
  });
}

}  // namespace

Tensor matmul(const Tensor& x0, const Tensor& y0) {
  check(x0.rank() >= 1 && y0.rank() >= 1, "matmul: x is {} and y is {}: wanted at least one axis each",
        x0.shape(), y0.shape());
  const DType dtype = promote(x0.dtype(), y0.dtype());
  Tensor x = cast(x0, dtype), y = cast(y0, dtype);
  if (x.rank() == 1) x = unsqueeze(x, 0);
  if (y.rank() == 1) y = unsqueeze(y, 1);
  check(x.size(-1) == y.size(-2), "matmul: x is {} and y is {}: the inner sizes {} and {} differ", x0.shape(),
        y0.shape(), x.size(-1), y.size(-2));
  // One matrix on the right: the leading axes of x are more rows.
  Tensor z;
  if (y.rank() == 2 && x.rank() > 2 && x.is_contiguous()) {
    Shape shape = x.shape();
    shape.back() = y.size(-1);
    z = reshape(matrices(flatten(x, 0, -2), y), shape);
  } else {
    z = matrices(x, y);
  }
  if (y0.rank() == 1) z = squeeze(z, {-1});
  if (x0.rank() == 1) z = squeeze(z, {y0.rank() == 1 ? -1 : -2});
  return z;
}

Tensor linear(const Tensor& x0, const Tensor& weight0, const Tensor& bias0) {
  check(weight0.rank() == 2 && x0.rank() >= 1 && x0.size(-1) == weight0.size(1),
        "linear: x is {} and the weight is {}, wanted [..., in] and [out, in]", x0.shape(), weight0.shape());
  check(!bias0.defined() || bias0.shape() == Shape{weight0.size(0)}, "linear: the bias is {}, wanted [{}]",
        bias0.defined() ? bias0.shape() : Shape(), weight0.size(0));
  const DType dtype = promote(x0.dtype(), weight0.dtype());
  const Tensor rank2 = x0.rank() == 1 ? unsqueeze(x0, 0) : flatten(x0, 0, -2);  // a size of 0 is no obstacle
  const Tensor x = cast(rank2, dtype), weight = cast(weight0, dtype);
  const Tensor bias = bias0.defined() ? cast(bias0, dtype) : Tensor();
  if (!is_floating(dtype) || dtype == DType::dual64) return define::linear(x0, weight0, bias0);
  Shape shape = x0.shape();
  shape.back() = weight.size(0);
  const Tensor rows = readable(x), matrix = packed(weight), added = bias.defined() ? packed(bias) : bias;
  Tensor y = empty({rows.size(0), weight.size(0)}, dtype, x.device());
  VITRINE_RUN(linear, y, rows, matrix, added);
  y = record(
      "linear", {x, weight, bias}, y,
      [x = Saved(rows), weight = Saved(matrix)](const Backward& b) -> Grads {
        const Tensor dy = contiguous(b.dy());
        Grads grads(3);
        if (b.needs(0)) grads[0] = matmul(dy, weight);
        if (b.needs(1))
          grads[1] = Grad::into(
              [dy, x](Tensor& dw, bool fresh) { VITRINE_RUN(matmul, dw, transpose(dy), x, !fresh); });
        if (b.needs(2)) grads[2] = sum(dy, {0});
        return grads;
      },
      [&] { return define::linear(x, weight, bias); });
  return reshape(y, shape);
}

namespace define {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = vitrine::matmul(x, transpose(weight));
  return bias.defined() ? y + bias : y;
}

}  // namespace define

namespace cpu {
namespace {

struct Operand {
  Trans trans;
  int64_t ld;
};

/// How the last two axes lie in memory, for a product that reads rows of `ld`.
Operand layout(const Tensor& x) {
  const int r = x.rank();
  const int64_t rows = x.shape()[r - 2], columns = x.shape()[r - 1];
  const int64_t row = x.strides()[r - 2], column = x.strides()[r - 1];
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1))
    return {Trans::no, std::max(row, columns)};
  return {Trans::yes, std::max(column, rows)};
}

/// Calls f(batch, offsets) for runs of up to two leading axes of the product; further ones are looped over.
template <class F>
void for_each_batch(const Tensor& z, const Tensor& x, const Tensor& y, F&& f) {
  const int lead = z.rank() - 2;
  std::array<std::vector<int64_t>, 3> strides;
  std::vector<int64_t> sizes;
  const auto stride = [&](const Tensor& t, int axis) {
    const int own = axis - (z.rank() - t.rank());
    return own < 0 || t.shape()[own] == 1 ? int64_t{0} : t.strides()[own];
  };
  for (int axis = 0; axis < lead; ++axis) {
    sizes.push_back(z.shape()[axis]);
    strides[0].push_back(stride(x, axis));
    strides[1].push_back(stride(y, axis));
    strides[2].push_back(stride(z, axis));
  }
  while (sizes.size() < 2) {
    sizes.insert(sizes.begin(), 1);
    for (auto& s : strides) s.insert(s.begin(), 0);
  }
  const size_t n = sizes.size();
  Batch batch;
  batch.outer_count = sizes[n - 2];
  batch.inner_count = sizes[n - 1];
  batch.a = {strides[0][n - 2], strides[0][n - 1]};
  batch.b = {strides[1][n - 2], strides[1][n - 1]};
  batch.c = {strides[2][n - 2], strides[2][n - 1]};
  int64_t loops = 1;
  for (size_t i = 0; i + 2 < n; ++i) loops *= sizes[i];
  for (int64_t k = 0; k < loops; ++k) {
    std::array<int64_t, 3> offset{};
    int64_t rest = k;
    for (size_t i = n - 2; i-- > 0; rest /= sizes[i])
      for (size_t t = 0; t < 3; ++t) offset[t] += rest % sizes[i] * strides[t][i];
    f(batch, offset);
  }
}

}  // namespace

void matmul(Tensor& z, const Tensor& x, const Tensor& y, bool add) {
  const int64_t M = x.size(-2), K = x.size(-1), N = y.size(-1);
  if (z.numel() == 0) return;
  const Operand a = layout(x), b = layout(y);
  const int64_t ldc = N;
  const auto run = [&]<class T, class TC>(Type<T>, Type<TC>) {
    for_each_batch(z, x, y, [&](const Batch& batch, const std::array<int64_t, 3>& at) {
      gemm_batched<T, TC>(batch, a.trans, b.trans, M, N, K, 1, x.data<T>() + at[0], a.ld, y.data<T>() + at[1],
                          b.ld, add ? 1 : 0, z.data<TC>() + at[2], ldc);
    });
  };
  const auto plain = [&]<class T>(Type<T>) {
    for_each_batch(z, x, y, [&](const Batch& batch, const std::array<int64_t, 3>& at) {
      for (int64_t i = 0; i < batch.outer_count; ++i)
        for (int64_t j = 0; j < batch.inner_count; ++j)
          gemm_plain(a.trans, b.trans, M, N, K, T(1),
                     x.data<T>() + at[0] + i * batch.a.outer + j * batch.a.inner, a.ld,
                     y.data<T>() + at[1] + i * batch.b.outer + j * batch.b.inner, b.ld, T(add ? 1 : 0),
                     z.data<T>() + at[2] + i * batch.c.outer + j * batch.c.inner, ldc);
    });
  };
  const bool widened = z.dtype() == DType::float32;
  switch (x.dtype()) {
    case DType::float32: return run(Type<float>{}, Type<float>{});
    case DType::float64: return run(Type<double>{}, Type<double>{});
    case DType::bfloat16:
      return widened ? run(Type<bfloat16>{}, Type<float>{}) : run(Type<bfloat16>{}, Type<bfloat16>{});
    case DType::float16:
      return widened ? run(Type<float16>{}, Type<float>{}) : run(Type<float16>{}, Type<float16>{});
    case DType::dual64: return plain(Type<Dual>{});
    case DType::int64: return plain(Type<int64_t>{});
    case DType::int32: return plain(Type<int32_t>{});
    default: fail("matmul: wanted numbers, got {}", name(x.dtype()));
  }
}

void linear(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const int64_t M = x.size(0), N = weight.size(0), K = weight.size(1);
  const Operand a = layout(x);
  visit_floating(x.dtype(), "linear", [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, Dual>) {
      fail("linear: dual numbers go through the definition");
    } else {
      const Epilogue<T> epilogue{bias.defined() ? bias.data<T>() : nullptr};
      gemm<T, T>(a.trans, Trans::yes, M, N, K, 1, x.data<T>(), a.ld, weight.data<T>(), K, 0, y.data<T>(), N,
                 &epilogue);
    }
  });
}

}  // namespace cpu
}  // namespace vitrine
