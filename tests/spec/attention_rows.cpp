#include "tests/spec/attention_rows.h"

#include "core/creation.h"
#include "core/random.h"
#include "ops/additive_scores.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/rotary.h"
#include "ops/view.h"

namespace vitrine::spec {

using Xs = const std::vector<Tensor>&;

/// Every layout: pairs of halves, pairs of neighbours, channels that do not change, and row lengths
/// that no vector size divides. `angles` broadcast.
std::vector<Spec> rotary_rows() {
  const auto row = [](const Shape& x, const Shape& angles, bool interleaved) {
    Generator generator(3);
    const Tensor angle = randn(angles, DType::float64, Device::cpu, 0, 3, generator);
    const Call call = [cosine = cos(angle), sine = sin(angle), interleaved](Xs x) {
      return rotary(x[0], to(cosine, x[0].device()), to(sine, x[0].device()), interleaved);
    };
    return Spec{"rotary", call, {{{x}}}};
  };
  return {row({2, 3, 4, 16}, {4, 8}, false),
          row({2, 3, 8}, {3, 4}, true),
          row({2, 3, 7}, {2, 1, 3}, false),
          row({3, 5}, {3, 1}, true),
          row({74}, {37}, false),
          row({0, 8}, {4}, false),
          row({1, 2}, {1}, false)};
}

/// Queries, keys and weights; one leading axis and two, and vectors with a rest.
std::vector<Spec> additive_scores_rows() {
  return {{"additive_scores",
           [](Xs x) { return additive_scores(x[0], x[1], x[2]); },
           {{{{2, 3, 5}}, {{2, 19, 5}}, {{2, 5}}},
            {{{1, 2, 2, 3}}, {{1, 2, 4, 3}}, {{1, 2, 3}}},
            {{{1, 3, 2}}, {{1, 0, 2}}, {{1, 2}}},
            {{{1, 2, 0}}, {{1, 3, 0}}, {{1, 0}}}}}};
}

/// Attention with every option. Samples: q [B, H, Tq, D], k and v [B, Hkv, Tk, ·].
std::vector<Spec> attention_rows() {
  const std::vector<Input> square = {{{2, 2, 5, 3}}, {{2, 2, 5, 3}}, {{2, 2, 5, 4}}};
  const std::vector<Input> grouped = {{{1, 4, 3, 2}}, {{1, 2, 7, 2}}, {{1, 2, 7, 3}}};
  // `fourth` is an option that is a fourth input.
  const auto row = [&](AttentionOptions o, std::vector<std::vector<Input>> samples,
                       Tensor AttentionOptions::*fourth = nullptr) {
    // The exact read of LASER's definition cancels more than the kernel does.
    const Call call = [o, fourth](Xs x) {
      AttentionOptions options = o;
      const Device device = x[0].device();
      if (o.bias.defined()) options.bias = to(cast(o.bias, x[0].dtype()), device);
      if (o.allowed.defined()) options.allowed = to(o.allowed, device);
      if (o.slopes.defined()) options.slopes = to(o.slopes, device);
      if (fourth != nullptr) options.*fourth = x[3];
      return attention(x[0], x[1], x[2], options);
    };
    Spec spec{"attention", call, std::move(samples)};
    // Large scores have an absolute error, which exp makes relative. LASER's definition subtracts
    // sums of exponentials, and multiplies hidden values by 0, whereas the kernel does not read
    // them.
    spec.largest = 3;
    spec.not_finite = o.read == AttentionRead::mean && !o.causal && !o.allowed.defined() &&
                      o.left == AttentionOptions::kUnlimited;
    if (fourth == &AttentionOptions::sink) {
      spec.name = "attention_with_sink", spec.composite = true;
      // Where log Σ e^s is NaN, devices differ in whether keys of weight 0 get NaN.
      spec.not_finite = false;
    }
    if (o.first > 0) spec.name = "attention_with_first_keys", spec.composite = true;
    spec.bfloat16_units = 2;
    spec.reason = "weights and gradients of scores are rounded to bfloat16 before they are multiplied";
    if (o.read == AttentionRead::laser) {
      spec.gpu_float16_times = epsilon(DType::bfloat16) / epsilon(DType::float16);
      spec.reason += "; a GPU multiplies LASER's exponentials in bfloat16, as float16 cannot hold them";
      if (fourth == &AttentionOptions::bias) {
        spec.float32_units = 16;
        spec.reason += "; a GPU's backward finds Σ a·e^v as e^y, which makes the rounding of y relative";
      }
    }
    return spec;
  };
  const std::vector<Input> without_channels = {{{1, 2, 3, 0}}, {{1, 1, 4, 0}}, {{1, 1, 4, 2}}};
  AttentionOptions causal, window, first, capped, masked, biased;
  causal.causal = true;
  window.left = 2, window.right = 1, window.scale = 0.7;
  first.left = 1, first.first = 2, first.causal = true, first.slopes = tensor({0.5, 0.25}, DType::float64);
  capped.softcap = 1.5, capped.causal = true, capped.slopes = tensor({0.5, 0.25}, DType::float64);
  masked.allowed = tensor({1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 1}, {5, 5},
                          DType::boolean);
  biased.bias = tensor({0.5, -1, 0, 2, 1}, {1, 5}, DType::float64);
  std::vector<Spec> rows;
  for (const AttentionRead read : {AttentionRead::mean, AttentionRead::laser}) {
    for (AttentionOptions o : {AttentionOptions{}, causal, window}) {
      o.read = read;
      rows.push_back(row(o, {square, grouped, without_channels}));
    }
    for (AttentionOptions o : {first, capped, masked, biased}) {
      o.read = read;
      rows.push_back(row(o, {square}));
    }
    const auto with = [](std::vector<Input> inputs, const Shape& shape) {
      inputs.push_back({shape});
      return inputs;
    };
    for (AttentionOptions o : {AttentionOptions{}, capped}) {
      o.read = read;
      rows.push_back(row(o, {with(square, {2, 5, 5}), with(square, {2, 2, 5, 5}), with(square, {1, 5})},
                         &AttentionOptions::bias));
      if (read == AttentionRead::mean && !o.slopes.defined())
        rows.push_back(row(o, {with(grouped, {4})}, &AttentionOptions::sink));
      if (read == AttentionRead::mean) rows.push_back(row(o, {with(square, {2})}, &AttentionOptions::sink));
    }
  }
  return rows;
}

}  // namespace vitrine::spec
