// The ladder of attention: four implementations of one function. Each step adds one idea to the
// previous step. VITRINE_CUDA_ATTENTION chooses a step (docs/cuda.md).
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

/// Arguments of `attention_backward`, which reads y, lse and kept from the forward, and writes dq,
/// dk, dv and, if it is defined, dbias.
struct AttentionBackward : AttentionForward {
  Tensor dy, dlse, dq, dk, dv, dbias;
};

struct AttentionStep {
  std::string_view name;
  /// Whether the step supports this forward on the current device.
  bool (*supports)(const AttentionForward& p);
  void (*run)(const AttentionForward& p);
  /// Whether the step supports this backward. A step supports the backward of a case only if it
  /// supports the forward. So `kept` comes from the step's own forward, or from the forward of a
  /// higher step.
  bool (*supports_backward)(const AttentionBackward& p);
  void (*run_backward)(const AttentionBackward& p);
};

/// All steps, from the simplest, which supports every attention, to the fastest.
std::span<const AttentionStep> attention_steps();

/// The step that runs p under VITRINE_CUDA_ATTENTION=setting: the step of that name, or the next
/// lower step that supports p. "auto" begins at the top. If `setting` is not a name of a step, the
/// error lists the names.
const AttentionStep& choose_attention(std::string_view setting, const AttentionForward& p);
const AttentionStep& choose_attention_backward(std::string_view setting, const AttentionBackward& p);

// One file per step and pass, in the order of the ladder.
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
