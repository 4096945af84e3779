// The universal Transformer: one block, applied several times.
#pragma once

#include "nn/transformer/halting.h"
#include "nn/transformer/stack.h"

namespace vitrine::nn {

/// [count, width]: the sinusoids of the positions 0, 1, …, plus the sinusoid of step n for all of
/// them (nn/attention/positions.h). Dehghani et al. 2019, equations 6 and 7.
Tensor universal_coordinates(int64_t count, int64_t width, int64_t n, DType dtype = DType::float32,
                             Device device = Device::cpu);

struct UniversalOptions {
  BlockOptions block = {};      ///< of the one block; without cross-attention
  HaltingOptions halting = {};  ///< the number of steps per position
};

/// Each step adds the coordinates and applies the same block: s ← block(s + coordinates(n)). A
/// position takes as many steps as its halting probability says. The width is even. It has no
/// decoding state: a position that has halted would need the keys of positions that go on.
/// Errors: cross-attention, experts, an odd width. Dehghani et al. 2019.
class UniversalTransformer : public Module {
 public:
  explicit UniversalTransformer(const UniversalOptions& options);
  /// x [B, T, C]; the result has states [B, T, C], and ponder cost and steps [B, T].
  Halted forward(const Tensor& x, const MixerCall& call = {}) const;
  void fields(Fields& f) override;
  UniversalTransformer clone();

  TransformerBlock block;
  Halting halting;

 private:
  UniversalOptions options_;
};

}  // namespace vitrine::nn
