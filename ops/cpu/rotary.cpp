// Rotary position embedding. Rows whose halves are both contiguous are vectorized; other pairs run
// one by one.
#include "core/loop.h"
#include "ops/cpu/rows.h"
#include "ops/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rotary.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

/// Pair i is x[i] and x[n + i]; `sign` is the sign of the angle.
template <class S>
void turn_halves(S* y, const S* x, const AccumulatorOf<S>* cosine, const AccumulatorOf<S>* sine,
                 AccumulatorOf<S> sign, size_t n) {
  using V = Vec<AccumulatorOf<S>>;
  const V direction(sign);
  for_each_vector<AccumulatorOf<S>>(n, [=](auto get, auto put) HWY_ATTR {
    const V low = get(x), high = get(x + n), c = get(cosine), s = direction * get(sine);
    put(y, low * c - high * s);
    put(y + n, high * c + low * s);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {
namespace {

/// The layout of a row's pairs: the distance between pairs, and from the first element of a pair to
/// the second.
struct Pairs {
  int64_t step, apart;
  Pairs(const Tensor& x, bool interleaved)
      : step(x.strides().back() * (interleaved ? 2 : 1)),
        apart(x.strides().back() * (interleaved ? 1 : x.size(-1) / 2)) {}
};

template <class S>
void turn_pairs(S* y, const Pairs& to, const S* x, const Pairs& from, const AccumulatorOf<S>* cosine,
                const AccumulatorOf<S>* sine, AccumulatorOf<S> sign, int64_t n) {
  using T = AccumulatorOf<S>;
  for (int64_t i = 0; i < n; ++i) {
    const S *const first = x + i * from.step, *const second = first + from.apart;
    const T low = static_cast<T>(*first), high = static_cast<T>(*second), c = cosine[i], s = sign * sine[i];
    y[i * to.step] = S(low * c - high * s);
    y[i * to.step + to.apart] = S(high * c + low * s);
  }
}

/// The strides from row to row.
Strides between_rows(const Tensor& x) {
  Strides strides = x.strides();
  strides.erase(strides.rank() - 1);
  return strides;
}

}  // namespace

void rotary(Tensor& y, const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved,
            bool back) {
  const int64_t n = cosine.size(-1);
  Shape rows = x.shape();
  rows.erase(rows.rank() - 1);
  const StridedLoop<4> loop(rows,
                            {between_rows(y), between_rows(x), between_rows(cosine), between_rows(sine)});
  const Pairs to(y, interleaved), from(x, interleaved);
  const bool halves = to.step == 1 && from.step == 1;
  visit_row_type(x.dtype(), "rotary", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const T sign = back ? -1 : 1;
    loop.parallel(8 * n, [&](std::array<int64_t, 4> at, int64_t count) {
      for (int64_t row = 0; row < count; ++row) {
        S* const target = y.data<S>() + at[0];
        const S* const source = x.data<S>() + at[1];
        const T *const c = cosine.data<T>() + at[2], *const s = sine.data<T>() + at[3];
        if (halves)
          VITRINE_DISPATCH(turn_halves<S>)(target, source, c, s, sign, static_cast<size_t>(n));
        else
          turn_pairs(target, to, source, from, c, s, sign, n);
        for (size_t k = 0; k < at.size(); ++k) at[k] += loop.inner_stride[k];
      }
    });
  });
}

}  // namespace vitrine::cpu
#endif
