#include "nn/layers/output.h"

#include "ops/elementwise.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor laser_output(const Tensor& logits, const Tensor& v) {
  check(v.rank() == 2 && logits.rank() >= 1 && logits.size(-1) == v.size(0),
        "laser_output: logits is {} and v is {}, wanted [..., V] and [V, D]", logits.shape(), v.shape());
  return log_sum_exp(unsqueeze(log_softmax(logits), -1) + v, {-2});
}

MixtureOfSoftmaxes::MixtureOfSoftmaxes(int64_t width, int64_t classes, int64_t mixtures, int64_t inside)
    : prior(width, mixtures, Bias::no),
      hidden(width, mixtures * (inside ? inside : width), Bias::no),
      out(inside ? inside : width, classes, Bias::no) {
  check(mixtures >= 1, "MixtureOfSoftmaxes: there are {} mixtures, wanted at least 1", mixtures);
}

Tensor MixtureOfSoftmaxes::forward(const Tensor& x) const {
  const int64_t width = prior.weight.shape()[1], mixtures = prior.weight.shape()[0];
  check(x.rank() >= 1 && x.size(-1) == width, "MixtureOfSoftmaxes: x is {}, wanted [..., {}]", x.shape(),
        width);
  Shape each = x.shape();
  each.back() = mixtures;
  each.push_back(out.weight.shape()[1]);
  const Tensor h = tanh(reshape(hidden.forward(x), each));
  return log_sum_exp(unsqueeze(log_softmax(prior.forward(x)), -1) + log_softmax(out.forward(h)), {-2});
}

void MixtureOfSoftmaxes::fields(Fields& f) {
  f("prior", prior);
  f("hidden", hidden);
  f("out", out);
}

MixtureOfSoftmaxes MixtureOfSoftmaxes::clone() {
  return clone_into([this] {
    const Shape &first = prior.weight.shape(), &last = out.weight.shape();
    return MixtureOfSoftmaxes(first[1], last[0], first[0], last[1]);
  });
}

}  // namespace vitrine::nn
