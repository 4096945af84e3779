// Functions that the tests of ops share: random inputs, comparison in the maximum norm, and
// gradients against differences.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "core/creation.h"
#include "core/tape.h"

namespace vitrine::test {

/// Uniform in [low, high), the same for the same seed.
Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::float64, double low = -1,
              double high = 1);

/// max|got − want| / max(max|want|, floor); infinity if shapes differ, or if NaN or an infinity is
/// in only one of the two.
double distance(const Tensor& got, const Tensor& want, double floor = 1e-3);

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
