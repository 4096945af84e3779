// The matrix product as in a textbook: one thread an element of z, which reads a row of x and a column of y.
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// Matrices of a batch: strides of the last two axes, and where the matrices of batch b begin.
struct Operand {
  int64_t row, column;
  int64_t batch[Dims::kMax];  // 0 along axes that are broadcast

  static Operand of(const Tensor& t, const Tensor& z) {
    const int r = t.rank();
    Operand o{t.strides()[r - 2], t.strides()[r - 1], {}};
    for (int axis = 0; axis < z.rank() - 2; ++axis) {
      const int own = axis - (z.rank() - r);
      o.batch[axis] = own < 0 || t.shape()[own] == 1 ? 0 : t.strides()[own];
    }
    return o;
  }
};

struct Product {
  int64_t M, N, K;
  int lead = 0;
  int64_t sizes[Dims::kMax] = {};
  Operand x, y, z;
};

constexpr unsigned kTile = 16;

template <class S, class SZ>
__global__ void matmul_kernel(SZ* z, const S* x, const S* y, const S* bias, Product p, bool add) {
  const int64_t i = int64_t{blockIdx.y} * kTile + threadIdx.y, j = int64_t{blockIdx.x} * kTile + threadIdx.x;
  if (i >= p.M || j >= p.N) return;
  int64_t rest = blockIdx.z, x_at = 0, y_at = 0, z_at = 0;
  for (int axis = p.lead - 1; axis >= 0; --axis) {
    const int64_t index = rest % p.sizes[axis];
    rest /= p.sizes[axis];
    x_at += index * p.x.batch[axis], y_at += index * p.y.batch[axis], z_at += index * p.z.batch[axis];
  }
  using T = Wide<S>;
  T sum = 0;
  for (int64_t k = 0; k < p.K; ++k)
    sum += static_cast<T>(x[x_at + i * p.x.row + k * p.x.column]) *
           static_cast<T>(y[y_at + k * p.y.row + j * p.y.column]);
  SZ& out = z[z_at + i * p.z.row + j * p.z.column];
  if (bias != nullptr) sum += static_cast<T>(bias[j]);
  out = SZ(add ? static_cast<T>(out) + sum : sum);
}

/// z = x·y + bias, or z += where `add`; `bias` may be undefined.
template <class S, class SZ>
void multiply(Tensor& z, const Tensor& x, const Tensor& y, const Tensor& bias, bool add) {
  Product p{x.size(-2), y.size(-1),        x.size(-1),        z.rank() - 2,
            {},         Operand::of(x, z), Operand::of(y, z), Operand::of(z, z)};
  int64_t batch = 1;
  for (int axis = 0; axis < p.lead; ++axis) batch *= p.sizes[axis] = z.shape()[axis];
  const auto tiles = [](int64_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  check(batch <= 65535 && p.M <= 65535 * int64_t{kTile},
        "matmul: {} matrices of {} rows are more than a grid of blocks holds", batch, p.M);
  const dim3 grid(tiles(p.N), tiles(p.M), static_cast<unsigned>(batch)), block(kTile, kTile);
  VITRINE_LAUNCH((matmul_kernel<S, SZ>), grid, block, 0, z.data<SZ>(), x.data<S>(), y.data<S>(),
                 bias.defined() ? bias.data<S>() : nullptr, p, add);
}

}  // namespace

void matmul(Tensor& z, const Tensor& x, const Tensor& y, bool add) {
  if (z.numel() == 0) return;
  if (is_integer(x.dtype()))
    return visit_index(x.dtype(), "matmul", [&](auto type) {
      using I = typename decltype(type)::type;
      multiply<I, I>(z, x, y, {}, add);
    });
  visit_device_floating(x.dtype(), "matmul", [&](auto type) {
    using S = typename decltype(type)::type;
    z.dtype() == x.dtype() ? multiply<S, S>(z, x, y, {}, add) : multiply<S, Wide<S>>(z, x, y, {}, add);
  });
}

void linear(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (y.numel() == 0) return;
  const Tensor transposed =
      weight.alias({weight.size(1), weight.size(0)}, {weight.strides()[1], weight.strides()[0]});
  visit_device_floating(x.dtype(), "linear", [&](auto type) {
    using S = typename decltype(type)::type;
    multiply<S, S>(y, x, transposed, bias, false);
  });
}

}  // namespace vitrine::cuda
