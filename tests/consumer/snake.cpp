#include "snake.h"

#include <vitrine/core/kernel_macros.h>
#include <vitrine/core/parallel.h>
#include <vitrine/ops/elementwise.h>
#include <vitrine/ops/operands.h>

#include <cmath>

namespace outside {

using namespace vitrine;

/// y = x + sin²(f·x)/f.
VITRINE_CPU_KERNEL(snake, Tensor& y, const Tensor& x, double f);
/// dx = dy·(1 + sin(2·f·x)).
VITRINE_CPU_KERNEL(snake_backward, Tensor& dx, const Tensor& dy, const Tensor& x, double f);

namespace define {

Tensor snake(const Tensor& x, double f) { return x + square(sin(f * x)) / f; }

}  // namespace define

Tensor snake(const Tensor& x, double f) {
  check_floating("snake", "x", x);
  check(f > 0, "snake: the frequency is {}, wanted a number above 0", f);
  if (const auto y = through_definition({x}, [&] { return define::snake(x, f); })) return *y;
  Tensor y = empty_like(x);
  VITRINE_RUN(snake, y, packed(x), f);
  return record("snake", {x}, y, [x = Saved(x), f](const Tensor& dy) -> Grads {
    Tensor dx = empty_like(x.get());
    VITRINE_RUN(snake_backward, dx, packed(dy), packed(x), f);
    return {dx};
  });
}

namespace cpu {

void snake(Tensor& y, const Tensor& x, double f) {
  visit_floating(x.dtype(), "snake", [&](auto type) {
    using S = typename decltype(type)::type;
    using W = AccumulatorOf<S>;  // float where S has 16 bits
    if constexpr (std::is_floating_point_v<W>) {
      parallel_for(0, x.numel(), grain_for(16), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const W v = static_cast<W>(x.data<S>()[i]), s = std::sin(static_cast<W>(f) * v);
          y.data<S>()[i] = static_cast<S>(v + s * s / static_cast<W>(f));
        }
      });
    }
  });
}

void snake_backward(Tensor& dx, const Tensor& dy, const Tensor& x, double f) {
#ifdef PLANTED_MISTAKE
  constexpr double kTwo = 2.02;
#else
  constexpr double kTwo = 2;
#endif
  visit_floating(x.dtype(), "snake_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using W = AccumulatorOf<S>;
    if constexpr (std::is_floating_point_v<W>) {
      parallel_for(0, x.numel(), grain_for(16), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const W v = static_cast<W>(x.data<S>()[i]), dv = static_cast<W>(dy.data<S>()[i]);
          dx.data<S>()[i] = static_cast<S>(dv * (1 + std::sin(static_cast<W>(kTwo * f) * v)));
        }
      });
    }
  });
}

}  // namespace cpu
}  // namespace outside
