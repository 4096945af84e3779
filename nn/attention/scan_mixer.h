// The common base of mixers whose heads are linear recurrences over a matrix: retention, gated
// linear attention and the delta rule.
#pragma once

#include <memory>
#include <string>

#include "nn/layers/linear.h"
#include "nn/mixer.h"
#include "ops/linear_scan.h"

namespace vitrine::nn {

/// [q, k, v] = x·Wᵀ + b, split into heads. Each head has a state S [D, D], which decays by its own
/// rule, takes up kᵀ·v, and is read by q (ops/linear_scan.h). The outputs are normalized per head,
/// multiplied by a gate silu(x·W_gᵀ) if there is one, concatenated, and projected by `out`. Query
/// heads share key heads as in attention. A hidden key adds nothing to the state. The weights of a
/// trace are those of the values of x, so that o_i = Σ_j w_ij·v_j without earlier positions; they
/// may be negative. Errors: a mask that is not causal, or that a state cannot express; a source.
class ScanMixer : public Mixer {
 public:
  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  /// The matrix S of each query head.
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string kind() const override { return name_; }
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;

  Linear query_key_value, out;   ///< [C + 2·Hkv·D, C] and [C, C]
  std::unique_ptr<Linear> gate;  ///< [C, C], or null

 protected:
  enum class Gate : bool { no, yes };
  ScanMixer(std::string name, const MixerOptions& options, Gate gate);

  /// q, k, v [B, H, T, D] and the decays of the scan.
  struct Heads {
    Tensor q, k, v;
    LinearScanOptions scan;
  };
  /// Prepares q, k and v and sets the decays, for x [B, T, C] at the positions from `first` on.
  virtual void prepare(Heads& heads, const Tensor& x, int64_t first) const = 0;
  /// Normalizes the outputs of the heads [B, H, T, D].
  virtual Tensor normalized(const Tensor& o) const = 0;

  MixerOptions options_;

 private:
  Heads project(const Tensor& x) const;
  void check_call(const Tensor& x, const MixerCall& call) const;
  void show(MixerTrace& trace, const Heads& heads, const Tensor& seen) const;

  std::string name_;
  int64_t head_size_, key_heads_;
};

}  // namespace vitrine::nn
