#include "ops/elementwise.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/creation.h"
#include "core/record.h"
#include "ops/kernels.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// Operands of one dtype (bool counts as int64 in arithmetic) and the shape to which they
/// broadcast.
struct Pair {
  Tensor x, y;
  Shape shape;

  Pair(const char* op, const Tensor& x0, const Tensor& y0, bool arithmetic = true)
      : shape(broadcast(op, x0.shape(), y0.shape())) {
    DType dtype = promote(x0.dtype(), y0.dtype());
    if (arithmetic && dtype == DType::boolean) dtype = DType::int64;
    x = cast(x0, dtype);
    y = cast(y0, dtype);
  }
};

/// A broadcast view for a kernel; not recorded.
Tensor seen_as(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Strides strides = Strides::filled(shape.rank(), 0);
  const int added = shape.rank() - x.rank();
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] == shape[added + i]) strides[added + i] = x.strides()[i];
  return x.alias(shape, strides);
}

/// Checks that x shows no element twice: an op in place would change such an element twice.
void check_elements_apart(const char* op, const Tensor& x) {
  if (x.numel() == 0) return;
  std::vector<std::pair<int64_t, int64_t>> axes;  // strides and sizes
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.shape()[axis] == 1) continue;
    check(x.strides()[axis] != 0,
          "{}: x is expanded along axis {}, so that elements are one and the same; clone it first", op, axis);
    axes.emplace_back(std::abs(x.strides()[axis]), x.shape()[axis]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;  // of the axes with smaller strides
  for (const auto& [stride, size] : axes) {
    check(stride > reach,
          "{}: rows of x may overlap, so that elements may be one and the same; clone it first", op);
    reach += stride * (size - 1);
  }
}

/// f(x), where f has a number that 16 bits would round: for these dtypes f computes in float32.
template <class F>
Tensor with_number(const Tensor& x, F f) {
  return is_low_precision(x.dtype()) ? cast(f(cast(x, accumulation_dtype(x.dtype()))), x.dtype()) : f(x);
}

Tensor run_binary(Binary op, const Pair& p) {
  if (p.x.dtype() == DType::uint8) {
    const Pair whole(name(op), copy_as(p.x, DType::int32), copy_as(p.y, DType::int32));
    return copy_as(run_binary(op, whole), DType::uint8);
  }
  Tensor z = empty(p.shape, p.x.dtype(), p.x.device(), name(op));
  VITRINE_RUN_AS(name(op), binary, z, seen_as(p.x, p.shape), seen_as(p.y, p.shape), op);
  return z;
}

Tensor run_compare(Comparison op, const char* name, const Tensor& x0, const Tensor& y0) {
  const Pair p(name, x0, y0, false);
  Tensor z = empty(p.shape, DType::boolean, p.x.device(), name);
  VITRINE_RUN_AS(name, compare, z, seen_as(p.x, p.shape), seen_as(p.y, p.shape), op);
  return record_cut(name, x0, y0.is_same(x0) ? z : record_cut(name, y0, z));
}

Tensor run_logic(Logic op, const char* name, const Tensor& x, const Tensor& y) {
  check(x.dtype() == DType::boolean && y.dtype() == DType::boolean, "{}: wanted bool, got {} and {}", name,
        describe(x), describe(y));
  const Shape shape = broadcast(name, x.shape(), y.shape());
  Tensor z = empty(shape, DType::boolean, x.device(), name);
  VITRINE_RUN_AS(name, logic, z, seen_as(x, shape), seen_as(y, shape), op);
  return z;
}

/// A plain number as a scalar of x's dtype. For an integer tensor it must be a whole number in the
/// dtype's range.
Tensor scalar_like(const char* op, const Tensor& x, double value) {
  const DType dtype = x.dtype() == DType::boolean ? DType::int64 : x.dtype();
  check_number(op, value, dtype);
  return full({}, value, dtype, x.device());
}

/// a·x + b.
Tensor affine(const char* op, const Tensor& x, double a, double b) {
  Tensor y = empty(x.shape(), x.dtype(), x.device(), op);
  VITRINE_RUN_AS(op, unary, y, x, Unary::affine, a, b);
  return record(op, {x}, y, [a](const Tensor& dy) -> Grads { return {dy * a}; });
}

/// x·y summed to `shape`. If there is a sum, 16-bit products stay in the wide dtype until after the
/// sum.
Tensor product_to(const Tensor& x, const Tensor& y, const Shape& shape) {
  const Shape full = broadcast("mul", x.shape(), y.shape());
  if (full == shape || !is_low_precision(x.dtype())) return sum_to(x * y, shape);
  return cast(sum_to(cast(x, accumulation_dtype(x.dtype())) * cast(y, accumulation_dtype(y.dtype())), shape),
              x.dtype());
}

/// The share of a maximum's or minimum's gradient that goes to x: 1 where x is chosen, 1/2 where
/// both are equal.
Tensor share(const Tensor& wins, const Tensor& ties, DType dtype) {
  return cast(wins, dtype) + cast(ties, dtype) * 0.5;
}

}  // namespace

Tensor add(const Tensor& x0, const Tensor& y0) {
  const Pair p("add", x0, y0);
  return record("add", {p.x, p.y}, run_binary(Binary::add, p),
                [sx = p.x.shape(), sy = p.y.shape()](const Backward& b) -> Grads {
                  return {b.needs(0) ? sum_to(b.dy(), sx) : Grad(), b.needs(1) ? sum_to(b.dy(), sy) : Grad()};
                });
}

Tensor sub(const Tensor& x0, const Tensor& y0) {
  const Pair p("sub", x0, y0);
  return record(
      "sub", {p.x, p.y}, run_binary(Binary::sub, p),
      [sx = p.x.shape(), sy = p.y.shape()](const Backward& b) -> Grads {
        return {b.needs(0) ? sum_to(b.dy(), sx) : Grad(), b.needs(1) ? -sum_to(b.dy(), sy) : Grad()};
      });
}

Tensor mul(const Tensor& x0, const Tensor& y0) {
  const Pair p("mul", x0, y0);
  return record("mul", {p.x, p.y}, run_binary(Binary::mul, p),
                [x = Saved(p.x), y = Saved(p.y)](const Backward& b) -> Grads {
                  return {b.needs(0) ? product_to(b.dy(), y, x->shape()) : Grad(),
                          b.needs(1) ? product_to(b.dy(), x, y->shape()) : Grad()};
                });
}

Tensor div(const Tensor& x0, const Tensor& y0) {
  if (!is_floating(promote(x0.dtype(), y0.dtype()))) return div(floating(x0), floating(y0));
  const Pair p("div", x0, y0);
  return record("div", {p.x, p.y}, run_binary(Binary::div, p),
                [x = Saved(p.x), y = Saved(p.y)](const Backward& b) -> Grads {
                  const Tensor dx = b.dy() / y;
                  return {b.needs(0) ? sum_to(dx, x->shape()) : Grad(),
                          b.needs(1) ? -product_to(dx, x.get() / y.get(), y->shape()) : Grad()};
                });
}

Tensor pow(const Tensor& x0, const Tensor& y0) {
  const Pair p("pow", x0, y0);
  return record("pow", {p.x, p.y}, run_binary(Binary::pow, p),
                [x = Saved(p.x), y = Saved(p.y)](const Backward& b) -> Grads {
                  Grads grads(2);
                  // 1 replaces x = 0 in powers and logarithms that would be infinite there.
                  const Tensor nonzero = not_equal(x, zeros_like(x));
                  if (b.needs(0)) {
                    const Tensor either = logical_or(nonzero, not_equal(y, zeros_like(y)));
                    grads[0] = product_to(b.dy(), y * pow(where(either, x, 1), y - 1), x->shape());
                  }
                  if (b.needs(1)) {
                    const Tensor base = where(nonzero, x, 1);
                    grads[1] = product_to(b.dy(), pow(base, y) * log(base), y->shape());
                  }
                  return grads;
                });
}

namespace {

/// maximum and minimum: the chosen operand receives the gradient, equal operands share it.
Tensor extreme(Binary op, const char* name, const Tensor& x0, const Tensor& y0) {
  const Pair p(name, x0, y0);
  const bool largest = op == Binary::maximum;
  return record(name, {p.x, p.y}, run_binary(op, p),
                [x = Saved(p.x), y = Saved(p.y), largest](const Backward& b) -> Grads {
                  const Tensor ties = equal(x, y);
                  const Tensor x_wins = largest ? greater(x, y) : less(x, y);
                  const Tensor y_wins = largest ? greater(y, x) : less(y, x);
                  const DType dtype = b.dy().dtype();
                  return {b.needs(0) ? sum_to(b.dy() * share(x_wins, ties, dtype), x->shape()) : Grad(),
                          b.needs(1) ? sum_to(b.dy() * share(y_wins, ties, dtype), y->shape()) : Grad()};
                });
}

}  // namespace

Tensor maximum(const Tensor& x, const Tensor& y) { return extreme(Binary::maximum, "maximum", x, y); }
Tensor minimum(const Tensor& x, const Tensor& y) { return extreme(Binary::minimum, "minimum", x, y); }
Tensor maximum(const Tensor& x, double y) { return maximum(x, scalar_like("maximum", x, y)); }
Tensor minimum(const Tensor& x, double y) { return minimum(x, scalar_like("minimum", x, y)); }

Tensor pow(const Tensor& x, double y) {
  if (is_floating(x.dtype())) {
    if (y == 2) return square(x);
    if (y == 1) return x;
    if (y == 0.5) return sqrt(x);
  }
  return with_number(x, [y](const Tensor& z) { return pow(z, scalar_like("pow", z, y)); });
}

Tensor operator+(const Tensor& x, double y) {
  return is_floating(x.dtype()) ? affine("add_scalar", x, 1, y) : add(x, scalar_like("add", x, y));
}
Tensor operator*(const Tensor& x, double y) {
  // Adding −0 leaves every number unchanged, including −0.
  return is_floating(x.dtype()) ? affine("mul_scalar", x, y, -0.0) : mul(x, scalar_like("mul", x, y));
}
Tensor operator-(const Tensor& x, double y) {
  return is_floating(x.dtype()) ? x + -y : sub(x, scalar_like("sub", x, y));
}
Tensor operator/(const Tensor& x, double y) {
  // In 16 bits a product with 1/y in float32, rounded once, is as exact, and one pass.
  const float inverse = 1 / static_cast<float>(y);
  if (is_low_precision(x.dtype()) && std::isnormal(inverse)) return affine("div_scalar", x, inverse, -0.0);
  return with_number(x, [y](const Tensor& z) { return div(z, scalar_like("div", floating(z), y)); });
}
Tensor operator+(double x, const Tensor& y) { return y + x; }
Tensor operator*(double x, const Tensor& y) { return y * x; }
Tensor operator-(double x, const Tensor& y) { return -y + x; }
Tensor operator/(double x, const Tensor& y) {
  return with_number(y, [x](const Tensor& z) { return div(scalar_like("div", floating(z), x), z); });
}
Tensor operator-(const Tensor& x) { return neg(x); }

void add_in_place(Tensor& x, const Tensor& y, double scale) {
  check(x.shape() == y.shape() && is_floating(x.dtype()) && is_floating(y.dtype()),
        "add_in_place: x is {} and y is {}, wanted floating tensors of one shape", describe(x), describe(y));
  check_elements_apart("add_in_place", x);
  // If y is another view of x's memory, elements would be read after they have been written.
  const bool apart =
      x.shared_storage() != y.shared_storage() || (x.raw() == y.raw() && x.strides() == y.strides());
  const auto scaled = [&] {
    const Tape::Pause pause;
    return cast(y, accumulation_dtype(y.dtype())) * scale;
  };
  VITRINE_RUN_AS("add_in_place", accumulate, x, scale != 1 ? scaled() : apart ? y : copy_as(y, y.dtype()));
}

void scale_in_place(Tensor& x, double scale) {
  check(is_floating(x.dtype()), "scale_in_place: x is {}, wanted a floating dtype", describe(x));
  check_elements_apart("scale_in_place", x);
  const Tensor from = x;
  VITRINE_RUN_AS("scale_in_place", unary, x, from, Unary::affine, scale, -0.0);
}

Tensor equal(const Tensor& x, const Tensor& y) { return run_compare(Comparison::equal, "equal", x, y); }
Tensor not_equal(const Tensor& x, const Tensor& y) {
  return run_compare(Comparison::not_equal, "not_equal", x, y);
}
Tensor less(const Tensor& x, const Tensor& y) { return run_compare(Comparison::less, "less", x, y); }
Tensor less_equal(const Tensor& x, const Tensor& y) {
  return run_compare(Comparison::less_equal, "less_equal", x, y);
}
Tensor greater(const Tensor& x, const Tensor& y) { return run_compare(Comparison::greater, "greater", x, y); }
Tensor greater_equal(const Tensor& x, const Tensor& y) {
  return run_compare(Comparison::greater_equal, "greater_equal", x, y);
}
Tensor logical_and(const Tensor& x, const Tensor& y) {
  return run_logic(Logic::logical_and, "logical_and", x, y);
}
Tensor logical_or(const Tensor& x, const Tensor& y) {
  return run_logic(Logic::logical_or, "logical_or", x, y);
}
Tensor logical_xor(const Tensor& x, const Tensor& y) {
  return run_logic(Logic::logical_xor, "logical_xor", x, y);
}
Tensor logical_not(const Tensor& x) {
  check(x.dtype() == DType::boolean, "logical_not: x is {}, wanted bool", describe(x));
  return run_logic(Logic::logical_xor, "logical_not", x, full({}, 1, DType::boolean, x.device()));
}
Tensor is_nan(const Tensor& x) { return not_equal(x, x); }
Tensor is_finite(const Tensor& x) {
  if (!is_floating(x.dtype())) return full(x.shape(), 1, DType::boolean, x.device());
  return less(abs(x), full({}, INFINITY, x.dtype(), x.device()));
}

Tensor where(const Tensor& condition, const Tensor& x0, const Tensor& y0) {
  check(condition.dtype() == DType::boolean, "where: the condition is {}, wanted bool", describe(condition));
  const Pair p("where", x0, y0, false);
  const Shape shape = broadcast("where", condition.shape(), p.shape);
  Tensor z = empty(shape, p.x.dtype(), p.x.device());
  VITRINE_RUN_AS("where", choose, z, seen_as(condition, shape), seen_as(p.x, shape), seen_as(p.y, shape));
  return record("where", {p.x, p.y}, z,
                [c = Saved(condition), sx = p.x.shape(), sy = p.y.shape()](const Backward& b) -> Grads {
                  const Tensor zero = full({}, 0, b.dy().dtype(), b.dy().device());
                  return {b.needs(0) ? sum_to(where(c, b.dy(), zero), sx) : Grad(),
                          b.needs(1) ? sum_to(where(c, zero, b.dy()), sy) : Grad()};
                });
}

Tensor where(const Tensor& condition, const Tensor& x, double y) {
  const bool stays = x.dtype() == DType::boolean && (y == 0 || y == 1);
  return where(condition, x, stays ? full({}, y, x.dtype(), x.device()) : scalar_like("where", x, y));
}

}  // namespace vitrine
