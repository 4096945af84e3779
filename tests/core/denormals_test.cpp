// Every kernel keeps denormals, and so does every thread, so that no result depends on the thread
// that computed it.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/parallel.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

constexpr int64_t kMany = 300000;  // enough chunks for every thread

/// Checks that all elements are `wanted`, up to a few of the smallest steps.
void check_all(const char* what, const Tensor& x, double wanted, double steps = 0) {
  CAPTURE(std::string(what));
  CAPTURE(threads());
  const double smallest = x.dtype() == DType::float64    ? 0x1p-1074
                          : x.dtype() == DType::bfloat16 ? 0x1p-133
                                                         : 0x1p-149;
  double worst = 0;
  for (double v : x.values()) worst = std::max(worst, std::abs(v - wanted));
  CHECK(worst <= steps * smallest);
}

/// Code that flushes denormals gives 0 here.
void check_kernels() {
  const double small = 0x1p-140;  // of float32, whose smallest normal number is 2^-126
  const Tensor x = full({kMany}, small);
  check_all("scale", x * 0.5, small / 2);
  check_all("add", x + x, 2 * small);
  check_all("sum", sum(x), small * kMany);
  check_all("exp", exp(full({kMany}, -100)), std::exp(-100.0), 1);
  check_all("cast up", cast(x, DType::float64), small);
  check_all("cast down", cast(full({kMany}, 0x1p-130), DType::bfloat16), 0x1p-130);
  check_all("cast up from bfloat16", cast(full({kMany}, 0x1p-130, DType::bfloat16), DType::float32),
            0x1p-130);
  check_all("float64", full({kMany}, 0x1p-1060, DType::float64) * 0.5, 0x1p-1061);
  for (const int64_t rows : {1, 130})  // the thin product, and the packed one
    check_all(rows == 1 ? "thin matmul" : "matmul",
              matmul(full({rows, 70}, 0x1p-70), transpose(full({20000, 70}, 0x1p-70))), 70 * small);
  const Tensor weights = softmax(concat({zeros({kMany, 1}), full({kMany, 1}, -100)}, 1), 1);
  check_all("softmax", slice(weights, 1, 1, 2), std::exp(-100.0), 1);
}

}  // namespace

TEST_CASE("denormals are kept on every thread") {
  const int before = threads();
  for (const int count : {1, 2, 3, 7}) {
    set_threads(count);
    check_kernels();
  }
  set_threads(before);
}
