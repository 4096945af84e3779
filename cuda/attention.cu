// Attention and its backward: chooses and runs a step of the ladder (cuda/attention/).
#include <algorithm>
#include <array>

#include "core/tensor_kernels.h"
#include "cuda/attention/steps.h"
#include "cuda/ladder.h"
#include "cuda/launch.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

constexpr const char* kVariable = "VITRINE_CUDA_ATTENTION";

constexpr std::array<AttentionStep, 4> kSteps = {{
    {"naive", naive_attention_supports, naive_attention, naive_attention_backward_supports,
     naive_attention_backward},
    {"tiled", tiled_attention_supports, tiled_attention, tiled_attention_backward_supports,
     tiled_attention_backward},
    {"tensor_core", tensor_core_attention_supports, tensor_core_attention,
     tensor_core_attention_backward_supports, tensor_core_attention_backward},
    {"hopper", hopper_attention_supports, hopper_attention, hopper_attention_backward_supports,
     hopper_attention_backward},
}};

const std::string& setting() {
  static const std::string text = ladder_setting(kVariable);
  return text;
}

void check_sizes(const char* kernel, const Tensor& q, const Tensor& k) {
  check(q.size(2) < (1 << 30) && k.size(2) < (1 << 30),
        "{}: {} queries and {} keys are more than its CUDA kernels count", kernel, q.size(2), k.size(2));
}

/// Calls run(part) for as many batch elements at a time as a grid's last axis has blocks. part(x)
/// is the part of x with these batch elements, if x is defined.
template <class F>
void in_batches(int64_t batches, F&& run) {
  const int64_t most = most_in_depth();
  for (int64_t begin = 0; begin < batches; begin += most)
    run([batches, begin, end = std::min(begin + most, batches)](const Tensor& x) {
      if (!x.defined() || end - begin == batches) return x;
      Shape shape = x.shape();
      shape[0] = end - begin;
      return x.alias(shape, x.strides(), begin * x.strides()[0]);
    });
}

}  // namespace

std::span<const AttentionStep> attention_steps() { return kSteps; }

const AttentionStep& choose_attention(std::string_view setting, const AttentionForward& p) {
  return choose_step(kVariable, setting, attention_steps(),
                     [&](const AttentionStep& step) { return step.supports(p); });
}

const AttentionStep& choose_attention_backward(std::string_view setting, const AttentionBackward& p) {
  return choose_step(kVariable, setting, attention_steps(),
                     [&](const AttentionStep& step) { return step.supports_backward(p); });
}

void attention(Tensor& y, Tensor& lse, Tensor& kept, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& bias, const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  if (lse.numel() == 0) return;
  check_sizes("attention", q, k);
  in_batches(q.size(0), [&](const auto& part) {
    const AttentionForward p{part(q),       part(k), part(v), part(bias), slopes,
                             part(allowed), form,    part(y), part(lse),  part(kept)};
    choose_attention(setting(), p).run(p);
  });
}

void attention_backward(Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias, const Tensor& dy,
                        const Tensor& dlse, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& y, const Tensor& kept, const Tensor& lse, const Tensor& bias,
                        const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  if (q.size(0) * q.size(1) == 0) return fill(dk, 0), fill(dv, 0);  // keys that no query head reads
  check_sizes("attention_backward", q, k);
  if (dbias.defined()) fill(dbias, 0);
  in_batches(q.size(0), [&](const auto& part) {
    const AttentionBackward p{
        {part(q), part(k), part(v), part(bias), slopes, part(allowed), form, part(y), part(lse), part(kept)},
        part(dy),
        part(dlse),
        part(dq),
        part(dk),
        part(dv),
        part(dbias)};
    choose_attention_backward(setting(), p).run_backward(p);
  });
}

}  // namespace vitrine::cuda
