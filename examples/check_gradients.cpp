// An operation of your own and the check of its gradient: y = x·sigmoid(a·x) + b ("swish"). First
// the correct version, then versions with common mistakes. Each report names the worst element and
// a likely cause.
#include "core/gradcheck/check_gradients.h"

#include <iostream>

#include "core/creation.h"
#include "core/gradcheck/check_tape.h"
#include "core/random.h"
#include "core/record.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

enum class Mistake { none, sign, factor, missing_sum, forgotten_term, cut };

/// x [T, C], a a scalar, b [C]. Mistakes are usually in the backward:
///   dx = dy·(s + a·x·s·(1 − s)) with s = sigmoid(a·x)
///   da = Σ dy·x²·s·(1 − s)
///   db = Σ dy over the rows
Tensor swish(const Tensor& x, const Tensor& a, const Tensor& b, Mistake mistake) {
  if (mistake == Mistake::cut)
    return x * sigmoid(a.item() * x) + b;  // a plain number: the tape cannot see it
  Tensor y;
  {
    // This op has a backward of its own, so its inner ops need not be recorded
    const Tape::Pause pause;
    y = x * sigmoid(a * x) + b;
  }
  // The backward uses only the inputs of the op, in recorded ops. If it used a sigmoid from the
  // pause above, that sigmoid would be a constant for second derivatives, and a tape of order 2
  // reports an error.
  return record("swish", {x, a, b}, y, [=](const Tensor& dy) -> Grads {
    const Tensor s = sigmoid(a * x), ds = s * (1.0 - s);
    Tensor dx = dy * (s + a * x * ds), da = sum(dy * square(x) * ds), db = sum(dy, {0});
    switch (mistake) {
      case Mistake::sign: dx = -dx; break;
      case Mistake::factor: da = mean(dy * square(x) * ds); break;
      case Mistake::missing_sum: db = select(dy, 0, 0); break;
      case Mistake::forgotten_term: dx = dy * s; break;
      default: break;
    }
    return {dx, da, db};
  });
}

/// e^x with a correct backward that uses a tensor which a pause kept off the tape and which is not
/// an output of the op.
Tensor exp_with_a_pause(const Tensor& x) {
  Tensor kept;
  {
    const Tape::Pause pause;
    kept = exp(x);
  }
  return record("exp_with_a_pause", {x}, kept * 1.0, [=](const Tensor& dy) -> Grads { return {dy * kept}; });
}

void report(const std::string& title, const std::function<Tensor(const std::vector<Tensor>&)>& f,
            const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {}) {
  std::cout << "--- " << title << "\n" << check_gradients(f, inputs, options) << "\n";
}

}  // namespace

int main() {
  Generator generator(1);
  const Tensor x = randn({4, 3}, DType::float64, Device::cpu, 0, 1, generator);
  const Tensor a = Tensor(1.5, DType::float64), b = tensor({0.1, 0.2, 0.3}, DType::float64);

  const std::pair<const char*, Mistake> cases[] = {
      {"as it should be", Mistake::none},
      {"dx has the wrong sign", Mistake::sign},
      {"da is a mean, not a sum", Mistake::factor},
      {"db is not summed over the rows", Mistake::missing_sum},
      {"dx forgets that the sigmoid depends on x, too", Mistake::forgotten_term},
      {"a is used as a plain number", Mistake::cut},
  };
  for (const auto& [title, mistake] : cases)
    report(title, [m = mistake](const auto& v) { return swish(v[0], v[1], v[2], m); }, {x, a, b});

  report("a point where there is no derivative", [](const auto& v) { return abs(v[0]); },
         {tensor({-1, 0, 1}, DType::float64)});
  report("float32: too coarse for differences", [](const auto& v) { return exp(v[0]); },
         {copy_as(x, DType::float32)});
  report("second derivatives, too", [](const auto& v) { return swish(v[0], v[1], v[2], Mistake::none); },
         {x, a, b}, {.order = 2});
  report("a second derivative that a pause cuts", [](const auto& v) { return exp_with_a_pause(v[0]); }, {x},
         {.order = 2});

  Tape tape({.checkable = true});
  sum(swish(exp(tape.watch(x)), tape.watch(a), b, Mistake::forgotten_term));
  std::cout << "--- which op of a tape is wrong?\n" << check_tape(tape) << "\n";
  return std::cout.flush() ? 0 : 1;  // 1: the output could not be printed completely
}
