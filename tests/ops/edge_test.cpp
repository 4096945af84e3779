// Integer, bool, empty, zero-dimensional and strided inputs of every op: results as in NumPy, or an
// error that names the op.
#include <doctest/doctest.h>

#include <cmath>

#include "core/random.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/multinomial.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

using X = const Tensor&;

/// The expected result of an op for integers and bool.
enum class Of {
  same,     ///< the dtype stays, bool too
  numbers,  ///< the dtype stays, bool becomes int64
  int64,    ///< int64
  float32,  ///< fractions: float32
  boolean,  ///< bool
  nothing,  ///< an error: the op requires a floating dtype
};

/// An op on one tensor with two axes. `empty0`, `empty1` and `scalar` are the shapes of the results
/// in NumPy for inputs of shape [0, 3], [2, 0] and []; "error" if there is no result.
struct Row {
  std::string name;
  Tensor (*call)(X);
  Of integers;
  const char *empty0, *empty1, *scalar;
};

Tensor zero_index() { return index_tensor(std::vector<int64_t>{0}, {1}); }

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"neg", neg, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"abs", abs, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"sign", sign, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"square", square, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"sub", [](X x) { return 1.0 - x; }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"mul", [](X x) { return x * 3.0; }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"pow", [](X x) { return pow(x, 3.0); }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"square", [](X x) { return pow(x, 2.0); }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"clamp", [](X x) { return clamp(x, 1, 2); }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"clamp", [](X x) { return clamp(x, -INFINITY, 2); }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"clamp", [](X x) { return clamp(x, 2, INFINITY); }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"maximum", [](X x) { return maximum(x, 2.0); }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"div", [](X x) { return div(x, x + 2); }, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"div", [](X x) { return x / 2.5; }, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"add", [](X x) { return add(x, x); }, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"where", [](X x) { return where(is_finite(x), x, 1.0); }, Of::same, "[0, 3]", "[2, 0]", "[]"},
      {"relu", relu, Of::numbers, "[0, 3]", "[2, 0]", "[]"},
      {"reciprocal", reciprocal, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"sqrt", sqrt, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"rsqrt", rsqrt, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"exp", exp, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"expm1", expm1, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"log", log, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"log1p", log1p, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"sin", sin, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"cos", cos, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"tanh", tanh, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"erf", erf, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"sigmoid", sigmoid, Of::float32, "[0, 3]", "[2, 0]", "[]"},
      {"equal", [](X x) { return equal(x, x); }, Of::boolean, "[0, 3]", "[2, 0]", "[]"},
      {"less", [](X x) { return less(x, ones_like(x)); }, Of::boolean, "[0, 3]", "[2, 0]", "[]"},
      {"is_nan", is_nan, Of::boolean, "[0, 3]", "[2, 0]", "[]"},
      {"is_finite", is_finite, Of::boolean, "[0, 3]", "[2, 0]", "[]"},
      {"leaky_relu", [](X x) { return leaky_relu(x); }, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"gelu", gelu, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"gelu_tanh", gelu_tanh, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"silu", silu, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"elu", [](X x) { return elu(x); }, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"elu_plus_one", elu_plus_one, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"softplus", softplus, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"softsign", softsign, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"hardswish", hardswish, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"mish", mish, Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"dropout",
       [](X x) {
         Generator g(1);
         return dropout(x, 0.5, g);
       },
       Of::nothing, "[0, 3]", "[2, 0]", "[]"},
      {"sum", [](X x) { return sum(x); }, Of::int64, "[]", "[]", "[]"},
      {"sum", [](X x) { return sum(x, {0}); }, Of::int64, "[3]", "[0]", "error"},
      {"sum", [](X x) { return sum(x, {-1}, KeepAxes::yes); }, Of::int64, "[0, 1]", "[2, 1]", "error"},
      {"prod", [](X x) { return prod(x, {-1}); }, Of::int64, "[0]", "[2]", "error"},
      {"mean", [](X x) { return mean(x, {-1}); }, Of::nothing, "[0]", "error", "error"},
      {"max", [](X x) { return max(x, {-1}); }, Of::same, "[0]", "error", "error"},
      {"min", [](X x) { return min(x, {0}); }, Of::same, "error", "[0]", "error"},
      {"max", [](X x) { return max(x); }, Of::same, "error", "error", "[]"},
      {"var", [](X x) { return var(x, {-1}); }, Of::nothing, "[0]", "error", "error"},
      {"std", [](X x) { return vitrine::std(x, {-1}); }, Of::nothing, "[0]", "error", "error"},
      {"norm", [](X x) { return norm(x, 1, {-1}); }, Of::nothing, "[0]", "[2]", "error"},
      {"norm", [](X x) { return norm(x); }, Of::nothing, "[]", "[]", "[]"},
      {"norm", [](X x) { return norm(x, INFINITY, {-1}); }, Of::nothing, "[0]", "error", "error"},
      {"cumsum", [](X x) { return cumsum(x, -1); }, Of::int64, "[0, 3]", "[2, 0]", "error"},
      {"argmax", [](X x) { return argmax(x, -1); }, Of::int64, "[0]", "error", "error"},
      {"argmin", [](X x) { return argmin(x, 0); }, Of::int64, "error", "[0]", "error"},
      {"argmax", [](X x) { return argmax(x); }, Of::int64, "error", "error", "[]"},
      {"any", [](X x) { return any(x, {-1}); }, Of::boolean, "[0]", "[2]", "error"},
      {"all", [](X x) { return all(x, {0}); }, Of::boolean, "[3]", "[0]", "error"},
      {"softmax", [](X x) { return softmax(x); }, Of::nothing, "[0, 3]", "[2, 0]", "error"},
      {"log_softmax", [](X x) { return log_softmax(x, 0); }, Of::nothing, "[0, 3]", "[2, 0]", "error"},
      {"log_sum_exp", [](X x) { return log_sum_exp(x); }, Of::nothing, "[0]", "error", "error"},
      {"layer_norm", [](X x) { return layer_norm(x); }, Of::nothing, "[0, 3]", "error", "error"},
      {"rms_norm", [](X x) { return rms_norm(x); }, Of::nothing, "[0, 3]", "error", "error"},
      {"l2_normalize", [](X x) { return l2_normalize(x); }, Of::nothing, "[0, 3]", "error", "error"},
      {"sort", [](X x) { return sort(x).values; }, Of::same, "[0, 3]", "[2, 0]", "error"},
      {"sort", [](X x) { return sort(x, 0, true).indices; }, Of::int64, "[0, 3]", "[2, 0]", "error"},
      {"topk", [](X x) { return topk(x, 1).values; }, Of::same, "[0, 1]", "error", "error"},
      {"reshape", [](X x) { return reshape(x, {-1}); }, Of::same, "[0]", "[0]", "[1]"},
      {"flatten", [](X x) { return flatten(x); }, Of::same, "[0]", "[0]", "[1]"},
      {"transpose", [](X x) { return transpose(x); }, Of::same, "[3, 0]", "[0, 2]", "error"},
      {"permute",
       [](X x) {
         return permute(x, {1, 0});
       },
       Of::same, "[3, 0]", "[0, 2]", "error"},
      {"expand",
       [](X x) {
         return expand(x, {2, 0, 3});
       },
       Of::nothing, "[2, 0, 3]", "error", "[2, 0, 3]"},
      {"squeeze", [](X x) { return squeeze(x); }, Of::same, "[0, 3]", "[2, 0]", "[]"},
      {"unsqueeze", [](X x) { return unsqueeze(x, -1); }, Of::same, "[0, 3, 1]", "[2, 0, 1]", "[1]"},
      {"slice", [](X x) { return slice(x, 0, 1); }, Of::same, "[0, 3]", "[1, 0]", "error"},
      {"slice", [](X x) { return slice(x, -1, {}, {}, -2); }, Of::same, "[0, 2]", "[2, 0]", "error"},
      {"select", [](X x) { return select(x, 0, -1); }, Of::same, "error", "[0]", "error"},
      {"split", [](X x) { return split(x, 2).at(0); }, Of::same, "[0, 3]", "[2, 0]", "error"},
      {"flip", [](X x) { return flip(x, {}); }, Of::same, "[0, 3]", "[2, 0]", "[]"},
      {"diagonal", [](X x) { return diagonal(x); }, Of::same, "[0]", "[0]", "error"},
      {"contiguous", contiguous, Of::same, "[0, 3]", "[2, 0]", "[]"},
      {"clone", clone, Of::same, "[0, 3]", "[2, 0]", "[]"},
      {"concat", [](X x) { return concat({x, x}, 0); }, Of::same, "[0, 3]", "[4, 0]", "error"},
      {"stack", [](X x) { return stack({x, x}, -1); }, Of::same, "[0, 3, 2]", "[2, 0, 2]", "[2]"},
      {"pad", [](X x) { return pad(x, {1, 0}, {0, 2}); }, Of::same, "[1, 5]", "[3, 2]", "error"},
      {"pad", [](X x) { return pad(x, {1, 0}, {0, 0}, PadMode::edge); }, Of::same, "error", "[3, 0]",
       "error"},
      {"pad", [](X x) { return pad(x, {1, 0}, {0, 0}, PadMode::wrap); }, Of::same, "error", "[3, 0]",
       "error"},
      {"tile", [](X x) { return tile(x, {2, 1}); }, Of::same, "[0, 3]", "[4, 0]", "[2, 1]"},
      {"repeat", [](X x) { return repeat(x, 2, 0); }, Of::same, "[0, 3]", "[4, 0]", "error"},
      {"tril", [](X x) { return tril(x); }, Of::same, "[0, 3]", "[2, 0]", "error"},
      {"triu", [](X x) { return triu(x, 1); }, Of::same, "[0, 3]", "[2, 0]", "error"},
      {"gather", [](X x) { return gather(x, 0, zeros(x.shape(), DType::int64)); }, Of::same, "[0, 3]",
       "[2, 0]", "error"},
      {"index_select", [](X x) { return index_select(x, 0, zero_index()); }, Of::same, "error", "[1, 0]",
       "error"},
      {"index_select", [](X x) { return index_select(x, 1, zeros({0}, DType::int64)); }, Of::same, "[0, 0]",
       "[2, 0]", "error"},
      {"embedding", [](X x) { return embedding(x, zero_index()); }, Of::nothing, "error", "[1, 0]", "error"},
      {"scatter_add", [](X x) { return scatter_add(x, 0, zeros(x.shape(), DType::int64), x); }, Of::same,
       "[0, 3]", "[2, 0]", "error"},
      {"einsum", [](X x) { return einsum("ij->j", {cast(x, promote(x.dtype(), DType::int32))}); },
       Of::nothing, "[3]", "[0]", "error"},
      {"matmul", [](X x) { return matmul(x, transpose(x)); }, Of::nothing, "[0, 0]", "[2, 2]", "error"},
      {"matmul", [](X x) { return matmul(unsqueeze(x, 0), transpose(x)); }, Of::nothing, "[1, 0, 0]",
       "[1, 2, 2]", "error"},
      {"linear", [](X x) { return linear(x, ones({4, x.size(-1)}, x.dtype()), ones({4}, x.dtype())); },
       Of::nothing, "[0, 4]", "[2, 4]", "error"},
      {"mse_loss", [](X x) { return mse_loss(x, x, Reduction::sum); }, Of::nothing, "[]", "[]", "[]"},
      {"cross_entropy", [](X x) { return cross_entropy(x, zeros({x.size(0)}, DType::int64)); }, Of::nothing,
       "[]", "error", "error"},
  };
  return table;
}

/// The shape of the result, or "error". An error must name an op (a composite may name one of the
/// ops of which it consists).
std::string shape_of(const Row& row, X x) {
  std::string shape;
  const std::string error = error_of([&] { shape = to_string(row.call(x).shape()); });
  CHECK_MESSAGE((error.empty() || error.find(": ") < 24), (row.name + " says " + error));
  return error.empty() ? shape : "error";
}

DType wanted(Of integers, DType dtype) {
  switch (integers) {
    case Of::numbers: return dtype == DType::boolean ? DType::int64 : dtype;
    case Of::int64: return DType::int64;
    case Of::float32: return DType::float32;
    case Of::boolean: return DType::boolean;
    default: return dtype;
  }
}

/// Views with the values of x whose elements are not adjacent.
std::vector<Tensor> strided(X x) {
  const Tensor across = transpose(clone(transpose(x)));
  const Tensor gaps = select(stack({x, x}, -1), -1, 1);
  const Tensor backwards = flip(clone(flip(x, {})), {});
  return {across, gaps, backwards};
}

}  // namespace

TEST_CASE("empty and zero-dimensional inputs give the shapes of NumPy, or an error") {
  for (const Row& row : rows()) {
    CHECK_MESSAGE(shape_of(row, zeros({0, 3})) == row.empty0, (row.name + " of [0, 3]"));
    CHECK_MESSAGE(shape_of(row, zeros({2, 0})) == row.empty1, (row.name + " of [2, 0]"));
    CHECK_MESSAGE(shape_of(row, Tensor(2.0)) == row.scalar, (row.name + " of []"));
  }
}

TEST_CASE(
    "integers and bool give what float64 gives, in the dtype of the table, or an error that names the op") {
  for (const Row& row : rows())
    for (DType dtype : {DType::int32, DType::int64, DType::uint8, DType::boolean}) {
      if (row.integers == Of::nothing) continue;
      const Tensor x = tensor({1, 2, 3, 5, 1, 2}, {2, 3}, dtype);
      const Tensor y = row.call(x), want = row.call(cast(x, DType::float64));
      CHECK_MESSAGE(y.dtype() == wanted(row.integers, dtype),
                    fmt::format("{} of {}: {}", row.name, name(dtype), name(y.dtype())));
      // If a sum of bool is converted back to bool, it is true where the sum is not 0; uint8 wraps
      // around.
      const Tensor expected = y.dtype() == DType::boolean ? cast(want, DType::boolean)
                              : y.dtype() == DType::uint8 ? cast(cast(want, DType::int64), DType::uint8)
                                                          : want;
      CHECK_MESSAGE(distance(y, expected) < 3e-7, fmt::format("{} of {}", row.name, name(dtype)));
    }
}

TEST_CASE("functions of fractions refuse integers by name") {
  for (const Row& row : rows()) {
    if (row.integers != Of::nothing || row.name == "expand" || row.name == "einsum" || row.name == "matmul" ||
        row.name == "linear")
      continue;
    for (DType dtype : {DType::int32, DType::uint8, DType::boolean}) {
      const std::string error = error_of([&] { row.call(ones({2, 3}, dtype)); });
      CHECK_MESSAGE(error.starts_with(row.name + ": "), (row.name + " says " + error));
      CHECK_MESSAGE(error.find("wanted a floating dtype") != std::string::npos, error);
    }
  }
}

TEST_CASE("strides change no value, of any dtype") {
  for (const Row& row : rows())
    for (DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::boolean}) {
      const Tensor x = tensor({3, 1, 2, 5, 1, 4}, {2, 3}, dtype);
      Tensor want;
      if (!error_of([&] { want = row.call(x); }).empty()) continue;
      for (const Tensor& view : strided(x)) {
        REQUIRE_FALSE(view.is_contiguous());
        const Tensor y = row.call(view);
        CHECK_MESSAGE(y.shape() == want.shape(), row.name);
        CHECK_MESSAGE(distance(y, want) < 1e-6, fmt::format("{} of strided {}", row.name, name(dtype)));
      }
      const Tensor repeated = expand(tensor({3, 1, 2}, dtype), {2, 3});
      CHECK_MESSAGE(distance(row.call(repeated), row.call(clone(repeated))) < 1e-6,
                    (row.name + " of a repeated row"));
    }
}

TEST_CASE("large integers keep every bit, and wrap around as in NumPy") {
  const int64_t big = (int64_t{1} << 60) + 1, lowest = INT64_MIN;
  const Tensor x = index_tensor(std::vector<int64_t>{big, 3, big - 2, lowest}, {4});
  const auto at = [](X y, int64_t i) { return y.data<int64_t>()[i]; };
  CHECK(at(x + 1.0, 0) == big + 1);
  CHECK(at(maximum(x, zeros_like(x)), 0) == big);
  CHECK(at(sort(x).values, 3) == big);
  CHECK(argmax(x, 0).item() == 0);
  CHECK(at(max(x), 0) == big);
  CHECK(at(sum(slice(x, 0, 0, 3)), 0) == big + 3 + big - 2);
  CHECK(at(cumsum(x, 0), 1) == big + 3);
  CHECK(at(concat({x, arange(0, 2)}), 0) == big);
  CHECK(at(clamp(x, -INFINITY, INFINITY), 3) == lowest);
  CHECK(at(where(equal(x, x), x, 0.0), 0) == big);
  CHECK(less(slice(x, 0, 2, 3), slice(x, 0, 0, 1)).item() == 1);
  CHECK(at(neg(x), 3) == lowest);
  CHECK(at(abs(x), 3) == lowest);
  CHECK(at(x * 2.0, 3) == 0);
  const Tensor edge = index_tensor(std::vector<int64_t>{INT64_MAX, 1}, {2});
  CHECK(at(sum(edge), 0) == lowest);
  CHECK(at(cumsum(edge, 0), 1) == lowest);
  CHECK(at(matmul(edge, index_tensor(std::vector<int64_t>{2, 1}, {2})), 0) == -1);
}

TEST_CASE("a plain number that an integer tensor cannot hold is an error, not another number") {
  const Tensor x = ones({2}, DType::int32), yes = ones({2}, DType::boolean);
  CHECK(error_of([&] { x + 0.5; }).starts_with("add: the number 0.5 is not whole"));
  CHECK(error_of([&] { x * 3e9; }).starts_with("mul: the number 3000000000 is outside the range"));
  CHECK(error_of([&] { maximum(x, INFINITY); }).starts_with("maximum: the number inf is outside"));
  CHECK(error_of([&] { where(yes, x, 0.5); }).starts_with("where: the number 0.5 is not whole"));
  CHECK(error_of([&] { where(yes, x, NAN); }).starts_with("where: the number nan is not whole"));
  CHECK(error_of([&] { clamp(x, 0.5, 2); }).starts_with("clamp: the bound 0.5 is not whole"));
  CHECK(where(yes, yes, 0).dtype() == DType::boolean);
  CHECK(where(logical_not(yes), yes, 2).values() == std::vector<double>{2, 2});
  CHECK(error_of([&] { logical_not(x); }) == "logical_not: x is int32[2] on cpu, wanted bool");
}

TEST_CASE("sizes, steps and amounts near the ends of int64 are errors, or right; none overflows") {
  const Tensor x = arange(0, 6), m = reshape(x, {2, 3});
  const int64_t huge = int64_t{1} << 62;
  CHECK(error_of([&] {
          reshape(m, {-1, huge, 4});
        }).find("more elements than an int64 can count") != std::string::npos);
  CHECK(slice(x, 0, {}, {}, INT64_MIN).values() == std::vector<double>{5});
  CHECK(slice(x, 0, {}, {}, INT64_MAX).values() == std::vector<double>{0});
  CHECK(slice(m, 0, INT64_MIN, INT64_MAX, INT64_MAX).values() == std::vector<double>{0, 1, 2});
  CHECK(slice(m, 0, {}, {}, -INT64_MAX).values() == std::vector<double>{3, 4, 5});
  CHECK(slice(x, 0, {}, {}, -2).values() == std::vector<double>{5, 3, 1});
  CHECK(slice(x, 0, 4, 0, -2).values() == std::vector<double>{4, 2});
  CHECK(error_of([&] { split(x, {INT64_MAX, 2}); }).starts_with("split: the sizes ["));
  for (PadMode mode : {PadMode::constant, PadMode::edge})
    CHECK(error_of([&] { pad(x, {INT64_MAX}, {INT64_MAX}, mode); }).starts_with("pad: "));
  CHECK(error_of([&] { tile(m, {1, huge}); }).starts_with("tile: "));
  const std::string uncountable = "more elements than an int64 can count";
  CHECK(error_of([&] { one_hot(x, INT64_MAX); }) ==
        "a tensor of shape [6, 9223372036854775807] has " + uncountable);
  CHECK(error_of([&] { expand(ones({1}), {huge, 2}); }).find(uncountable) != std::string::npos);
  CHECK(error_of([&] { arange(0, 1e300); }).starts_with("arange: "));
  const Tensor half = expand(ones({1}), {huge});
  CHECK(error_of([&] { concat({half, half}, 0); }).starts_with("concat: "));
  CHECK(error_of([&] { stack({half, half, half}, 0); }).find(uncountable) != std::string::npos);
  CHECK(error_of([&] { repeat(m, huge, 0); }).starts_with("repeat: "));
  const Tensor most = index_tensor(std::vector<int64_t>{INT64_MAX}, {1});
  CHECK(scatter_add(most, 0, zero_index(), ones({1}, DType::int64)).data<int64_t>()[0] == INT64_MIN);
}

TEST_CASE("an integer with an exponent that is not whole is an error, also 0.5; 1.0 times −0 is −0") {
  for (double exponent : {0.5, 1.5})
    CHECK(error_of([&] { pow(ones({2}, DType::int32), exponent); }).starts_with("pow: the number"));
  CHECK(pow(ones({2}, DType::boolean), 1).dtype() == DType::int64);
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    Tensor zero = Tensor(-0.0, dtype);
    CHECK(std::signbit((zero * 1.0).item()));
    scale_in_place(zero, 1);
    CHECK(std::signbit(zero.item()));
    CHECK_FALSE(std::signbit((zero + 0.0).item()));  // IEEE 754: −0 + 0 is 0
  }
}

TEST_CASE("an operand that a product cannot read as it lies is copied, but the copy is not recorded") {
  const Tensor w = select(ones({4, 4, 2}), -1, 0);
  Tape tape;
  const Tensor x = tape.watch(select(ones({3, 4, 2}), -1, 0));
  const Tensor y = matmul(x, w) + linear(x, w, select(ones({4, 2}), -1, 0));
  for (size_t i = 0; i < tape.size(); ++i) CHECK(std::string_view(tape.info(i).op) != "clone");
  CHECK(tape.gradient(sum(y), {x})[0].values() == std::vector<double>(12, 8));
}

TEST_CASE("sums over nothing are 0 in products of matrices, and a bias stays") {
  CHECK(matmul(zeros({2, 3, 0}), zeros({0, 4})).values() == std::vector<double>(24, 0));
  CHECK(matmul(zeros({0}), zeros({0})).item() == 0);
  CHECK(linear(zeros({2, 0}), zeros({3, 0}), ones({3})).values() == std::vector<double>(6, 1));
  CHECK(linear(zeros({0}), zeros({3, 0}), ones({3})).values() == std::vector<double>(3, 1));
  CHECK(linear(zeros({2, 0, 4}), zeros({3, 4}), ones({3})).shape() == Shape{2, 0, 3});
  const auto grads = gradients([](const auto& v) { return linear(v[0], v[1], v[2]); },
                               {zeros({2, 0}), zeros({3, 0}), ones({3})});
  CHECK(grads[1].shape() == Shape{3, 0});
  CHECK(concat(split(zeros({0, 3}), 2)).shape() == Shape{0, 3});
}

TEST_CASE("the ops of several operands take empty ones, too") {
  const auto draw = [](const Shape& shape) { return random(shape, 1, DType::float32); };
  CHECK(attention(draw({0, 2, 3, 4}), draw({0, 2, 5, 4}), draw({0, 2, 5, 6})).shape() == Shape{0, 2, 3, 6});
  CHECK(attention(draw({1, 2, 0, 4}), draw({1, 2, 5, 4}), draw({1, 2, 5, 6})).shape() == Shape{1, 2, 0, 6});
  CHECK(attention(draw({1, 2, 3, 4}), draw({1, 2, 0, 4}), draw({1, 2, 0, 6})).values() ==
        std::vector<double>(36, 0));
  CHECK(one_hot(zeros({0}, DType::int32), 4).shape() == Shape{0, 4});
  CHECK(one_hot(Tensor(2, DType::int64), 4).values() == std::vector<double>{0, 0, 1, 0});
  CHECK(swiglu(zeros({0, 4})).shape() == Shape{0, 2});
  CHECK(embedding(ones({3, 2}), zeros({0}, DType::int64)).shape() == Shape{0, 2});
  CHECK(where(zeros({0, 1}, DType::boolean), ones({3}), ones({1, 3})).shape() == Shape{0, 3});
  CHECK(add(zeros({0, 1}), ones({1, 3})).shape() == Shape{0, 3});
  CHECK(binary_cross_entropy(zeros({0}), zeros({0}), Reduction::sum).item() == 0);
  CHECK(error_of([] { binary_cross_entropy(zeros({0}), zeros({0})); }) ==
        "binary_cross_entropy: there is no mean of no losses, [0]");
  CHECK(error_of([] { mse_loss(zeros({0}), zeros({0})); }) == "mse_loss: there is no mean of no losses, [0]");
  CHECK(error_of([] { stack({zeros({2})}, 9); }).starts_with("stack: axis 9"));
  CHECK(error_of([] { swiglu(zeros({2}, DType::int64)); }).starts_with("swiglu: x is int64[2]"));
  CHECK(multinomial(zeros({0, 3}), 2).shape() == Shape{0, 2});
  CHECK(error_of([] { concat({}); }).starts_with("concat: "));
  CHECK(error_of([] { stack({}); }).starts_with("stack: "));
}
