// Data that the tests of attention on both devices share.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "core/tape.h"
#include "ops/attention.h"
#include "tests/spec/spec.h"

namespace vitrine::test {

/// Operands of attention, and the gradient that arrives at its output.
struct AttentionInputs {
  Tensor q, k, v, dy;
};

using AttentionFunction = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&);

/// y, dq, dk and dv.
inline std::vector<Tensor> value_and_gradients(AttentionFunction f, const AttentionInputs& x,
                                               const AttentionOptions& o) {
  Tape tape;
  for (const Tensor& t : {x.q, x.k, x.v}) tape.watch(t);
  const Tensor y = f(x.q, x.k, x.v, o);
  std::vector<Tensor> result = tape.gradient({y}, {x.q, x.k, x.v}, {x.dy});
  result.insert(result.begin(), y);
  return result;
}

inline void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance) {
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("0 = y, 1 = dq, 2 = dk, 3 = dv: ", i);
    CHECK(spec::distance(got[i].values(), want[i].values(), 0.1) <= tolerance);
  }
}

}  // namespace vitrine::test
