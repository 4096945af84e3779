// The universal Transformer: one block, applied several times.
#pragma once

#include <memory>
#include <vector>

#include "nn/transformer/block.h"
#include "nn/transformer/halting.h"

namespace vitrine::nn {

/// The sinusoids of the positions past, past + 1, …, plus the sinusoid of step n for all of them
/// (nn/attention/positions.h). [count, width]; with padding (int64 [B]) the positions of row b
/// count from padding[b], and the result is [B, count, width]. The width, the dtype and the device
/// are those of `like`. Dehghani et al. 2019, equations 6 and 7.
Tensor universal_coordinates(int64_t past, int64_t count, int64_t n, const Tensor& like,
                             const Tensor& padding = {});

struct UniversalOptions {
  BlockOptions block = {};      ///< of the one block; without cross-attention
  HaltingOptions halting = {};  ///< the number of steps per position
  /// Run each step again in the backward pass, to save memory; not with a state or traces.
  bool recompute = false;
};

/// Each step adds the coordinates and applies the same block: s ← block(s + coordinates(n)). A
/// position takes as many steps as its halting probability says. The width is even. Errors:
/// cross-attention, experts, an odd width. Dehghani et al. 2019.
class UniversalTransformer : public Module {
 public:
  explicit UniversalTransformer(const UniversalOptions& options);
  /// x [B, T, C]; the result has states [B, T, C], and ponder cost and steps [B, T]. With a state,
  /// x continues its positions. The block is then applied max_steps times even if all positions
  /// have halted before, because later positions need the keys of each step. `traces`, if not null,
  /// receives one trace per step.
  Halted forward(const Tensor& x, const MixerCall& call = {},
                 std::vector<MixerTrace>* traces = nullptr) const;
  /// The states of the block in each step, before the first position.
  std::unique_ptr<StateList> make_state(int64_t batch, int64_t capacity) const;
  void fields(Fields& f) override;
  UniversalTransformer clone();

  TransformerBlock block;
  Halting halting;

 private:
  UniversalOptions options_;
};

}  // namespace vitrine::nn
