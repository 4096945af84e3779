// Rows of convolutions and pooling.
#include "ops/convolution.h"
#include "ops/pooling.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

using MaybeFit = std::optional<Fit>;

/// An image of 2·groups channels, its weights [2·groups, 2, 2, 2] and a bias; stride, padding,
/// dilation and groups.
MaybeFit image_and_kernel(Choice& choice, const Shape&) {
  const int64_t groups = choice.between(1, 2), in = choice.between(1, 2);
  return Fit{{{choice.between(1, 2), in * groups, choice.between(2, 3), choice.between(2, 4)},
              {2 * groups, in, 2, 2},
              {2 * groups}},
             {.ints = {choice.between(1, 2), choice.between(1, 2), choice.between(1, 2), groups}}};
}

/// A sequence [N, C, T], weights [O, C, 2] and the stride.
MaybeFit sequence_and_kernel(Choice& choice, const Shape&) {
  const int64_t channels = choice.between(1, 2);
  return Fit{{{choice.between(1, 2), channels, choice.between(2, 5)}, {choice.between(1, 3), channels, 2}},
             {.ints = {choice.between(1, 2)}}};
}

/// A sequence [B, T, C] and a kernel for each channel.
MaybeFit sequence_and_taps(Choice& choice, const Shape&) {
  const int64_t channels = choice.between(1, 3);
  return Fit{{{choice.between(1, 2), choice.between(1, 4), channels}, {channels, choice.between(1, 3)}}};
}

/// An image or a sequence; the stride of windows of 2.
template <int axes>
MaybeFit pooled(Choice& choice, const Shape&) {
  Shape x = {choice.between(1, 2), choice.between(1, 2)};
  for (int i = 0; i < axes; ++i) x.push_back(choice.between(2, 4));
  return Fit{{x}, {.ints = {choice.between(1, 2)}}};
}

bool elements_apart(const Values& x, const Params&) { return separated(x[0]); }

}  // namespace

std::vector<Op> convolution_ops() {
  using V = const Values&;
  using P = const Params&;
  return {
      {"conv2d", "conv2d($0, $1, $2, {.stride = %0, .padding = %1, .dilation = %2, .groups = %3})",
       image_and_kernel,
       [](V x, P p) {
         return conv2d(
             x[0], x[1], x[2],
             {.stride = p.ints[0], .padding = p.ints[1], .dilation = p.ints[2], .groups = p.ints[3]});
       }},
      {"conv1d", "conv1d($0, $1, {}, {.stride = %0})", sequence_and_kernel,
       [](V x, P p) { return conv1d(x[0], x[1], {}, {.stride = p.ints[0]}); }},
      {"causal_conv1d", "causal_conv1d($0, $1)", sequence_and_taps,
       [](V x, P) { return causal_conv1d(x[0], x[1]); }},
      {"max_pool2d",
       "max_pool2d($0, 2, {.stride = %0, .padding = 1})",
       pooled<2>,
       [](V x, P p) { return max_pool2d(x[0], 2, {.stride = p.ints[0], .padding = 1}); },
       {{}},
       elements_apart},
      {"max_pool1d",
       "max_pool1d($0, 2, {.stride = %0})",
       pooled<1>,
       [](V x, P p) { return max_pool1d(x[0], 2, {.stride = p.ints[0]}); },
       {{}},
       elements_apart},
      {"avg_pool2d", "avg_pool2d($0, 2, {.stride = %0, .padding = 1, .count_padding = false})", pooled<2>,
       [](V x, P p) {
         return avg_pool2d(x[0], 2, {.stride = p.ints[0], .padding = 1, .count_padding = false});
       }},
      {"avg_pool1d", "avg_pool1d($0, 2, {.stride = %0, .last = LastWindow::partial})", pooled<1>,
       [](V x, P p) { return avg_pool1d(x[0], 2, {.stride = p.ints[0], .last = LastWindow::partial}); }},
  };
}

}  // namespace vitrine::programs
