// Functions that tests share: random inputs, comparison in the maximum norm, and gradients against
// differences.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <vector>

#include "core/creation.h"
#include "core/tape.h"

namespace vitrine::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline const double kNan = std::nan("");

inline constexpr DType kFloatTypes[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16};

/// The error that rounding explains, relative to the largest value.
inline double rounding_bound(DType dtype) { return (is_low_precision(dtype) ? 1 : 8) * epsilon(dtype); }

/// Uniform in [low, high), the same for the same seed.
Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::float64, double low = -1,
              double high = 1);

/// Uniform in [0.3, 1.5): far from 0, where many functions have a kink or a pole.
Tensor positive(const Shape& shape, uint64_t seed = 1, DType dtype = DType::float64);

/// Normal with mean 0 and this standard deviation, the same for the same seed.
Tensor normal(const Shape& shape, uint64_t seed, DType dtype = DType::float64, double deviation = 1);

/// A vector with these values that asks for its gradient.
Tensor leaf(std::initializer_list<double> values, DType dtype = DType::float64);

/// max|got − want| / max(max|want|, floor); infinity if shapes differ, or if NaN or an infinity is
/// in only one of the two.
double distance(const Tensor& got, const Tensor& want, double floor = 1e-3);

/// max|x − y|, computed in float64.
double largest_difference(const Tensor& x, const Tensor& y);

/// Whether x and y have the same shape, dtype and bits.
bool same_bits(const Tensor& x, const Tensor& y);

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// The largest error that check_gradients measures with differences, over all orders up to `order`.
/// The inputs are float64.
double gradient_error(const Function& f, const std::vector<Tensor>& xs, int order = 2);

/// Whether f gives the same bits on 1, 2, 3 and 7 threads.
bool same_on_any_threads(const std::function<std::vector<Tensor>()>& f);

/// The message of the Error that f throws; "" if it throws none.
std::string error_of(const std::function<void()>& f);

/// The gradients of Σ cotangent·f(xs), with a cotangent drawn from a fixed seed.
std::vector<Tensor> gradients(const Function& f, const std::vector<Tensor>& xs);

}  // namespace vitrine::test
