// The ladder of attention: the same function four times, each step with one idea more than the one
// before. VITRINE_CUDA_ATTENTION chooses one (docs/cuda.md).
#pragma once

#include <span>
#include <string_view>

#include "ops/kernels.h"

namespace vitrine::cuda {

/// Arguments of the kernel `attention` (ops/kernels.h). The last three are written.
struct AttentionForward {
  Tensor q, k, v, bias, slopes, allowed;
  AttentionForm form;
  Tensor y, lse, kept;
};

/// And of `attention_backward`, which reads y, lse and kept as the forward has left them, and
/// writes the last three.
struct AttentionBackward : AttentionForward {
  Tensor dy, dq, dk, dv;
};

struct AttentionStep {
  std::string_view name;
  /// Whether it can do this forward, on the current device.
  bool (*supports)(const AttentionForward& p);
  void (*run)(const AttentionForward& p);
  /// And this backward. A step whose forward cannot do a case does not do its backward, so that a
  /// backward meets what its own forward or that of a step above it kept.
  bool (*supports_backward)(const AttentionBackward& p);
  void (*run_backward)(const AttentionBackward& p);
};

/// From the simplest, which supports every attention, to the fastest.
std::span<const AttentionStep> attention_steps();

/// The step that runs p under VITRINE_CUDA_ATTENTION=setting: the one of that name, or where it
/// does not support p the next one below that does. "auto" begins at the top. An error lists the
/// names when `setting` is none.
const AttentionStep& choose_attention(std::string_view setting, const AttentionForward& p);
const AttentionStep& choose_attention_backward(std::string_view setting, const AttentionBackward& p);

// One file a step and a pass, in the order of the ladder.
bool naive_attention_supports(const AttentionForward& p);
void naive_attention(const AttentionForward& p);
bool naive_attention_backward_supports(const AttentionBackward& p);
void naive_attention_backward(const AttentionBackward& p);
bool tiled_attention_supports(const AttentionForward& p);
void tiled_attention(const AttentionForward& p);
bool tiled_attention_backward_supports(const AttentionBackward& p);
void tiled_attention_backward(const AttentionBackward& p);
bool tensor_core_attention_supports(const AttentionForward& p);
void tensor_core_attention(const AttentionForward& p);
bool tensor_core_attention_backward_supports(const AttentionBackward& p);
void tensor_core_attention_backward(const AttentionBackward& p);
bool hopper_attention_supports(const AttentionForward& p);
void hopper_attention(const AttentionForward& p);
bool hopper_attention_backward_supports(const AttentionBackward& p);
void hopper_attention_backward(const AttentionBackward& p);

}  // namespace vitrine::cuda
