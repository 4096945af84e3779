// A small network learns XOR; then its tape is printed.
#include <iostream>

#include "core/creation.h"
#include "core/print.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/layers/linear.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "optim/optimizers.h"

using namespace vitrine;

int main() {
  manual_seed(1);
  const Tensor x = tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const Tensor y = tensor({0, 1, 1, 0}, {4, 1});
  nn::Linear first(2, 8, nn::Bias::yes, 1.0), second(8, 1);
  const auto model = [&] { return second.forward(tanh(first.forward(x))); };
  optim::Adam adam({first.weight, first.bias, second.weight, second.bias}, {.lr = 0.05});
  for (int step = 0; step < 300; ++step) {
    adam.zero_grad();
    Tape tape;  // recording starts
    const Tensor loss = binary_cross_entropy(model(), y);
    if (step == 0) tape.print();
    tape.backward(loss);  // computes the gradients of the parameters; the tape is used up
    adam.step();
  }
  std::cout << sigmoid(model()) << "\n";
  return std::cout.flush() ? 0 : 1;  // 1: the output could not be printed completely
}
