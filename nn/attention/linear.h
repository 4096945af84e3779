// Attention whose weights are products of positive features: linear attention, and the common base
// of such attentions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/attention/feature_read.h"
#include "nn/attention/names.h"

namespace vitrine::nn {

/// w_ij = φ(q_i)·φ(k_j), divided by their sum over the visible keys j. Time and memory are linear
/// in the length, and the state of decoding has a fixed size (nn/attention/feature_read.h). The
/// features are float32 for 16-bit dtypes. Parts prepare q, k and v, read the values and combine
/// the heads. Errors: parts that these weights have no use for; a mask with a bias, a window, or an
/// `allowed` that differs from query to query.
class FeatureAttention : public Attention {
 public:
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                 DecodingState* state = nullptr, MixerTrace* trace = nullptr) const override;
  bool needs_positions() const override;
  /// For each query head and feature: the sum that the weighted mean reads, or the logarithm of a
  /// mass and a value for another read-out.
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string explain(bool weights_wanted = false, const AttentionMask& mask = {}) const override;
  void fields(Fields& f) override;

  std::vector<std::unique_ptr<AttentionPart>> parts;  ///< one per part of the name

 protected:
  /// How a mechanism differs: its name, and whether φ(q)·φ(k) is a function of q·k, so that parts
  /// may rotate q and k.
  struct Kind {
    std::string name;
    bool of_dot_products = false;
    double scale = 1;  ///< of q·k, for the statistics of a head; NaN: no softmax is approximated
  };
  FeatureAttention(Kind kind, AttentionName parts, const AttentionSizes& sizes);
  struct Features {
    Tensor q, k;  ///< [B, H, Tq, F] and [B, Hkv, Tk, F]
  };
  /// φ(q) and φ(k) ≥ 0, each row from its own position alone. The weighted mean reads by them. A
  /// factor per query is free, since the weights are normalized; a factor of all keys too.
  virtual Features features(const Tensor& q, const Tensor& k) const = 0;
  /// log φ(q) and log φ(k), which are finite. Other read-outs read by them.
  virtual Features log_features(const Tensor& q, const Tensor& k) const = 0;

  AttentionName name_;
  AttentionSizes sizes_;

 private:
  void check_parts() const;
  const ReadOut* read_out() const;

  Kind kind_;
};

/// φ(x) = elu(x) + 1: e^x below 0, and 1 + x above. A query for which all φ(q)·φ(k) are
/// below 2^−100 in float32 (2^−900 in float64), as for q = k = −35, reads about 0. Katharopoulos et
/// al. 2020.
class LinearAttention : public FeatureAttention {
 public:
  LinearAttention(const AttentionName& parts, const AttentionSizes& sizes);
  LinearAttention clone();

 private:
  Features features(const Tensor& q, const Tensor& k) const override;
  Features log_features(const Tensor& q, const Tensor& k) const override;
};

}  // namespace vitrine::nn
