// Rotary position embedding: each pair (l, h) of channels is rotated by an angle, given by its
// cosine and sine.
//
//   l' = l·cos − h·sin        h' = h·cos + l·sin
//
// A thread owns pairs. If pairs consist of the halves of a row, the thread reads neighbouring
// elements of each half, and their angles, together. All heads share a few angles, so these come
// from a cache.
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// The distance of the two elements of a pair, and whether the angle is negated.
template <class T>
struct Turn {
  int64_t y_apart, x_apart;
  T sign;
};

template <class S, int N>
__device__ void turn_pairs(Lanes<N>, int64_t i, S* y, const S* x, const AccumulatorOf<S>* cosine,
                           const AccumulatorOf<S>* sine, const Strided<4>& layout,
                           const Turn<AccumulatorOf<S>>& turn) {
  using T = AccumulatorOf<S>;
  int64_t at[4];
  layout.locate(i, at);
  const Vector<S, N> low = layout.load<N>(1, x + at[1]), high = layout.load<N>(1, x + at[1] + turn.x_apart);
  const Vector<T, N> c = layout.load<N>(2, cosine + at[2]), s = layout.load<N>(3, sine + at[3]);
  Vector<S, N> first, second;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const T l = static_cast<T>(low.at[k]), h = static_cast<T>(high.at[k]), sin = turn.sign * s.at[k];
    first.at[k] = S(l * c.at[k] - h * sin);
    second.at[k] = S(h * c.at[k] + l * sin);
  }
  store(y + at[0], first);
  store(y + at[0] + turn.y_apart, second);
}

/// `layout` is the layout of the first element of each pair, in y and in x, and of its cosine and
/// sine.
template <class S>
__global__ void rotary_kernel(S* y, const S* x, const AccumulatorOf<S>* cosine, const AccumulatorOf<S>* sine,
                              Strided<4> layout, Turn<AccumulatorOf<S>> turn) {
  constexpr int N = kLanes<S, AccumulatorOf<S>>;
  if constexpr (N > 1)
    for (int64_t v = first_index(); v < layout.vectors; v += grid_stride())
      turn_pairs(Lanes<N>{}, v * N, y, x, cosine, sine, layout, turn);
  for (int64_t i = layout.vectors * N + first_index(); i < layout.count; i += grid_stride())
    turn_pairs(Lanes<1>{}, i, y, x, cosine, sine, layout, turn);
}

/// A view of the first element of each pair.
Tensor firsts(const Tensor& x, bool interleaved) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.back() /= 2;
  if (interleaved) strides.back() *= 2;
  return x.alias(shape, strides);
}

int64_t apart(const Tensor& x, bool interleaved) {
  return x.strides().back() * (interleaved ? 1 : x.size(-1) / 2);
}

}  // namespace

void rotary(Tensor& y, const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved,
            bool back) {
  if (x.numel() == 0) return;
  auto layout = Strided<4>::of(firsts(y, interleaved), firsts(x, interleaved), cosine, sine);
  visit_device_floating(x.dtype(), "rotary", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const Turn<T> turn{apart(y, interleaved), apart(x, interleaved), T(back ? -1 : 1)};
    // A single row may have any number of pairs: its second half may not begin at a multiple of 16
    // bytes.
    if (turn.y_apart % kLanes<S, T> != 0 || turn.x_apart % kLanes<S, T> != 0) layout.vectors = 0;
    VITRINE_LAUNCH((rotary_kernel<S>), layout.blocks(), kThreads, 0, y.data<S>(), x.data<S>(),
                   cosine.data<T>(), sine.data<T>(), layout, turn);
  });
}

}  // namespace vitrine::cuda
