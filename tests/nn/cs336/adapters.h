// The functions of the library that compute the cases of CS336.
#pragma once

#include "tests/nn/cs336/case.h"

namespace vitrine::test::cs336 {

using Case = const Cs336Case&;
/// Results by the name of the expected tensor.
using Results = std::vector<std::pair<std::string, Tensor>>;

// Layers (layers.cpp). x is [.., T, C]; `prefix` is the prefix of the weights' names.
Tensor norm(Case c, const Tensor& x, const std::string& name);  ///< RMSNorm
/// With w3: SwiGLU; without it: GELU of w1.
Tensor feed_forward(Case c, const Tensor& x, const std::string& prefix);
Tensor sdpa(Case c);
Tensor rope(Case c, const Tensor& x);
/// Causal, with rotary positions if the case says so.
Tensor self_attention(Case c, const Tensor& x, const std::string& prefix);
Tensor block(Case c, const Tensor& x, const std::string& prefix);
/// By functions, and also by the module Gpt if it has the same form: learned positions, or rotary
/// positions of base 10000 from 0 on, and eps 1e-5.
Results language_model(Case c);

// Training (training.cpp).
/// The gradients "grad:0", "grad:1", … are clipped together. Each is compared with "expected:0", …;
/// a single one is compared with "expected".
Results clipping(Case c);
Results adamw(Case c);
/// The rates of the iterations in `input`, or of 0, 1, 2, …
Results schedule(Case c);

}  // namespace vitrine::test::cs336
