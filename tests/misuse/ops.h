// The operands of the rows for misuse of operations.
#pragma once

#include "core/creation.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/misuse/misuse.h"

namespace vitrine::test {

inline Tensor leaf(const Shape& shape) {
  return reshape(linspace(-1, 1, numel(shape)), shape).requires_grad();
}

/// Operands, and a tape that has recorded something.
struct Ops : Scene {
  Tensor x = leaf({2, 3}), w = leaf({3, 4}), v = leaf({3}), cube = leaf({2, 3, 4});
  Tensor q = leaf({1, 4, 3, 2}), k = leaf({1, 2, 3, 2});
  Tensor n = tensor({1, 2, 0, 2, 1, 1}, {2, 3}, DType::int64), yes = ones({2, 3}, DType::boolean);
  Tensor ids = tensor({1, 0}, DType::int64), far = tensor({1, 7}, DType::int64);
  Tape tape;
  Tensor before = sum(x * x) + sum(w) + sum(v) + sum(cube) + sum(q) + sum(k);

  std::string state() const override {
    std::string text = fmt::format("{} nodes\n", tape.size());
    for (const Tensor& t : {x, w, v, cube, q, k, n, yes, ids, far, before}) text += show(t);
    return text;
  }
  /// The value, and all gradients of the tape.
  std::string outcome(const Tensor& y) override {
    const std::string value = show(y);
    tape.backward(is_floating(y.dtype()) ? before + sum(square(cast(y, DType::float32))) : before);
    return value + state();
  }
};

}  // namespace vitrine::test
