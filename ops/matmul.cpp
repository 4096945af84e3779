#include "ops/matmul.h"

#include <algorithm>

#include "core/flops.h"
#include "core/matmul_math.h"
#include "ops/activation.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/gemm/gemm.h"
#include "ops/cpu/gemm/plain.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// Whether a product can read a matrix operand in place: one of the last two strides is 1, and the
/// other is at least the length of a row. Other operands are copied.
bool reads_in_place(const Tensor& x) { return has_matrix_rows(x) || has_matrix_rows(x, -1, -2); }

Tensor readable(const Tensor& x) { return reads_in_place(x) ? x : packed(x); }

/// Whether the operands of a product are rounded to bfloat16 first (core/matmul_math.h).
bool rounds(const Tensor& x) { return matmul_math() == MatmulMath::bfloat16 && x.dtype() == DType::float32; }

/// x rounded to bfloat16, in the layout that it has.
Tensor rounded(const Tensor& x) {
  return has_matrix_rows(x) ? copy_as(x, DType::bfloat16) : transpose(copy_as(transpose(x), DType::bfloat16));
}

/// z = x·y, or z += x·y, of readable matrices.
void multiply(Tensor& z, const Tensor& x, const Tensor& y, bool add) {
  count_flops("matmul", 2.0 * static_cast<double>(z.numel()) * static_cast<double>(x.size(-1)));
  if (rounds(x))
    VITRINE_RUN(matmul, z, rounded(x), rounded(y), add);
  else
    VITRINE_RUN(matmul, z, x, y, add);
}

/// op(x)·op(y) of batched matrices with equal or broadcast leading axes.
Tensor product(const Tensor& x, const Tensor& y) {
  const auto leading = [](const Shape& s) {
    return Shape(std::span(s.begin(), static_cast<size_t>(s.rank() - 2)));
  };
  Shape shape = broadcast("matmul, axes before the last two", leading(x.shape()), leading(y.shape()));
  shape.push_back(x.size(-2));
  shape.push_back(y.size(-1));
  Tensor z = empty(shape, x.dtype(), x.device(), "matmul");
  multiply(z, readable(x), readable(y), false);
  return z;
}

Tensor matrices(const Tensor& x, const Tensor& y) {
  return record("matmul", {x, y}, product(x, y),
                [x = Saved(x), y = Saved(y), way = matmul_math()](const Backward& b) -> Grads {
                  const MatmulMathScope scope(way);
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
  if (dtype == DType::uint8)
    return cast(matmul(cast(x0, DType::int32), cast(y0, DType::int32)), DType::uint8);
  Tensor x = cast(x0, dtype), y = cast(y0, dtype);
  if (x.rank() == 1) x = unsqueeze(x, 0);
  if (y.rank() == 1) y = unsqueeze(y, 1);
  check(x.size(-1) == y.size(-2), "matmul: x is {} and y is {}: the inner sizes {} and {} differ", x0.shape(),
        y0.shape(), x.size(-1), y.size(-2));
  // With a single matrix on the right, the leading axes of x become more rows.
  Tensor z;
  if (y.rank() == 2 && x.rank() > 2 && row_distance(x)) {
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

namespace cpu {
namespace {

struct Operand {
  Trans trans;
  int64_t ld;
};

/// The memory layout of the last two axes, for a product that reads rows at distance `ld`.
Operand layout(const Tensor& x) {
  const int r = x.rank();
  if (has_matrix_rows(x)) return {Trans::no, std::max(x.strides()[r - 2], x.shape()[r - 1])};
  check(has_matrix_rows(x, -1, -2), "matmul: its kernel cannot read a matrix {} with strides {} in place",
        x.shape(), x.strides());
  return {Trans::yes, std::max(x.strides()[r - 1], x.shape()[r - 2])};
}

/// Calls f(batch, offsets) for runs of up to two leading axes of the product, in a loop over any
/// further axes.
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
  MatrixBatch batch;
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
}  // namespace cpu

// The plain loop is gemm_plain in ops/cpu/gemm/plain.h. It runs on dual numbers and integers, and
// tests compare the tuned products with it.
void cpu::matmul(Tensor& z, const Tensor& x, const Tensor& y, bool add) {
  const int64_t M = x.size(-2), K = x.size(-1), N = y.size(-1);
  if (z.numel() == 0) return;
  const Operand a = layout(x), b = layout(y);
  const int64_t ldc = N;
  const auto run = [&]<class T, class TC>(Type<T>, Type<TC>) {
    for_each_batch(z, x, y, [&](const MatrixBatch& batch, const std::array<int64_t, 3>& at) {
      gemm_batched<T, TC>(batch, a.trans, b.trans, M, N, K, 1, x.data<T>() + at[0], a.ld, y.data<T>() + at[1],
                          b.ld, add ? 1 : 0, z.data<TC>() + at[2], ldc);
    });
  };
  const auto plain = [&]<class T>(Type<T>) {
    for_each_batch(z, x, y, [&](const MatrixBatch& batch, const std::array<int64_t, 3>& at) {
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

namespace {

/// The operands of a fully connected layer: matrices of one dtype that its kernel can read.
struct Layer {
  Tensor x, weight, bias;  // [rows, in], [out, in], [out] or undefined
  Shape shape;             // of the result, [..., out]

  Layer(const char* op, const Tensor& x0, const Tensor& weight0, const Tensor& bias0) {
    check(weight0.rank() == 2 && x0.rank() >= 1 && x0.size(-1) == weight0.size(1),
          "{}: x is {} and the weight is {}, wanted [..., in] and [out, in]", op, x0.shape(),
          weight0.shape());
    check(!bias0.defined() || bias0.shape() == Shape{weight0.size(0)}, "{}: the bias is {}, wanted [{}]", op,
          bias0.defined() ? bias0.shape() : Shape(), weight0.size(0));
    const DType dtype = promote(x0.dtype(), weight0.dtype());
    check(!bias0.defined() || is_floating(dtype) || !is_floating(bias0.dtype()),
          "{}: the bias is {} for {} products, which have no fractions", op, describe(bias0), name(dtype));
    // Sizes of 0 are allowed.
    x = cast(x0.rank() == 1 ? unsqueeze(x0, 0) : flatten(x0, 0, -2), dtype);
    weight = cast(weight0, dtype);
    if (bias0.defined()) bias = cast(bias0, dtype);
    shape = x0.shape();
    shape.back() = weight.size(0);
  }

  Tensor packed_bias() const { return bias.defined() ? packed(bias) : bias; }
  Tensor result() const { return empty({x.size(0), weight.size(0)}, x.dtype(), x.device()); }
  double flops() const { return 2.0 * static_cast<double>(x.size(0)) * static_cast<double>(weight.numel()); }
  Tensor shaped(const Tensor& y) const { return y.shape() == shape ? y : reshape(y, shape); }
};

/// The gradients of x, weight and bias, given the gradient of x·weightᵀ + bias.
Grads layer_gradients(MatmulMath way, const Backward& b, const Tensor& dy, const Tensor& x,
                      const Tensor& weight) {
  const MatmulMathScope scope(way);
  Grads grads(3);
  if (b.needs(0)) grads[0] = matmul(dy, weight);
  if (b.needs(1))
    grads[1] = Grad::into([dy, x, way](Tensor& dw, bool fresh) {
      const MatmulMathScope scope(way);
      multiply(dw, transpose(dy), x, !fresh);
    });
  if (b.needs(2)) grads[2] = sum(dy, {0});
  return grads;
}

}  // namespace

Tensor define::linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = vitrine::matmul(x, transpose(weight));
  return bias.defined() ? y + bias : y;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Layer l("linear", x, weight, bias);
  const auto definition = [&] { return define::linear(l.x, l.weight, l.bias); };
  if (!is_floating(l.x.dtype())) return l.shaped(definition());
  if (const auto y = through_definition({l.x, l.weight, l.bias}, definition)) return l.shaped(*y);
  const Tensor rows = readable(l.x), matrix = packed(l.weight);
  Tensor y = empty_rows("linear", {l.x.size(0), l.weight.size(0)}, l.x.dtype(), l.x.device());
  if (rounds(rows)) {
    multiply(y, rows, transpose(matrix), false);
    if (l.bias.defined()) VITRINE_RUN(binary, y, y, expand(l.bias, y.shape()), Binary::add);
  } else {
    count_flops("linear", l.flops());
    VITRINE_RUN(linear, y, rows, matrix, l.packed_bias());
  }
  y = record("linear", {l.x, l.weight, l.bias}, y,
             [x = Saved(rows), weight = Saved(matrix), way = matmul_math()](const Backward& b) {
               return layer_gradients(way, b, readable(b.dy()), x, weight);
             });
  return l.shaped(y);
}

namespace cpu {
namespace {

template <class T>
void multiply_layer(Tensor& y, const Tensor& x, const Tensor& weight, const Epilogue<T>& epilogue) {
  const int64_t M = x.size(0), N = weight.size(0), K = weight.size(1);
  const Operand a = layout(x);
  gemm<T, T>(a.trans, Trans::yes, M, N, K, 1, x.data<T>(), a.ld, weight.data<T>(), K, 0, y.data<T>(), N,
             &epilogue);
}

template <class T>
const T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace
}  // namespace cpu

void cpu::linear(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  visit_row_type(x.dtype(), "linear",
                 [&]<class S>(Type<S>) { multiply_layer<S>(y, x, weight, {.bias = data_or_null<S>(bias)}); });
}

Tensor define::linear_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return vitrine::gelu_tanh(vitrine::linear(x, weight, bias));
}

Tensor linear_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Layer l("linear_gelu_tanh", x, weight, bias);
  check_floating("linear_gelu_tanh", "x", l.x);
  const auto definition = [&] { return define::linear_gelu_tanh(l.x, l.weight, l.bias); };
  if (const auto y = through_definition({l.x, l.weight, l.bias}, definition)) return l.shaped(*y);
  if (rounds(l.x)) return l.shaped(definition());
  const Tensor rows = readable(l.x), matrix = packed(l.weight);
  Tensor h = l.result(), y = l.result();
  count_flops("linear_gelu_tanh", l.flops());
  VITRINE_RUN(linear_gelu_tanh, y, h, rows, matrix, l.packed_bias());
  y = record("linear_gelu_tanh", {l.x, l.weight, l.bias}, y,
             [x = Saved(rows), weight = Saved(matrix), h = Saved(h)](const Backward& b) {
               return layer_gradients(MatmulMath::float32, b,
                                      run_unary_backward(Unary::gelu_tanh, b.dy(), h, h, 0, 0), x, weight);
             });
  return l.shaped(y);
}

namespace cpu {
namespace {

/// Activates blocks of y when they are finished, with the same row function as the op gelu_tanh.
template <class S>
struct Activation {
  const S* y;
  S* active;
  int64_t columns;  // of y

  static void finish(void* self, int64_t, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    const auto& a = *static_cast<const Activation*>(self);
    for (int64_t i = row; i < row + rows; ++i) {
      const int64_t at = i * a.columns + column;
      unary_run(a.active + at, a.y + at, columns, Unary::gelu_tanh);
    }
  }
};

}  // namespace
}  // namespace cpu

void cpu::linear_gelu_tanh(Tensor& active, Tensor& y, const Tensor& x, const Tensor& weight,
                           const Tensor& bias) {
  visit_row_type(x.dtype(), "linear_gelu_tanh", [&]<class S>(Type<S>) {
    Activation<S> activation{y.data<S>(), active.data<S>(), y.size(1)};
    multiply_layer<S>(
        y, x, weight,
        {.bias = data_or_null<S>(bias), .finish = &Activation<S>::finish, .context = &activation});
  });
}

}  // namespace vitrine
