#include "nn/layers/convolution.h"

#include <cmath>

#include "core/tape.h"
#include "nn/init.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

Tensor value_or_none(const Parameter& bias) { return bias.defined() ? bias.value() : Tensor(); }
Bias has(const Parameter& bias) { return bias.defined() ? Bias::yes : Bias::no; }

void initialize(const char* layer, Parameter& weight, Parameter& bias, const Shape& shape, Bias with_bias) {
  for (int64_t size : shape)
    check(size >= 1, "{}: the weights are {}, wanted sizes of at least 1", layer, shape);
  const double bound = 1 / std::sqrt(static_cast<double>(numel(shape) / shape[0]));
  weight = uniform(shape, bound);
  if (with_bias == Bias::yes) bias = uniform({shape[0]}, bound);
}

int64_t group_size(const char* layer, int64_t in, int64_t out, int64_t groups) {
  check(groups >= 1 && in % groups == 0 && out % groups == 0,
        "{}: {} inputs and {} outputs do not divide into {} groups", layer, in, out, groups);
  return in / groups;
}

}  // namespace

Conv1d::Conv1d(int64_t in, int64_t out, int64_t kernel, const Conv1dOptions& options, Bias with_bias)
    : options_(options) {
  initialize("Conv1d", weight, bias, {out, group_size("Conv1d", in, out, options.groups), kernel}, with_bias);
}
Tensor Conv1d::forward(const Tensor& x) const { return conv1d(x, weight, value_or_none(bias), options_); }
void Conv1d::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
}
Conv1d Conv1d::clone() {
  return clone_into([this] {
    const Shape& s = weight.shape();
    return Conv1d(s[1] * options_.groups, s[0], s[2], options_, has(bias));
  });
}

Conv2d::Conv2d(int64_t in, int64_t out, PerAxis<int64_t> kernel, const Conv2dOptions& options, Bias with_bias)
    : options_(options) {
  initialize("Conv2d", weight, bias,
             {out, group_size("Conv2d", in, out, options.groups), kernel.rows, kernel.columns}, with_bias);
}
Tensor Conv2d::forward(const Tensor& x) const { return conv2d(x, weight, value_or_none(bias), options_); }
void Conv2d::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
}
Conv2d Conv2d::clone() {
  return clone_into([this] {
    const Shape& s = weight.shape();
    return Conv2d(s[1] * options_.groups, s[0], {s[2], s[3]}, options_, has(bias));
  });
}

CausalConv1d::CausalConv1d(int64_t channels, int64_t kernel, Bias with_bias) {
  initialize("CausalConv1d", weight, bias, {channels, kernel}, with_bias);
}
Tensor CausalConv1d::forward(const Tensor& x) const { return causal_conv1d(x, weight, value_or_none(bias)); }
Tensor CausalConv1d::forward(const Tensor& x, Tensor& state) const {
  check(Tape::recording() == nullptr, "CausalConv1d: a state has no gradient; decode under Tape::Pause");
  const Tensor y = causal_conv1d(x, weight, value_or_none(bias), state);
  state = vitrine::clone(causal_conv1d_state(x, weight.shape()[1], state));
  return y;
}
void CausalConv1d::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
}
CausalConv1d CausalConv1d::clone() {
  return clone_into([this] { return CausalConv1d(weight.shape()[0], weight.shape()[1], has(bias)); });
}

}  // namespace vitrine::nn
