// Position embeddings of tokens that continue a sequence, in a batch that may have padding.
#pragma once

#include "core/names.h"
#include "core/tensor.h"
#include "nn/transformer/mixers.h"

namespace vitrine::nn {

/// The position embedding. `automatic`: learned, or none if the attention itself depends on
/// positions (rotary, alibi).
enum class Positions { automatic, learned, sinusoidal, none };
inline EnumNames<Positions> names_of(Positions) {
  return {"kind of positions",
          {{"automatic", Positions::automatic},
           {"learned", Positions::learned},
           {"sinusoidal", Positions::sinusoidal},
           {"none", Positions::none}},
          " (rotary and alibi are parts of attention)"};
}

/// The kind that `automatic` means for this mixer; another kind is returned as it is.
Positions resolved(Positions positions, const MixerOptions& mixer);

/// The rows past, past + 1, … of a table [positions, C], for `time` tokens: [T, C]. If `padding`
/// (int64 [B], see StackCall) is defined, the positions of row b count from padding[b], and the
/// result is [B, T, C].
Tensor rows_at(const Tensor& table, int64_t past, int64_t time, const Tensor& padding);

/// The same for sinusoidal positions of `width` channels, with the dtype and device of `like`.
Tensor sinusoidal_rows(int64_t width, int64_t past, int64_t time, const Tensor& padding, const Tensor& like);

}  // namespace vitrine::nn
