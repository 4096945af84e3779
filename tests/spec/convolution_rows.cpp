#include "tests/spec/convolution_rows.h"

#include "ops/convolution.h"
#include "ops/pooling.h"

namespace vitrine::spec {
namespace {

using Xs = const std::vector<Tensor>&;

Spec conv(const Conv2dOptions& options, std::vector<std::vector<Input>> samples) {
  return {"conv2d", [options](Xs x) { return conv2d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), options); },
          std::move(samples)};
}

/// Distinct elements, as the gradient jumps where two are equal.
Input apart(const Shape& shape) { return {shape, -2, 2, true}; }

}  // namespace

std::vector<Spec> convolution_rows() {
  std::vector<Spec> rows = {
      conv({}, {{{{2, 3, 4, 5}}, {{4, 3, 2, 3}}, {{4}}}, {{{0, 3, 4, 5}}, {{4, 3, 2, 3}}, {{4}}}}),
      conv({.padding = {1, {2, 0}}}, {{{{2, 2, 3, 4}}, {{3, 2, 3, 3}}}}),
      conv({.stride = {2, 3}, .padding = {{0, 1}, 1}, .dilation = {1, 2}, .groups = 2},
           {{{{2, 4, 5, 6}}, {{6, 2, 2, 3}}, {{6}}}}),
      conv({}, {{{{2, 3, 2, 3}}, {{5, 3, 1, 1}}, {{5}}}}),
      conv({.padding = 1, .groups = 3}, {{{{2, 3, 4, 5}}, {{3, 1, 3, 2}}, {{3}}}}),
      conv({.stride = 2, .padding = {{1, 0}, {0, 2}}, .dilation = 2, .groups = 2},
           {{{{2, 2, 5, 6}}, {{2, 1, 2, 3}}}}),
      {.name = "conv1d",
       .call =
           [](Xs x) {
             return conv1d(x[0], x[1], x[2], {.stride = 2, .padding = {2, 1}, .dilation = 2});
           },
       .samples = {{{{2, 3, 7}}, {{4, 3, 3}}, {{4}}}},
       .composite = true},
      {.name = "causal_conv1d",
       .call = [](Xs x) { return causal_conv1d(x[0], x[1], x[2], x[3]); },
       .samples = {{{{2, 5, 3}}, {{3, 4}}, {{3}}, {{2, 3, 3}}}},
       .composite = true},
      {.name = "causal_conv1d",
       .call = [](Xs x) { return causal_conv1d(x[0], x[1]); },
       .samples = {{{{2, 37, 2}}, {{2, 3}}}, {{{2, 0, 2}}, {{2, 3}}}},
       .composite = true},
      {.name = "max_pool2d",
       .call =
           [](Xs x) {
             return max_pool2d(x[0], {2, 3});
           },
       .samples = {{apart({2, 2, 4, 6})}, {apart({0, 2, 4, 6})}}},
      {.name = "max_pool2d",
       .call =
           [](Xs x) {
             return max_pool2d(
                 x[0], {3, 2},
                 {.stride = {2, 1}, .padding = {1, {1, 0}}, .dilation = {1, 2}, .last = LastWindow::partial});
           },
       .samples = {{apart({2, 2, 4, 5})}}},
      {.name = "max_pool1d",
       .call = [](Xs x) { return max_pool1d(x[0], 3, {.stride = 1, .padding = 1}); },
       .samples = {{apart({2, 2, 7})}},
       .composite = true},
      {.name = "avg_pool2d",
       .call =
           [](Xs x) {
             return avg_pool2d(x[0], {3, 2}, {.stride = {2, 1}, .padding = {1, {0, 1}}});
           },
       .samples = {{{{2, 2, 4, 5}}}, {{{0, 2, 4, 5}}}},
       .composite = true},
      {.name = "avg_pool1d",
       .call =
           [](Xs x) {
             return avg_pool1d(
                 x[0], 3, {.stride = 2, .padding = 1, .last = LastWindow::partial, .count_padding = false});
           },
       .samples = {{{{2, 2, 8}}}},
       .composite = true},
  };
  return rows;
}

}  // namespace vitrine::spec
