// Convolutions, pooling and the convolution module of the Conformer in the reference cases.
#include "ops/activation.h"
#include "ops/convolution.h"
#include "ops/pooling.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// A setting per axis of an image; a number is the setting of a sequence.
template <class T>
PerAxis<T> per_axis(Params p, const char* name) {
  const auto values = p.at(name).get<std::vector<int64_t>>();
  check(values.size() == 2, "{} has {} values, wanted 2", name, values.size());
  return {values[0], values[1]};
}

Tensor conv1d_case(Params p, In x) {
  return conv1d(x.at("x"), x.at("w"), x.get("b"),
                {.stride = p.at("stride").get<int64_t>(),
                 .padding = p.at("padding").get<int64_t>(),
                 .dilation = p.at("dilation").get<int64_t>(),
                 .groups = p.at("groups").get<int64_t>()});
}

Tensor conv2d_case(Params p, In x) {
  return conv2d(x.at("x"), x.at("w"), x.get("b"),
                {.stride = per_axis<int64_t>(p, "stride"),
                 .padding = per_axis<Padding>(p, "padding"),
                 .dilation = per_axis<int64_t>(p, "dilation"),
                 .groups = p.at("groups").get<int64_t>()});
}

Tensor causal_conv1d_case(Params p, In x) {
  const Tensor y = causal_conv1d(x.at("x"), x.at("w"), x.get("b"), x.get("state"));
  if (!p.has("activation")) return y;
  check(p.at("activation") == "silu", "the activation of causal_conv1d is not known");
  return silu(y);
}

Tensor pool1d_case(Params p, In x, decltype(max_pool1d)& pool) {
  return pool(x.at("x"), p.at("kernel"),
              {.stride = p.at("stride").get<int64_t>(),
               .padding = p.at("padding").get<int64_t>(),
               .count_padding = p.value("count_include_pad", true)});
}

Tensor pool2d_case(Params p, In x, decltype(max_pool2d)& pool) {
  return pool(x.at("x"), per_axis<int64_t>(p, "kernel"),
              {.stride = per_axis<int64_t>(p, "stride"),
               .padding = per_axis<Padding>(p, "padding"),
               .count_padding = p.value("count_include_pad", true)});
}

}  // namespace

const TruthAdapters kConvolutionTruthAdapters = {
    {"avg_pool1d", [](Params p, In x) { return pool1d_case(p, x, avg_pool1d); }},
    {"avg_pool2d", [](Params p, In x) { return pool2d_case(p, x, avg_pool2d); }},
    {"causal_conv1d", causal_conv1d_case},
    {"conv1d", conv1d_case},
    {"conv2d", conv2d_case},
    {"max_pool1d", [](Params p, In x) { return pool1d_case(p, x, max_pool1d); }},
    {"max_pool2d", [](Params p, In x) { return pool2d_case(p, x, max_pool2d); }},
};

}  // namespace vitrine::test
