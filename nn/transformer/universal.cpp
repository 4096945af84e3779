#include "nn/transformer/universal.h"

#include "core/record.h"
#include "nn/attention/positions.h"
#include "ops/elementwise.h"

namespace vitrine::nn {
namespace {

const UniversalOptions& checked(const UniversalOptions& o) {
  check(!o.block.cross && o.block.experts.count == 0,
        "UniversalTransformer: the block has a cross-attention or experts, wanted a block without both");
  check(o.block.mixer.width % 2 == 0,
        "UniversalTransformer: the width {} is odd, and coordinates come in pairs of channels",
        o.block.mixer.width);
  return o;
}

}  // namespace

Tensor universal_coordinates(int64_t count, int64_t width, int64_t n, DType dtype, Device device) {
  return sinusoidal_positions(count, width, 1e4, 0, dtype, device) +
         sinusoidal_positions(1, width, 1e4, n, dtype, device);
}

UniversalTransformer::UniversalTransformer(const UniversalOptions& o)
    : block(checked(o).block), halting(o.block.mixer.width, o.halting), options_(o) {}

Halted UniversalTransformer::forward(const Tensor& x, const MixerCall& call) const {
  check(x.rank() == 3, "UniversalTransformer: x is {}, wanted [B, T, {}]", x.shape(),
        options_.block.mixer.width);
  check(call.state == nullptr, "UniversalTransformer: it has no decoding state, and one is given");
  MixerCall own = call;
  own.mask.causal = options_.block.mixer.causal;
  return halting.forward(x, [&](const Tensor& s, int64_t n) {
    const ModuleScope scope("step." + std::to_string(n));
    return block.forward(s + universal_coordinates(s.size(1), s.size(2), n, s.dtype(), s.device()), own);
  });
}

void UniversalTransformer::fields(Fields& f) {
  f("block", block);
  f("halting", halting);
}

UniversalTransformer UniversalTransformer::clone() {
  return clone_into([this] { return UniversalTransformer(options_); });
}

}  // namespace vitrine::nn
