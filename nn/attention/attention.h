// Attention as a composition of parts, chosen by name:
//
//   prepare(q, k) → score → score_mod → mask → softmax → read
//
//   "standard"                 scaled dot product, softmax, weighted mean
//   "laser+qk_norm+alibi"      LASER read over the values, normalized queries and keys, ALiBi distances
#pragma once

#include <optional>
#include <string>

#include "nn/module.h"

namespace vitrine::nn {

/// Which keys a query may see. Query i stands at position i + (Tk − Tq): the last query is aligned with the last key.
struct AttentionMask {
  bool causal = false;
  Tensor allowed;  ///< bool, true = visible, broadcast to [B, H, Tq, Tk]; undefined = all

  /// Everything combined, [.., Tq, Tk]; undefined where nothing is hidden.
  Tensor combined(int64_t queries, int64_t keys, Device device) const;
};

struct AttentionSetting {
  enum class Score { dot, cosine };
  enum class QkNorm { none, layer, rms };
  /// What multiplies the scores. For `dot` all but `constant` come on top of 1/√D; for `cosine` the scale is the whole
  /// factor. `optimal`: the gradient-optimal scale of nn/attention/scale.h at n = context/2.
  enum class Scale { standard, optimal, entropy, constant };
  enum class Read { mean, laser };

  Score score = Score::dot;
  QkNorm qk_norm = QkNorm::none;
  Scale scale = Scale::standard;
  double constant = 1;
  bool temperature = false;  ///< a learned scale per channel of q
  bool rotary = false;
  bool alibi = false;
  double softcap = 0;  ///< c·tanh(s/c), 0 = none
  Read read = Read::mean;
};

/// "laser+qk_norm+alibi" as a setting. An unknown part is an error that suggests the nearest known one; parts that exclude
/// each other are an error that says why.
AttentionSetting parse_attention(const std::string& name);
/// The parts that parse_attention knows, one a line with what it does.
std::string attention_parts();

/// What attention did, for display and for gradients by path.
struct AttentionTrace {
  Tensor q, k, v;  ///< after preparation, [B, H, T, D]
  Tensor weights;  ///< [B, H, Tq, Tk]
  double scale = 1;
};

/// One attention mechanism over heads that are already split: q [B, H, Tq, D], k and v [B, Hkv, Tk, D] → [B, H, Tq, D].
/// Query head h reads key head h / (H/Hkv). A query that sees no key gives 0, and its gradient is 0.
class Attention : public Module {
 public:
  /// `context`: the longest sequence, for the scales that depend on it.
  Attention(AttentionSetting setting, int64_t heads, int64_t head_size, int64_t context);

  /// `first`: the position of the first query and key, for rotary positions; keys come prepared by prepare_keys().
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                 int64_t first_query = 0, AttentionTrace* trace = nullptr) const;
  /// Normalized and rotated keys: what a cache keeps.
  Tensor prepare_keys(const Tensor& k, int64_t first) const;
  double scale() const { return scale_; }
  const AttentionSetting& setting() const { return setting_; }
  void fields(Fields& f) override;

  Parameter query_gain, query_bias, key_gain, key_bias;  ///< of QK-norm
  Parameter log_temperature;                             ///< [D]; q is multiplied by softplus(w)/log 2

 private:
  Tensor prepare_queries(const Tensor& q, int64_t first) const;
  Tensor normalize(const Tensor& x, const Parameter& gain, const Parameter& bias) const;

  AttentionSetting setting_;
  double scale_;
  Tensor slopes_;  ///< of ALiBi, [H, 1, 1]
};

/// log(weights·e^v), computed so that neither small nor large values lose digits (nn/attention/laser.cpp).
Tensor laser_read(const Tensor& weights, const Tensor& scores, const Tensor& v);

/// Rotates pairs (x_i, x_{i + D/2}) of [.., T, D] by position·base^(−2i/D). Su et al. 2021.
Tensor rotate(const Tensor& x, int64_t first_position, double base = 10000);

/// 2^(−8(i + 1)/H); for H that is no power of two the slopes of the power below, then every other one of twice that power.
/// Press, Smith, Lewis 2021.
Tensor alibi_slopes(int64_t heads);

}  // namespace vitrine::nn
