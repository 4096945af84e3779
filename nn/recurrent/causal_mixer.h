// The common base of recurrences that read x themselves and have their own projections: RWKV and
// Mamba.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/mixer.h"

namespace vitrine::nn {

/// x [B, T, C] → [B, T, C], from the first position to the last, with a state of a fixed size.
/// Positions after the length of a row have no effect, and give 0. Errors: a mixer that is not
/// causal; a mask that hides pairs of positions; a source; a state and lengths at once.
class CausalMixer : public Mixer {
 public:
  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string kind() const override { return name_; }

 protected:
  CausalMixer(std::string name, const MixerOptions& options);

  /// The outputs of x. `state` is that before x, empty before the first position, and afterwards
  /// that after x. A trace, if it is not null, receives the weights.
  virtual Tensor run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace) const = 0;

  /// The weights of a read that is linear in its values: column j [B, 1, T, T] is the mean over the
  /// channels of read(v), where v [B, T, channels] is 1 at position j and 0 elsewhere.
  static Tensor weights_of(int64_t batch, int64_t time, int64_t channels, const Tensor& like,
                           const std::function<Tensor(const Tensor& v)>& read);

  MixerOptions options_;

 private:
  std::string name_;
};

/// The previous position of x [B, T, C]. Before the first one it is `previous` [B, C], or 0 if that
/// is undefined.
Tensor shifted(const Tensor& x, const Tensor& previous);

}  // namespace vitrine::nn
