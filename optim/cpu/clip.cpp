#include "core/loop.h"
#include "optim/cpu/pieces.h"
#include "optim/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/clip.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"
#include "optim/cpu/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

template <class S>
double squares_of_piece(ScaledPointer<S> x, size_t n) {
  return sum_of_squares<AccumulatorOf<S>>(x, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::optim::cpu {

void sum_of_squares(Tensor& total, const List& xs) {
  std::vector<double> squares(static_cast<size_t>(pieces_of(xs)));
  for_each_piece("sum_of_squares", xs, [&](auto type, size_t i, int64_t at, size_t n, int64_t piece) {
    using T = typename decltype(type)::type;
    visit_gradient<T>(xs[i], Tensor(), at, [&]<class S>(ScaledPointer<S> x) {
      squares[static_cast<size_t>(piece)] = VITRINE_DISPATCH(squares_of_piece<S>)(x, n);
    });
  });
  double sum = 0;
  for (double s : squares) sum += s;
  *total.data<double>() = sum;
}

void clip_factor(Tensor& factor, const Tensor& norm, double max_norm) {
  *factor.data<double>() = std::min(1.0, max_norm / (*norm.data<double>() + 1e-6));
}

void clip_all(List& xs, const Tensor& norm, double max_norm) {
  const double of_all = *norm.data<double>(), factor = max_norm / (of_all + 1e-6);
  if (factor < 1) scale_all(xs, factor);
}

void scale_all(List& xs, double factor) {
  for (Tensor& x : xs)
    visit_floating(x.dtype(), "scale_all", [&](auto type) {
      using T = typename decltype(type)::type;
      const StridedLoop<1> loop(x.shape(), {x.strides()});
      loop.parallel(1, [&](const std::array<int64_t, 1>& at, int64_t count) {
        T* const first = x.data<T>() + at[0];
        for (int64_t i = 0; i < count; ++i) {
          T& e = first[i * loop.inner_stride[0]];
          e = T(static_cast<AccumulatorOf<T>>(e) * static_cast<AccumulatorOf<T>>(factor));
        }
      });
    });
}

}  // namespace vitrine::optim::cpu
#endif
