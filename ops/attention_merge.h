// Attention that the kernel computes in several calls, merged by their log-sum-exp.
#pragma once

#include "ops/attention.h"

namespace vitrine {
namespace detail {

/// Attention with a sink: y is multiplied by the share of the keys, Σ e^s/(e^sink + Σ e^s) =
/// σ(log Σ e^s − sink).
Tensor attention_with_sink(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options);

/// Whether a window hides a key that `first` shows again.
bool shows_first_keys(const AttentionForm& form, int64_t keys);
/// Attention with such a window, in time that grows with queries × (window + first). The window is
/// one call of the kernel, the first keys outside it are another. With log-sum-exps l₁ and l₂ the
/// two are averaged with the weights softmax(l₁, l₂); LASER averages their exponentials.
AttentionResult attention_with_first_keys(const Tensor& q, const Tensor& k, const Tensor& v,
                                          const AttentionOptions& options);

}  // namespace detail
}  // namespace vitrine
